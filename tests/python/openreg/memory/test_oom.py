"""Out of memory: what is said, what is tried before, and how a program goes on."""

import gc
import math
import re
import threading

import pytest
import torch
from blocks import MIB, block, stat
from process import run_script
from torch import openreg

GIB = 1 << 30


@pytest.fixture(autouse=True)
def _no_limits():
    """Every test starts with empty caches and leaves no limit behind."""
    gc.collect()
    openreg.empty_cache()
    for device in range(openreg.device_count()):
        openreg.reset_accumulated_memory_stats(device)
    yield
    for device in range(openreg.device_count()):
        openreg.set_per_process_memory_fraction(1.0, device)


def allow(more: int, device: int = 0) -> None:
    """Let the device reserve that much more than it has."""
    total = openreg.mem_get_info(device)[1]
    allowed = openreg.memory_reserved(device) + more
    fraction = math.nextafter(allowed / total, 1)  # so that no byte is rounded off
    openreg.set_per_process_memory_fraction(fraction, device)


# What is raised


@pytest.mark.parametrize("device", [0, 1])
def test_more_than_the_memory_is_an_out_of_memory_error(device):
    twice = 2 * openreg.mem_get_info(device)[1]
    with pytest.raises(torch.OutOfMemoryError) as caught:
        block(twice, f"openreg:{device}")
    assert isinstance(caught.value, RuntimeError)
    assert f"Device {device} has a total capacity" in str(caught.value)
    assert (stat("num_ooms", device), stat("num_ooms", 1 - device)) == (1, 0)


def test_the_message_says_what_was_asked_and_where_the_memory_is():
    kept = block(20 * MIB), block(30 * MIB)
    free, total = openreg.mem_get_info()
    allocated = openreg.memory_allocated() / MIB
    with pytest.raises(torch.OutOfMemoryError) as caught:
        block(1 << 50)
    message = str(caught.value)
    assert message.startswith("OpenReg out of memory. Tried to allocate 1048576.00 GiB")
    assert f"total capacity of {total / GIB:.2f} GiB" in message
    assert f"of which {free / GIB:.2f} GiB is free" in message
    assert f"{allocated:.2f} MiB is allocated by PyTorch" in message
    assert re.search(r"is reserved by PyTorch but unallocated", message)
    assert "torch.openreg.empty_cache()" in message
    assert "OPENREG_MEMORY" in message
    assert "allowed" not in message
    del kept


@pytest.mark.parametrize("power", [50, 60, 62])
def test_absurd_sizes_are_out_of_memory_too(power):
    with pytest.raises(torch.OutOfMemoryError, match="Tried to allocate"):
        block(1 << power)
    assert stat("num_ooms") == 1


def test_sizes_that_are_no_sizes_are_ordinary_errors():
    with pytest.raises(RuntimeError, match="Storage size calculation overflowed"):
        torch.empty(1 << 62, dtype=torch.float64, device="openreg")
    with pytest.raises(RuntimeError, match="negative dimension"):
        torch.empty(-1, device="openreg")
    assert stat("num_ooms") == 0


@pytest.mark.parametrize(
    "call",
    [
        lambda: block(4096).resize_(1 << 50),
        lambda: block(4096).untyped_storage().resize_(1 << 50),
        lambda: block(1).expand(1 << 50).clone(),
        lambda: torch.zeros(1 << 50, device="openreg"),
        lambda: torch.empty_like(block(1).expand(1 << 50)).contiguous(),
        lambda: openreg.caching_allocator_alloc(1 << 50),
    ],
    ids=["resize_", "storage", "clone", "zeros", "contiguous", "raw"],
)
def test_whoever_needs_memory_gets_the_error_and_takes_nothing(call):
    before = openreg.memory_allocated()
    with pytest.raises(torch.OutOfMemoryError):
        call()
    gc.collect()
    assert openreg.memory_allocated() == before


# Afterwards


def test_the_device_works_afterwards():
    tensor = torch.arange(4.0, device="openreg")
    for _ in range(3):
        with pytest.raises(torch.OutOfMemoryError):
            block(1 << 50)
    assert (tensor + 1).tolist() == [1, 2, 3, 4]
    assert stat("num_ooms") == 3
    assert openreg.current_device() == 0


def test_memory_that_is_freed_afterwards_is_there():
    allow(64 * MIB)
    kept = block(40 * MIB)
    with pytest.raises(torch.OutOfMemoryError):
        block(40 * MIB)
    del kept
    assert block(64 * MIB).nbytes == 64 * MIB


def test_a_failed_resize_leaves_the_tensor():
    tensor = torch.arange(4.0, device="openreg")
    with pytest.raises(torch.OutOfMemoryError):
        tensor.untyped_storage().resize_(1 << 50)
    assert tensor.tolist() == [0, 1, 2, 3]


def test_the_error_reaches_the_caller_of_backward():
    class Greedy(torch.autograd.Function):
        @staticmethod
        def forward(context, x):
            return x.clone()

        @staticmethod
        def backward(context, grad):
            return block(1 << 50)

    leaf = torch.ones(2, device="openreg:1", requires_grad=True)
    with pytest.raises(torch.OutOfMemoryError):
        Greedy.apply(leaf).sum().backward()
    leaf.sum().backward()
    assert leaf.grad.tolist() == [1, 1]


def test_a_thread_without_memory_does_not_disturb_others():
    failures = []

    def ask_for_too_much() -> None:
        for _ in range(50):
            try:
                block(1 << 50)
            except torch.OutOfMemoryError:
                failures.append(1)

    thread = threading.Thread(target=ask_for_too_much)
    thread.start()
    sums = [block(4096).fill_(1).sum().item() for _ in range(50)]
    thread.join(timeout=60)
    assert sums == [4096] * 50
    assert len(failures) == 50


# Before: the cache is given back


def test_cached_blocks_in_the_way_are_given_back():
    cached = block(40 * MIB)
    del cached
    allow(20 * MIB)
    assert openreg.memory_reserved() >= 40 * MIB
    kept = block(50 * MIB)
    assert kept.nbytes == 50 * MIB
    assert (stat("num_alloc_retries"), stat("num_ooms")) == (1, 0)
    assert stat("num_device_free") == 1


def test_the_drivers_memory_can_run_out_as_well():
    script = """
        import torch
        o = torch.openreg
        block = lambda mib: torch.empty(mib << 20, dtype=torch.uint8, device="openreg")
        small = block(40)
        del small
        kept = block(50)
        print(o.mem_get_info()[1] >> 20, o.memory_reserved() >> 20)
        print(o.memory_stats()["num_alloc_retries"], o.memory_stats()["num_ooms"])
        try:
            block(20)
        except torch.OutOfMemoryError as error:
            print(error)
        del kept
        print(block(60).nbytes >> 20, torch.empty(60 << 20, device="openreg:1",
              dtype=torch.uint8).nbytes >> 20)
    """
    first, second, error, last = run_script(
        script, env={"OPENREG_MEMORY": "64MiB"}
    ).splitlines()
    assert (first, second, last) == ("64 50", "1 0", "60 60")
    assert "Tried to allocate 20.00 MiB" in error
    assert "total capacity of 64.00 MiB of which 14.00 MiB is free" in error
    assert "50.00 MiB is allocated by PyTorch" in error


def test_blocks_that_wait_for_a_stream_are_waited_for(gate, watch):
    side = openreg.Stream()
    tensor = block(40 * MIB)
    allow(10 * MIB)
    gate.hold(side)
    tensor.record_stream(side)
    del tensor
    sizes = []
    assert watch.waits(lambda: sizes.append(block(40 * MIB).nbytes))
    gate.open()
    watch.finish()
    assert sizes == [40 * MIB]
    assert stat("num_ooms") == 0


# The fraction of the memory that a process may have


def test_the_fraction_is_1_at_first_and_kept_per_device():
    assert openreg.get_per_process_memory_fraction() == 1
    openreg.set_per_process_memory_fraction(0.25, "openreg:1")
    assert openreg.get_per_process_memory_fraction(1) == 0.25
    assert openreg.get_per_process_memory_fraction(0) == 1


def test_more_than_the_fraction_is_an_out_of_memory_error():
    total = openreg.mem_get_info()[1]
    openreg.set_per_process_memory_fraction(0.5)
    with pytest.raises(torch.OutOfMemoryError) as caught:
        block(total * 3 // 4)
    allowed = re.search(r"free\. ([\d.]+) GiB allowed; ", str(caught.value))
    assert float(allowed[1]) == pytest.approx(total / 2 / GIB, abs=0.01)
    assert block(total // 4).nbytes == total // 4
    openreg.set_per_process_memory_fraction(1.0)
    assert block(total * 3 // 4).nbytes == total * 3 // 4


def test_what_is_cached_is_given_out_whatever_the_fraction():
    cached = block(1)
    del cached
    openreg.set_per_process_memory_fraction(0.0)
    assert block(1).nbytes == 1
    with pytest.raises(torch.OutOfMemoryError, match="0 bytes allowed"):
        block(30 * MIB)


@pytest.mark.parametrize("fraction", [-0.1, 1.1, float("nan"), float("inf")])
def test_a_fraction_out_of_range_is_a_value_error(fraction):
    with pytest.raises(ValueError, match="Allowed range: 0~1"):
        openreg.set_per_process_memory_fraction(fraction)


def test_a_fraction_must_be_a_float_of_a_device():
    with pytest.raises(TypeError, match="must be `float`"):
        openreg.set_per_process_memory_fraction(1)
    with pytest.raises(torch.AcceleratorError, match="device index is out of range"):
        openreg.set_per_process_memory_fraction(0.5, 99)


def test_settings_of_pytorchs_allocators_are_used():
    script = """
        import torch
        tensor = torch.empty(1200, dtype=torch.uint8, device="openreg")
        print(torch.openreg.memory_allocated())
        print(torch.openreg.memory._snapshot()["allocator_settings"]["PYTORCH_ALLOC_CONF"])
    """
    setting = "roundup_power2_divisions:4"
    printed = run_script(script, env={"PYTORCH_ALLOC_CONF": setting})
    assert printed == f"1536\n{setting}\n"
