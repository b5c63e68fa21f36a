"""Devices that do not exist."""

import pytest
import torch

from driver import library

BAD_INDICES = [2, 63, 99, 127]


@pytest.mark.parametrize("index", BAD_INDICES)
@pytest.mark.parametrize(
    "call",
    [
        lambda i: torch.ones(1).to(f"openreg:{i}"),
        lambda i: torch.ones(1).openreg(i),
        lambda i: torch.ones(1, device="openreg:0").to(f"openreg:{i}"),
        lambda i: torch.empty(1, device=f"openreg:{i}"),
        lambda i: torch.empty(0, device=f"openreg:{i}"),
        lambda i: torch.empty_strided((1,), (1,), device=f"openreg:{i}"),
        lambda i: torch.tensor([1.0], device=f"openreg:{i}"),
        lambda i: torch.openreg.set_device(i),
        lambda i: torch.openreg.device(i).__enter__(),
        lambda i: torch.openreg.synchronize(i),
        lambda i: torch.openreg.current_stream(i),
        lambda i: torch.openreg.default_stream(i),
        lambda i: torch.openreg.Stream(i),
        lambda i: torch.Stream(device=f"openreg:{i}"),
        lambda i: torch.UntypedStorage(1, device=f"openreg:{i}"),
    ],
    ids=[
        "to",
        "openreg",
        "between devices",
        "empty",
        "empty of no bytes",
        "empty_strided",
        "tensor",
        "set_device",
        "device",
        "synchronize",
        "current_stream",
        "default_stream",
        "Stream",
        "torch.Stream",
        "UntypedStorage",
    ],
)
def test_device_that_does_not_exist_is_an_accelerator_error(call, index):
    with pytest.raises(torch.AcceleratorError, match="device index is out of range"):
        call(index)
    assert torch.openreg.current_device() == 0


@pytest.mark.parametrize("index", [128, 200, 300, 2**31, 2**40])
def test_index_that_is_no_device_index_at_all_is_an_error(index):
    with pytest.raises(RuntimeError, match="invalid device ordinal"):
        torch.openreg.set_device(index)
    with pytest.raises(RuntimeError, match="invalid device ordinal"):
        torch.openreg.synchronize(index)


@pytest.mark.parametrize("index", [-1, 2, 99])
def test_properties_of_a_device_that_does_not_exist_are_an_assertion(index):
    for ask in (
        torch.openreg.get_device_properties,
        torch.openreg.get_device_name,
        torch.openreg.get_device_capability,
    ):
        with pytest.raises(AssertionError, match=f"Invalid device id {index}"):
            ask(index)


def test_error_carries_the_drivers_code():
    with pytest.raises(torch.AcceleratorError) as error:
        torch.openreg.set_device(99)
    assert error.value.error_code == library().orSetDevice(99)


@pytest.mark.parametrize("device", ["cpu", torch.device("cpu"), "meta"])
def test_device_of_another_kind_is_a_value_error(device):
    for call in (
        torch.openreg.set_device,
        torch.openreg.device,
        torch.openreg.synchronize,
        torch.openreg.current_stream,
        torch.openreg.get_device_properties,
        torch.openreg.Stream,
    ):
        with pytest.raises(ValueError, match="Expected an openreg device"):
            call(device)


def test_device_still_works_after_bad_indices():
    with pytest.raises(torch.AcceleratorError):
        torch.ones(1, device="openreg:99")
    assert torch.ones(2, device="openreg").tolist() == [1.0, 1.0]
