"""``torch_openreg.testing``: what fails a test, and what does not."""

import traceback

import pytest
import torch

from torch_openreg import testing


@pytest.fixture(autouse=True)
def _no_uses():
    torch.openreg.reset_fallback_report()
    yield
    torch.openreg.reset_fallback_report()


def fall_back(times: int = 1) -> None:
    x = torch.ones(2, device="openreg")
    for _ in range(times):
        torch.ops.openreg.custom_sub(x, x)


def test_devices_are_all_devices():
    count = torch.openreg.device_count()
    assert testing.devices() == [torch.device("openreg", n) for n in range(count)]


def test_no_fallback_lets_operators_of_the_device_pass():
    with testing.assert_no_fallback():
        x = torch.ones(2, device="openreg", requires_grad=True)
        (x * 2).sum().backward()
    assert x.grad.tolist() == [2, 2]


def test_no_fallback_lists_what_fell_back_within_the_block_only():
    fall_back(3)
    message = r"on copies:\n(.*\n)*openreg::custom_sub +2 "
    with pytest.raises(AssertionError, match=message), testing.assert_no_fallback():
        fall_back(2)
    with testing.assert_no_fallback():
        pass


def test_no_fallback_hides_no_other_error():
    @testing.assert_no_fallback()
    def fail() -> None:
        fall_back()
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail()


def test_no_fallback_is_a_decorator():
    with pytest.raises(AssertionError, match="custom_sub"):
        testing.assert_no_fallback()(fall_back)()


def test_no_sync_lets_queued_work_pass():
    x = torch.ones(2, device="openreg")
    with testing.assert_no_sync():
        y = (x + 1).relu()
    assert y.tolist() == [2, 2]


@pytest.mark.parametrize(
    "wait",
    [
        lambda x: x.sum().item(),
        lambda x: x.nonzero(),
        lambda x: x.cpu(),
        lambda x: torch.openreg.current_stream().synchronize(),
    ],
)
def test_no_sync_refuses_what_waits(wait):
    x = torch.ones(2, device="openreg")
    message = "the host waited for a device"
    with pytest.raises(AssertionError, match=message), testing.assert_no_sync():
        wait(x)
    wait(x)  # afterwards it may


def test_no_sync_restores_the_mode_and_hides_no_other_error():
    torch.openreg.set_sync_debug_mode("warn")
    try:
        with pytest.raises(RuntimeError, match="mine"), testing.assert_no_sync():
            raise RuntimeError("mine")
        assert torch.openreg.get_sync_debug_mode() == 1
    finally:
        torch.openreg.set_sync_debug_mode("default")


def test_a_waiting_line_is_where_the_error_comes_from():
    x = torch.ones(2, device="openreg")
    with pytest.raises(AssertionError) as caught, testing.assert_no_sync():
        x.tolist()
    cause = caught.value.__cause__
    assert isinstance(cause, RuntimeError)
    lines = [frame.line for frame in traceback.extract_tb(cause.__traceback__)]
    assert "x.tolist()" in lines


@pytest.mark.parametrize(
    ("requirement", "message"),
    [
        ({"devices": 0}, "devices must be at least 1, got 0"),
        ({"memory": -1}, "memory must not be negative, got -1"),
        (
            {"driver": "remote"},
            "driver must be 'inprocess' or 'isolated', got 'remote'",
        ),
    ],
)
def test_a_requirement_that_makes_no_sense_is_refused_at_once(requirement, message):
    with pytest.raises(ValueError, match=message):
        testing.requires(**requirement)
    with pytest.raises(ValueError, match=message):
        testing.missing_capability(**requirement)


def test_devices_have_what_they_have():
    count = torch.openreg.device_count()
    assert testing.missing_capability(devices=count, dtype=torch.bfloat16) is None
    missing = testing.missing_capability(devices=count + 1)
    assert missing == f"needs {count + 1} openreg devices, there are {count}"
