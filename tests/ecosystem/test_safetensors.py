"""Files of safetensors: saved from the device, loaded straight to it."""

import numpy as np
import pytest
import safetensors.numpy
import safetensors.torch
import torch

from torch_openreg.integrations.safetensors import (
    install,
    load_file,
    safe_open,
    uninstall,
)

ORIGINAL = safetensors.safe_open

DTYPES = [
    torch.float32,
    torch.float64,
    torch.float16,
    torch.bfloat16,
    torch.int64,
    torch.uint8,
    torch.bool,
    torch.float8_e4m3fn,
]


@pytest.fixture
def tensors() -> dict[str, torch.Tensor]:
    return {
        str(dtype): torch.arange(24).remainder(3).reshape(2, 3, 4).to(dtype)
        for dtype in DTYPES
    } | {"empty": torch.empty(0, 5), "scalar": torch.tensor(2.5)}


@pytest.fixture
def path(tensors, tmp_path):
    file = tmp_path / "model.safetensors"
    safetensors.torch.save_file(tensors, file, metadata={"format": "pt"})
    return file


def test_the_library_itself_refuses_the_device(path):
    """As long as it does, the shim has a reason."""
    with pytest.raises(safetensors.SafetensorError, match="openreg"):
        safetensors.torch.load_file(path, device="openreg:0")


@pytest.mark.parametrize("device", ["openreg", "openreg:1", torch.device("openreg:1")])
def test_a_file_is_loaded_to_the_device(path, tensors, device):
    loaded = load_file(path, device)
    assert loaded.keys() == tensors.keys()
    place = torch.device(device)
    for name, tensor in loaded.items():
        assert tensor.device == torch.device("openreg", place.index or 0)
        assert tensor.dtype == tensors[name].dtype
        # Not torch.equal: it does not know every dtype.
        assert tensor.tolist() == tensors[name].tolist()


def test_parts_of_a_file_are_loaded_by_name_and_slice(path, tensors):
    with safe_open(path, framework="pt", device="openreg") as file:
        assert sorted(file.keys()) == sorted(tensors)
        assert file.metadata() == {"format": "pt"}
        part = file.get_slice("torch.float32")
        assert part.get_shape() == [2, 3, 4]
        assert part.get_dtype() == "F32"
        taken = part[:, 1]
    assert taken.device.type == "openreg"
    assert torch.equal(taken.cpu(), tensors["torch.float32"][:, 1])


def test_tensors_are_saved_from_the_device(path, tensors, tmp_path):
    """The library needs no help for that."""
    copy = tmp_path / "copy.safetensors"
    safetensors.torch.save_file(load_file(path, "openreg:1"), copy, {"format": "pt"})
    assert copy.read_bytes() == path.read_bytes()


def test_a_model_on_the_device_is_saved_and_loaded(tmp_path):
    """Nor for that."""
    file = tmp_path / "linear.safetensors"
    saved, loaded = (torch.nn.Linear(3, 2).to("openreg") for _ in range(2))
    safetensors.torch.save_model(saved, file)
    safetensors.torch.load_model(loaded, file)
    assert loaded.weight.device.type == "openreg"
    assert torch.equal(loaded.weight, saved.weight)


def test_a_missing_device_is_an_error_before_anything_is_read(path):
    with pytest.raises(RuntimeError, match="invalid device ordinal"):
        load_file(path, "openreg:9")
    with pytest.raises(RuntimeError, match="toaster"):
        load_file(path, "toaster")


def test_a_missing_file_a_bad_file_and_a_missing_name_are_errors(path, tmp_path):
    with pytest.raises(FileNotFoundError):
        load_file(tmp_path / "none.safetensors", "openreg")
    bad = tmp_path / "bad.safetensors"
    bad.write_bytes(path.read_bytes()[:40])
    with pytest.raises(safetensors.SafetensorError):
        load_file(bad, "openreg")
    with (
        safe_open(path, device="openreg") as file,
        pytest.raises(safetensors.SafetensorError, match="nobody"),
    ):
        file.get_tensor("nobody")
    with pytest.raises(ValueError, match="framework must be 'pt'"):
        safe_open(path, framework="np")


def test_all_tensors_come_at_once_and_in_the_order_of_the_file(path, tensors):
    with safe_open(path, device="openreg", backend="pread") as file:
        assert file.get_tensors().keys() == tensors.keys()
        with ORIGINAL(path, framework="pt") as original:
            assert file.offset_keys() == original.offset_keys()


# In the library's own place


@pytest.fixture
def installed():
    install()
    yield
    uninstall()


@pytest.mark.usefixtures("installed")
def test_installed_it_loads_for_those_who_call_the_library(path, tensors):
    loaded = safetensors.torch.load_file(path, device="openreg:1")
    assert loaded.keys() == tensors.keys()
    for name, tensor in loaded.items():
        assert tensor.device == torch.device("openreg:1")
        assert tensor.tolist() == tensors[name].tolist()
    with safetensors.safe_open(path, "pt", torch.device("openreg")) as file:
        assert file.get_tensor("scalar").device.type == "openreg"
    assert load_file(path, "openreg")["scalar"].item() == 2.5


@pytest.mark.usefixtures("installed")
def test_installed_it_leaves_other_calls_to_the_library(path, tensors):
    with safetensors.safe_open(path, framework="pt", backend="pread") as file:
        assert isinstance(file, ORIGINAL)
        assert file.get_tensor("scalar").device.type == "cpu"
    with safetensors.safe_open(path, framework="np", device="cpu") as file:
        assert isinstance(file.get_tensor("scalar"), np.ndarray)
    with pytest.raises(safetensors.SafetensorError, match="toaster"):
        safetensors.torch.load_file(path, device="toaster")
    with pytest.raises(TypeError):
        safetensors.safe_open(path)


def test_installing_twice_is_installing_once_and_can_be_undone(path):
    uninstall()
    assert safetensors.safe_open is ORIGINAL
    install()
    install()
    assert safetensors.torch.load_file(path, "openreg")["scalar"].item() == 2.5
    uninstall()
    assert safetensors.safe_open is ORIGINAL
    assert safetensors.torch.safe_open is ORIGINAL
    with pytest.raises(safetensors.SafetensorError, match="openreg"):
        safetensors.torch.load_file(path, device="openreg:0")


def test_what_others_have_put_there_since_stays():
    install()
    other = object()
    try:
        safetensors.safe_open = other
        uninstall()
        assert safetensors.safe_open is other
        assert safetensors.torch.safe_open is ORIGINAL
    finally:
        safetensors.safe_open = ORIGINAL


def test_the_shim_may_take_the_librarys_name_by_hand(path, monkeypatch):
    """It binds the original once, and so does not call itself."""
    monkeypatch.setattr(safetensors, "safe_open", safe_open)
    monkeypatch.setattr(safetensors.torch, "safe_open", safe_open)
    loaded = safetensors.torch.load_file(path, device="openreg")
    assert loaded["scalar"].item() == 2.5
