"""Device memory: how much a tensor takes, and what becomes of it afterwards."""

import pytest
import torch
from blocks import MIB, block, stat
from torch import openreg

pytestmark = pytest.mark.usefixtures("nothing_cached")


# How much a tensor takes


@pytest.mark.parametrize(
    ("size", "taken"),
    [(1, 512), (512, 512), (513, 1024), (4096, 4096), (MIB + 1, MIB + 512)],
)
def test_blocks_are_multiples_of_512_bytes(size, taken):
    before = openreg.memory_allocated()
    tensor = block(size)
    assert openreg.memory_allocated() - before == taken
    assert stat("requested_bytes.all.current") >= size
    del tensor
    assert openreg.memory_allocated() == before


@pytest.mark.parametrize(
    ("size", "reserved"),
    [
        (1, 2 * MIB),
        (MIB, 2 * MIB),
        (MIB + 1, 20 * MIB),
        (10 * MIB - 512, 20 * MIB),
        (10 * MIB, 10 * MIB),
        (11 * MIB + 1, 12 * MIB),
    ],
)
def test_segments_have_the_sizes_of_cudas(size, reserved):
    before = openreg.memory_reserved("openreg:1")
    tensor = block(size, "openreg:1")
    assert openreg.memory_reserved("openreg:1") - before == reserved
    assert tensor.nbytes == size


@pytest.mark.parametrize(
    ("size", "pool"), [(1024, "small"), (MIB, "small"), (MIB + 1, "large")]
)
def test_blocks_of_more_than_a_mebibyte_are_of_the_large_pool(size, pool):
    tensor = block(size)
    stats = openreg.memory_stats_as_nested_dict()["allocation"]
    grown = {name for name, value in stats.items() if value["allocated"] == 1}
    assert grown == {"all", f"{pool}_pool"}
    del tensor


def test_counts_of_a_small_and_of_a_large_tensor():
    """The same numbers as on a GPU."""
    names = (
        "allocation.all.allocated",
        "requested_bytes.all.allocated",
        "segment.all.allocated",
        "num_device_alloc",
    )
    small = block(100, "openreg:1")
    assert [stat(name, 1) for name in names] == [1, 100, 1, 1]
    large = block(64 * MIB, "openreg:1")
    assert [stat(name, 1) for name in names] == [2, 64 * MIB + 100, 2, 2]
    del small, large


@pytest.mark.parametrize("shape", [(0,), (3, 0), (0, 0, 7)])
def test_a_tensor_without_elements_takes_nothing(shape):
    before = openreg.memory_stats()
    tensor = torch.empty(shape, device="openreg:1")
    assert tensor.data_ptr() == 0
    assert tensor.untyped_storage().nbytes() == 0
    assert str(tensor.device) == "openreg:1"
    assert openreg.memory_stats() == before


def test_views_take_nothing_and_keep_the_whole_block():
    before = openreg.memory_allocated()
    whole = block(4096)
    allocated = openreg.memory_allocated()
    part = whole[:1]
    views = [whole.view(2, -1), whole.detach(), whole[::2], whole.expand(1, -1)]
    assert openreg.memory_allocated() == allocated
    assert part.data_ptr() == whole.data_ptr()
    del whole, views
    assert openreg.memory_allocated() == allocated
    del part
    assert openreg.memory_allocated() == before


def test_devices_are_counted_apart():
    before = openreg.memory_allocated(0)
    other = openreg.memory_allocated(1)
    tensor = block(4096, "openreg:1")
    assert openreg.memory_allocated(0) == before
    assert openreg.memory_allocated(1) == other + 4096
    with openreg.device(1):
        assert openreg.memory_allocated() == other + 4096
    del tensor


# The cache


def test_reserved_memory_stays_until_the_cache_is_emptied():
    kept = block(MIB)
    before = openreg.memory_reserved()
    tensor = block(40 * MIB)
    reserved = openreg.memory_reserved()
    assert reserved - before == 40 * MIB
    free = openreg.mem_get_info()[0]
    del tensor
    assert openreg.memory_reserved() == reserved
    openreg.empty_cache()
    assert openreg.memory_reserved() == before
    assert openreg.mem_get_info()[0] - free == 40 * MIB
    kept.fill_(1)
    assert int(kept.sum()) == MIB


def test_a_freed_block_is_given_out_again_with_its_content():
    tensor = torch.full((100,), 7.0, device="openreg")
    pointer = tensor.data_ptr()
    del tensor
    again = torch.empty(100, device="openreg")
    assert again.data_ptr() == pointer
    assert again.tolist() == [7.0] * 100
    assert stat("num_device_alloc") == 1


def test_a_large_block_is_split_and_merged():
    segment = block(20 * MIB)
    start = segment.data_ptr()
    del segment
    first, second = block(8 * MIB), block(6 * MIB)
    assert (first.data_ptr(), second.data_ptr()) == (start, start + 8 * MIB)
    assert stat("inactive_split_bytes.large_pool.current") == 6 * MIB
    del first, second
    assert stat("inactive_split_bytes.large_pool.current") == 0
    assert block(20 * MIB).data_ptr() == start
    assert stat("num_device_alloc") == 1


def test_free_memory_is_what_is_not_reserved():
    free, total = openreg.mem_get_info(1)
    reserved = openreg.memory_reserved(1)
    assert total == openreg.get_device_properties(1).total_memory
    tensor = block(30 * MIB, "openreg:1")
    assert openreg.mem_get_info("openreg:1") == (free - 30 * MIB, total)
    assert openreg.memory_reserved(1) - reserved == 30 * MIB
    del tensor


def test_a_lazy_clone_takes_memory_when_it_is_written():
    tensor = torch.arange(4.0, device="openreg")
    allocated = openreg.memory_allocated()
    clone = torch._lazy_clone(tensor)
    assert clone.tolist() == [0, 1, 2, 3]
    assert openreg.memory_allocated() == allocated
    clone[0] = 9
    assert openreg.memory_allocated() == allocated + 512
    assert tensor.tolist() == [0, 1, 2, 3]
    assert clone.tolist() == [9, 1, 2, 3]
