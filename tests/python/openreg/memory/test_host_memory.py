"""Pinned host memory: what is pinned, and when a pinned block is used again."""

import gc
import threading

import pytest
import torch
from process import run_script
from torch import openreg

from driver import counters, fail


@pytest.fixture(autouse=True)
def _nothing_cached() -> None:
    """Every test starts without cached blocks, its sums and peaks at 0."""
    gc.collect()
    torch.accelerator.empty_host_cache()
    openreg.reset_accumulated_host_memory_stats()
    openreg.reset_peak_host_memory_stats()


# What is pinned


def test_pinning_copies_to_pinned_memory():
    tensor = torch.arange(6.0).reshape(2, 3).t()
    pinned = tensor.pin_memory()
    assert (tensor.is_pinned(), pinned.is_pinned()) == (False, True)
    assert pinned.data_ptr() != tensor.data_ptr()
    assert pinned.device.type == "cpu"
    assert torch.equal(pinned, tensor)
    assert pinned.stride() == tensor.stride()


def test_pinning_what_is_pinned_gives_the_same_tensor():
    pinned = torch.ones(3).pin_memory()
    assert pinned.pin_memory() is pinned


@pytest.mark.parametrize(
    "make",
    [
        lambda: torch.empty(3, pin_memory=True),
        lambda: torch.zeros(3, pin_memory=True),
        lambda: torch.full((3,), 2.0, pin_memory=True),
        lambda: torch.rand(3, pin_memory=True),
        lambda: torch.arange(3, pin_memory=True),
        lambda: torch.tensor([1, 2, 3], pin_memory=True),
        lambda: torch.empty_strided((3,), (2,), pin_memory=True),
        lambda: torch.empty_like(torch.ones(3), pin_memory=True),
        lambda: torch.ones(3).new_empty(3, pin_memory=True),
        lambda: torch.empty(3, pin_memory=True).resize_(10_000),
        lambda: torch.ones(3, device="openreg").to("cpu", non_blocking=True),
    ],
    ids=[
        "empty",
        "zeros",
        "full",
        "rand",
        "arange",
        "tensor",
        "empty_strided",
        "empty_like",
        "new_empty",
        "resize_",
        "to",
    ],
)
def test_new_tensors_are_pinned_if_they_shall_be(make):
    assert make().is_pinned()


@pytest.mark.parametrize(
    "derive",
    [
        lambda x: x[1:],
        lambda x: x.view(2, 3),
        lambda x: x.detach(),
        lambda x: x.view(torch.uint8)[5:],
        lambda x: torch.from_numpy(x.numpy()),
    ],
    ids=["slice", "view", "detach", "bytes", "numpy"],
)
def test_what_lies_in_pinned_memory_is_pinned(derive):
    assert derive(torch.ones(6).pin_memory()).is_pinned()


@pytest.mark.parametrize(
    "derive",
    [
        lambda x: x.clone(),
        lambda x: x + 1,
        lambda x: torch.empty_like(x),
        lambda x: x.to("openreg"),
        lambda x: x.to("openreg").cpu(),
        lambda x: x[:0].clone().pin_memory(),
    ],
    ids=["clone", "add", "empty_like", "on the device", "cpu", "empty"],
)
def test_what_is_made_from_pinned_memory_is_not_pinned(derive):
    assert not derive(torch.ones(6).pin_memory()).is_pinned()


@pytest.mark.filterwarnings("ignore:TypedStorage is deprecated")
@pytest.mark.parametrize("kind", ["untyped_storage", "storage"])
def test_storages_are_pinned(kind):
    storage = getattr(torch.ones(3), kind)()
    assert not storage.is_pinned()
    pinned = storage.pin_memory()
    assert pinned.is_pinned()
    assert pinned.tolist() == storage.tolist()
    assert getattr(torch.ones(3).pin_memory(), kind)().is_pinned()
    assert (
        torch.tensor([], dtype=torch.uint8)
        .set_(torch.ones(3).pin_memory().untyped_storage(), 2, (4,))
        .is_pinned()
    )


def test_pinning_keeps_gradients():
    assert torch.ones(3, requires_grad=True).pin_memory().requires_grad


def test_the_device_may_be_named_with_a_warning():
    with pytest.warns(DeprecationWarning, match="argument 'device'"):
        pinned = torch.ones(3).pin_memory("openreg")
    with pytest.warns(DeprecationWarning, match="argument 'device'"):
        assert pinned.is_pinned("openreg")


def test_only_dense_host_tensors_are_pinned():
    with pytest.raises(RuntimeError, match="only dense CPU tensors can be pinned"):
        torch.ones(3, device="openreg").pin_memory()
    with pytest.raises(RuntimeError, match="Only dense CPU tensors can be pinned"):
        torch.empty(3, device="openreg", pin_memory=True)


def test_more_than_there_is_cannot_be_pinned():
    with pytest.raises(RuntimeError, match="out of memory"):
        torch.empty(1 << 60, dtype=torch.uint8, pin_memory=True)
    assert torch.empty(1, pin_memory=True).is_pinned()


def test_asking_whether_something_is_pinned_initialises_nothing():
    script = """
        import torch
        print(torch.ones(3).is_pinned(), torch.openreg.is_initialized())
    """
    assert run_script(script) == "False False\n"


# When a block is used again


def pinned(size: int = 4096) -> torch.Tensor:
    return torch.empty(size, dtype=torch.uint8, pin_memory=True)


def test_a_freed_block_is_used_again():
    block = pinned()
    pointer = block.data_ptr()
    del block
    assert pinned().data_ptr() == pointer


@pytest.mark.parametrize("direction", ["to the device", "to the host"])
def test_a_block_with_a_queued_copy_is_used_again_only_after_it(gate, direction):
    block, remote = pinned(), torch.empty(4096, dtype=torch.uint8, device="openreg")
    pointer = block.data_ptr()
    side = openreg.Stream()
    gate.hold(side)
    with openreg.stream(side):
        if direction == "to the device":
            remote.copy_(block, non_blocking=True)
        else:
            block.copy_(remote, non_blocking=True)
    del block
    assert pinned().data_ptr() != pointer
    gate.open()
    side.synchronize()
    assert pointer in {each.data_ptr() for each in [pinned() for _ in range(3)]}


def test_the_queued_copy_of_a_freed_block_has_its_values(gate):
    gate.hold()
    block = torch.full((4096,), 5, dtype=torch.uint8, pin_memory=True)
    remote = block.to("openreg", non_blocking=True)
    del block
    others = [pinned().fill_(6) for _ in range(4)]
    gate.open()
    assert remote.tolist() == [5] * 4096
    del others


def test_a_part_of_a_block_keeps_the_whole_from_being_used_again(gate):
    block = pinned()
    pointer = block.data_ptr()
    gate.hold()
    remote = block[100:200].to("openreg", non_blocking=True)
    del block
    assert pinned().data_ptr() != pointer
    del remote


def test_blocks_may_be_freed_by_another_thread(gate):
    blocks = [pinned() for _ in range(8)]
    gate.hold()
    remotes = [block.to("openreg", non_blocking=True) for block in blocks]
    thread = threading.Thread(target=blocks.clear)
    thread.start()
    thread.join(timeout=60)
    gate.open()
    assert len(remotes) == 8


def test_a_block_can_be_freed_after_the_device_has_failed(gate, second_gate):
    """Freeing records on the stream that has used the block, which reports it.

    Nobody can catch that, so it is a warning, and the block is not used again.
    """
    side = openreg.Stream()
    block = pinned()
    pointer = block.data_ptr()
    gate.hold(side)
    with openreg.stream(side):
        remote = block.to("openreg", non_blocking=True)
    fail(side, "this kernel has failed")
    second_gate.hold(side)
    gate.open()
    second_gate.await_holds()
    del block
    second_gate.open()
    side.synchronize()
    assert pinned().data_ptr() != pointer
    assert remote.is_openreg


# Statistics


def test_blocks_are_powers_of_two():
    before = openreg.host_memory_stats()["allocated_bytes.current"]
    kept = [torch.empty(size, pin_memory=True) for size in (3, 1025)]
    after = openreg.host_memory_stats()["allocated_bytes.current"]
    assert after - before == 16 + 8192
    del kept


def test_pinned_memory_is_counted():
    base = openreg.host_memory_stats()
    block = pinned()
    stats = openreg.host_memory_stats()
    assert stats["active_requests.current"] == base["active_requests.current"] + 1
    assert stats["active_bytes.current"] == base["active_bytes.current"] + 4096
    assert stats["num_host_alloc"] == stats["allocations.allocated"] == 1
    del block
    stats = openreg.host_memory_stats()
    assert stats["active_requests.current"] == base["active_requests.current"]
    assert stats["allocated_bytes.current"] == base["allocated_bytes.current"] + 4096
    block = pinned()
    assert openreg.host_memory_stats()["num_host_alloc"] == 1
    del block
    torch.accelerator.empty_host_cache()
    stats = openreg.host_memory_stats()
    assert stats["allocated_bytes.current"] == base["allocated_bytes.current"]
    assert stats["num_host_free"] == 1


def test_the_drivers_memory_is_what_is_counted():
    torch.accelerator.empty_host_cache()
    before = counters().live_host_allocations
    blocks = [pinned(1 << 16) for _ in range(3)]
    assert counters().live_host_allocations == before + 3
    blocks.clear()
    assert counters().live_host_allocations == before + 3
    torch.accelerator.empty_host_cache()
    assert counters().live_host_allocations == before


def test_peaks_and_sums_of_pinned_memory_are_reset():
    block = pinned(1 << 20)
    del block
    torch.accelerator.empty_host_cache()
    assert openreg.host_memory_stats()["allocated_bytes.peak"] >= 1 << 20
    openreg.reset_peak_host_memory_stats()
    openreg.reset_accumulated_host_memory_stats()
    stats = openreg.host_memory_stats()
    assert stats["allocated_bytes.peak"] == stats["allocated_bytes.current"]
    assert stats["num_host_alloc"] == stats["allocations.freed"] == 0


def test_the_nested_statistics_of_pinned_memory_are_the_same_numbers():
    block = pinned()
    nested = openreg.host_memory_stats_as_nested_dict()
    flat = openreg.host_memory_stats()
    assert nested["active_bytes"]["peak"] == flat["active_bytes.peak"]
    assert list(flat) == sorted(flat)
    assert {"host_alloc_time.count", "host_free_time.total"} <= set(flat)
    del block
