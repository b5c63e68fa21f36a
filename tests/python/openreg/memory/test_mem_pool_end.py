"""Memory pools: when their memory goes back to the device, and what is told of it.

Where nothing else is said, the answers are those of a GPU.
"""

import gc
from collections.abc import Iterator

import pytest
import torch
from blocks import MIB, block, pool_of, stat
from torch import openreg

from driver import Gate

pytestmark = pytest.mark.usefixtures("nothing_cached")


@pytest.fixture
def pool() -> openreg.MemPool:
    return openreg.MemPool()


@pytest.fixture
def _little_memory(nothing_cached: None) -> Iterator[None]:
    """Device 0 lends 100 MiB more than is reserved."""
    _, total = openreg.mem_get_info(0)
    allowed = openreg.memory_reserved(0) + 100 * MIB
    openreg.set_per_process_memory_fraction(allowed / total, 0)
    yield
    openreg.set_per_process_memory_fraction(1.0, 0)


# When it goes back to the device


def test_a_live_pool_keeps_its_segments(pool):
    before = openreg.memory_reserved()
    with openreg.use_mem_pool(pool):
        block(30 * MIB)
        openreg.empty_cache()
        assert openreg.memory_reserved() - before == 30 * MIB
    openreg.empty_cache()
    assert openreg.memory_reserved() - before == 30 * MIB


def test_the_end_of_a_pool_gives_unused_segments_back():
    before = openreg.memory_reserved()
    pool = openreg.MemPool()
    with openreg.use_mem_pool(pool):
        block(30 * MIB)
        other = block(40 * MIB)
    del pool
    assert openreg.memory_reserved() - before == 40 * MIB
    assert other.nbytes == 40 * MIB


def test_tensors_may_outlive_their_pool():
    before = openreg.memory_reserved()
    pool = openreg.MemPool()
    name = pool.id
    with openreg.use_mem_pool(pool):
        tensor = torch.full((30 * MIB,), 7, dtype=torch.uint8, device="openreg")
    del pool
    gc.collect()
    openreg.empty_cache()
    assert openreg.memory_reserved() - before == 30 * MIB
    assert pool_of(tensor) == name
    assert int(tensor[-1]) == 7
    del tensor
    assert openreg.memory_reserved() - before == 30 * MIB
    openreg.empty_cache()
    assert openreg.memory_reserved() == before
    assert openreg.memory_snapshot(name) == []


def test_nobody_gets_a_dead_pools_memory():
    pool = openreg.MemPool()
    with openreg.use_mem_pool(pool):
        tensor = block(4 * MIB)
    address = tensor.data_ptr()
    del pool, tensor
    assert block(4 * MIB).data_ptr() != address
    with openreg.use_mem_pool(openreg.MemPool()):
        assert block(4 * MIB).data_ptr() != address


def test_a_pool_lives_as_long_as_it_is_used():
    pool = openreg.MemPool()
    name = pool.id
    with openreg.use_mem_pool(pool):
        del pool
        first = block(30 * MIB)
        address = first.data_ptr()
        del first
        openreg.empty_cache()
        second = block(30 * MIB)
        assert second.data_ptr() == address
        assert pool_of(second) == name
    del second
    openreg.empty_cache()
    assert openreg.memory_snapshot(name) == []


def test_the_end_of_a_pool_waits_without_the_interpreter(gate: Gate, watch):
    """What the device runs may need the interpreter to finish."""
    pools = [openreg.MemPool()]
    with openreg.use_mem_pool(pools[0]):
        block(30 * MIB)
    gate.hold(openreg.current_stream())
    assert watch.waits(pools.clear)
    gate.open()


@pytest.mark.usefixtures("_little_memory")
def test_memory_of_a_dead_pool_makes_room():
    pool = openreg.MemPool()
    with openreg.use_mem_pool(pool):
        tensor = block(80 * MIB)
    del pool
    with pytest.raises(torch.OutOfMemoryError):
        block(80 * MIB)
    del tensor
    assert pool_of(block(80 * MIB)) == (0, 0)


@pytest.mark.usefixtures("_little_memory")
def test_unused_memory_outside_makes_room_for_a_pool(pool):
    block(80 * MIB)
    with openreg.use_mem_pool(pool):
        assert pool_of(block(80 * MIB)) == pool.id


@pytest.mark.usefixtures("_little_memory")
def test_a_live_pool_makes_no_room(pool):
    with openreg.use_mem_pool(pool):
        block(80 * MIB)
    with pytest.raises(torch.OutOfMemoryError):
        block(80 * MIB)
    assert stat("num_ooms") == 1
    with openreg.use_mem_pool(pool):
        assert block(80 * MIB).nbytes == 80 * MIB


@pytest.mark.usefixtures("_little_memory")
def test_a_pool_for_emergencies_serves_those_outside():
    pool = openreg.MemPool(use_on_oom=True)
    with openreg.use_mem_pool(pool):
        address = block(80 * MIB).data_ptr()
    small = block(4 * MIB)
    assert pool_of(small) == (0, 0), "it is the last resort"
    del small
    tensor = block(80 * MIB)
    assert tensor.data_ptr() == address
    assert pool_of(tensor) == pool.id
    assert stat("num_ooms") == 0
    del tensor
    other = openreg.MemPool()
    with openreg.use_mem_pool(other), pytest.raises(torch.OutOfMemoryError):
        block(80 * MIB)


# What is told about it


def test_every_pool_has_its_id(pool):
    other = openreg.MemPool()
    assert pool.id[0] == other.id[0] == 0
    assert 0 < pool.id[1] < other.id[1]


def test_the_count_says_how_often_a_pool_is_in_use(pool):
    assert pool.use_count() == 1
    with openreg.use_mem_pool(pool):
        assert pool.use_count() == 2
        with openreg.use_mem_pool(pool, device=1):
            assert pool.use_count() == 3
    assert pool.use_count() == 1


def test_a_snapshot_holds_the_pools_segments_only(pool):
    outside = block(MIB)
    assert pool.snapshot() == []
    with openreg.use_mem_pool(pool):
        inside = block(30 * MIB)
    (segment,) = pool.snapshot()
    assert segment["segment_pool_id"] == pool.id
    assert segment["address"] == inside.data_ptr()
    assert segment["allocated_size"] == 30 * MIB
    assert openreg.memory_snapshot(pool.id) == pool.snapshot(include_traces=False)
    everything = openreg.memory_snapshot()
    assert segment in everything
    assert outside.data_ptr() in [item["address"] for item in everything]
    assert openreg.memory_snapshot((0, 0)) == everything


def test_statistics_count_pools_in(pool):
    with openreg.use_mem_pool(pool):
        tensor = block(30 * MIB)
        small = block(1000)
    key = f"reserved_bytes_by_private_pools.{pool.id[0]}_{pool.id[1]}"
    assert stat("allocated_bytes.all.allocated") == 30 * MIB + 1024
    assert stat("num_device_alloc") == 2
    assert stat(f"{key}.all.current") == 32 * MIB
    assert stat(f"{key}.large_pool.current") == 30 * MIB
    nested = openreg.memory_stats_as_nested_dict()["reserved_bytes_by_private_pools"]
    assert nested[pool.id]["small_pool"]["current"] == 2 * MIB
    assert stat("inactive_split_bytes.small_pool.current") == 2 * MIB - 1024
    del tensor, small
    assert stat("inactive_split_bytes.small_pool.current") == 0


def test_statistics_remember_a_dead_pool():
    pool = openreg.MemPool()
    key = f"reserved_bytes_by_private_pools.{pool.id[0]}_{pool.id[1]}.all"
    with openreg.use_mem_pool(pool):
        block(30 * MIB)
    del pool
    assert stat(f"{key}.current") == 0
    assert stat(f"{key}.peak") == stat(f"{key}.freed") == 30 * MIB
    openreg.reset_peak_memory_stats()
    assert stat(f"{key}.peak") == 0


def test_the_history_names_the_pool(pool):
    openreg.memory._record_memory_history(stacks="python")
    try:
        with openreg.use_mem_pool(pool):
            block(30 * MIB)
        block(40 * MIB)
        (trace, _) = openreg.memory._snapshot()["device_traces"]
    finally:
        openreg.memory._record_memory_history(None)
    ids = {}
    for entry in trace:
        ids.setdefault((entry["action"], entry["size"] // MIB), entry["pool_id"])
    for action in ("segment_alloc", "alloc", "free_requested", "free_completed"):
        assert ids[action, 30] == pool.id
        assert ids[action, 40] == (0, 0)


def test_segments_are_not_cut_if_the_pool_says_so():
    pool = openreg.MemPool(no_split=True)
    with openreg.use_mem_pool(pool):
        tensors = [block(512) for _ in range(2)]
    sizes = [[part["size"] for part in item["blocks"]] for item in pool.snapshot()]
    assert sizes == [[2 * MIB], [2 * MIB]]
    addresses = {tensor.data_ptr() for tensor in tensors}
    del tensors
    with openreg.use_mem_pool(pool):
        assert block(MIB).data_ptr() in addresses
