"""Metadata of the backend on tensors, and formats of storages."""

import copy
import io

import pytest
import torch
from compare import DEVICE

import torch_openreg

BOTH = {"version_number": True, "format_number": True}
get = torch._utils.get_tensor_metadata
put = torch._utils.set_tensor_metadata


def marked(**names: bool) -> torch.Tensor:
    x = torch.arange(3.0, device=DEVICE)
    put(x, names or BOTH)
    return x


def loaded(x: object, **options: object) -> torch.Tensor:
    file = io.BytesIO()
    torch.save(x, file)
    file.seek(0)
    return torch.load(file, **options)


def test_a_tensor_has_none_until_it_is_set():
    x = torch.arange(3.0, device=DEVICE)
    assert get(x) == {}
    put(x, BOTH)
    assert get(x) == BOTH
    assert get(x + 1) == {}


@pytest.mark.parametrize("weights_only", [True, False])
def test_it_is_saved_and_loaded(weights_only: bool):
    x = marked()
    again = loaded(x, weights_only=weights_only)
    assert get(again) == BOTH
    assert again.device == x.device
    assert again.tolist() == x.tolist()
    state = loaded({"a": x, "b": x[:1]}, weights_only=weights_only)
    assert get(state["a"]) == BOTH


def test_it_is_dropped_on_the_host_and_kept_on_another_device():
    x = marked()
    assert get(loaded(x, map_location="cpu")) == {}
    assert get(loaded(x, map_location=f"{DEVICE}:1")) == BOTH


def test_what_is_given_is_what_is_there():
    x = marked(version_number=False)
    assert get(x) == {"version_number": False}
    put(x, {"format_number": True})
    assert get(x) == {"version_number": False, "format_number": True}
    put(x, {})
    assert get(x) == {"version_number": False, "format_number": True}


def test_the_same_tensor_again_keeps_it():
    x = marked()
    assert get(x.detach()) == BOTH
    assert get(copy.deepcopy(x)) in ({}, BOTH)  # a copy of the values is PyTorch's
    parameter = torch.nn.Parameter(x)
    assert get(loaded(parameter)) == BOTH


def test_bits_of_pytorchs_own_are_no_metadata_of_ours():
    x = torch.ones(2, device=DEVICE, dtype=torch.complex64).conj()
    put(x, BOTH)
    assert get(x) == {"conj": True, **BOTH}
    again = loaded(x)
    assert again.is_conj()
    assert get(again) == {"conj": True, **BOTH}


def test_an_unknown_name_is_refused_and_changes_nothing():
    x = marked(version_number=True)
    with pytest.raises(ValueError, match="no metadata 'colour', only 'version_number'"):
        put(x, {"format_number": True, "colour": True})
    assert get(x) == {"version_number": True}


def test_the_host_has_no_such_metadata():
    x = torch.ones(2)
    put(x, BOTH)
    assert get(x) == {}


# Storages


STORAGES = {
    "empty": lambda: torch.empty(3, device=DEVICE),
    "a result": lambda: torch.ones(3, device=DEVICE) + 1,
    "from the host": lambda: torch.ones(3).to(DEVICE),
    "no elements": lambda: torch.empty(0, device=DEVICE),
    "resized": lambda: torch.empty(0, device=DEVICE).resize_(3),
    "set": lambda: torch.empty(0, device=DEVICE).set_(),
    "an untyped storage": lambda: torch.empty(0, device=DEVICE).set_(
        torch.UntypedStorage(12, device=DEVICE)
    ),
    "a lazy clone": lambda: torch.ones(3, device=DEVICE)._lazy_clone(),
    "loaded": lambda: loaded(torch.ones(3, device=DEVICE)),
    "a parameter that was moved": lambda: torch.nn.Linear(2, 2).to(DEVICE).weight.data,
}


@pytest.mark.parametrize("name", STORAGES)
def test_every_storage_on_the_device_has_a_format(name: str):
    x = STORAGES[name]()
    assert torch_openreg._C._get_storage_format(x) == 0
    torch_openreg._C._set_storage_format(x, 7)
    assert torch_openreg._C._get_storage_format(x) == 7
    assert torch_openreg._C._get_storage_format(x.view(-1)) == 7
    assert torch_openreg._C._get_storage_format(x.clone()) == 0


def test_storages_without_bytes_stay_on_their_device():
    for index in (0, 1):
        x = torch.empty(0, device=f"{DEVICE}:{index}")
        assert x.untyped_storage().device == x.device
        assert torch.UntypedStorage(0, device=x.device).device == x.device


def test_the_hosts_storages_have_no_format():
    with pytest.raises(TypeError, match="expected a storage on an OpenReg device"):
        torch_openreg._C._get_storage_format(torch.ones(2))
