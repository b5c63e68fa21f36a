"""Memory pools: who gets their memory, and when it goes back to the device.

Where no other reason is given, the answers are those of a GPU.
"""

import gc
import threading
from collections.abc import Iterator

import pytest
import torch
from blocks import MIB, block, stat
from driver import Gate
from torch import openreg

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


def pool_of(tensor: torch.Tensor) -> tuple[int, int]:
    """Return the id of the pool that ``tensor`` is in."""
    address = tensor.data_ptr()
    for segment in openreg.memory_snapshot():
        if 0 <= address - segment["address"] < segment["total_size"]:
            return segment["segment_pool_id"]
    raise AssertionError("no segment holds the tensor")


def in_new_thread(call) -> None:
    failures = []

    def run() -> None:
        try:
            call()
        except BaseException as error:
            failures.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    thread.join(timeout=60)
    assert not thread.is_alive()
    if failures:
        raise failures[0]


# Who gets the memory


def test_an_allocation_in_a_pool_comes_from_other_memory(pool):
    outside = block(MIB)
    freed = block(MIB)
    unused = freed.data_ptr()
    del freed
    with openreg.use_mem_pool(pool):
        inside = block(MIB)
    assert inside.data_ptr() != unused
    assert pool_of(inside) == pool.id
    assert pool_of(outside) == (0, 0)
    assert pool_of(block(MIB)) == (0, 0)


@pytest.mark.parametrize("size", [512, 4 * MIB])
def test_what_is_freed_returns_to_its_pool(pool, size):
    with openreg.use_mem_pool(pool):
        first = block(size)
        address = first.data_ptr()
        del first
        assert block(size).data_ptr() == address
        first = block(size)
    del first
    outside = block(size)
    assert outside.data_ptr() != address
    assert pool_of(outside) == (0, 0)
    with openreg.use_mem_pool(pool):
        assert block(size).data_ptr() == address
    assert len(pool.snapshot()) == 1


def test_pools_get_nothing_of_each_other(pool):
    other = openreg.MemPool()
    with openreg.use_mem_pool(pool):
        address = block(MIB).data_ptr()
    with openreg.use_mem_pool(other):
        tensor = block(MIB)
    assert tensor.data_ptr() != address
    assert pool_of(tensor) == other.id


def test_the_innermost_pool_counts(pool):
    inner = openreg.MemPool()
    with openreg.use_mem_pool(pool):
        first = block(MIB)
        with openreg.use_mem_pool(inner):
            second = block(MIB)
        third = block(MIB)
    assert [pool_of(x) for x in (first, second, third)] == [pool.id, inner.id, pool.id]


def test_a_pool_may_be_used_inside_itself(pool):
    """Not so with CUDA, see docs/differences.md."""
    with openreg.use_mem_pool(pool):
        with openreg.use_mem_pool(pool):
            assert pool.use_count() == 3
        assert pool_of(block(MIB)) == pool.id
    assert pool.use_count() == 1


def test_other_devices_are_not_concerned(pool):
    with openreg.use_mem_pool(pool, device="openreg:1"):
        here, there = block(MIB, "openreg:0"), block(MIB, "openreg:1")
    assert pool_of(here) == (0, 0)
    assert pool_of(there) == pool.id
    assert [item["device"] for item in pool.snapshot()] == [1]


def test_the_device_is_the_current_one_at_the_entry(pool):
    with openreg.device(1), openreg.use_mem_pool(pool), openreg.device(0):
        here, there = block(MIB, "openreg:0"), block(MIB, "openreg:1")
    assert pool_of(here) == (0, 0)
    assert pool_of(there) == pool.id


def test_a_pool_keeps_its_memory_on_every_device(pool):
    with openreg.use_mem_pool(pool, 0), openreg.use_mem_pool(pool, 1):
        tensors = [block(30 * MIB, f"openreg:{i}") for i in (0, 1)]
    del tensors
    openreg.empty_cache()
    assert sorted(item["device"] for item in pool.snapshot()) == [0, 1]


def test_other_threads_are_not_concerned(pool):
    tensors = []
    with openreg.use_mem_pool(pool):
        in_new_thread(lambda: tensors.append(block(MIB)))
    assert pool_of(tensors[0]) == (0, 0)


def test_two_threads_may_use_a_pool_at_once(pool):
    tensors = []

    def allocate() -> None:
        with openreg.use_mem_pool(pool):
            tensors.append(block(MIB))

    with openreg.use_mem_pool(pool):
        in_new_thread(allocate)
        tensors.append(block(MIB))
    assert [pool_of(tensor) for tensor in tensors] == [pool.id, pool.id]


def test_a_block_that_another_thread_frees_returns_to_its_pool(pool):
    with openreg.use_mem_pool(pool):
        tensors = [block(MIB)]
    address = tensors[0].data_ptr()

    def free_and_allocate() -> None:
        tensors.clear()
        tensors.append(block(MIB))

    in_new_thread(free_and_allocate)
    assert tensors[0].data_ptr() != address
    assert pool_of(tensors[0]) == (0, 0)


def test_another_thread_can_leave(pool):
    scope = openreg.use_mem_pool(pool)
    scope.__enter__()
    assert pool_of(block(MIB)) == pool.id
    in_new_thread(lambda: scope.__exit__(None, None, None))
    assert pool_of(block(MIB)) == (0, 0)
    assert pool.use_count() == 1


def test_an_exception_ends_the_use(pool):
    with pytest.raises(ZeroDivisionError), openreg.use_mem_pool(pool):
        _ = 1 / 0
    assert pool_of(block(MIB)) == (0, 0)
    assert pool.use_count() == 1


def test_streams_do_not_share_a_pools_blocks(pool):
    with openreg.use_mem_pool(pool):
        address = block(MIB).data_ptr()
        with openreg.Stream():
            other = block(MIB)
    assert other.data_ptr() != address
    assert pool_of(other) == pool.id


def test_a_pools_block_waits_for_a_recorded_stream(pool, gate: Gate):
    stream = openreg.Stream()
    with openreg.use_mem_pool(pool):
        tensor = block(MIB)
        address = tensor.data_ptr()
        gate.hold(stream)
        tensor.record_stream(stream)
        del tensor
        assert block(MIB).data_ptr() != address
        gate.open()
        stream.synchronize()
        freed = [block(MIB) for _ in range(2)]
    assert address in [tensor.data_ptr() for tensor in freed]


def test_operators_allocate_in_the_pool(pool):
    x = torch.arange(4.0, device="openreg")
    with openreg.use_mem_pool(pool):
        y = x + 1
        z = x.clone()
    assert pool_of(x) == (0, 0)
    assert pool_of(y) == pool_of(z) == pool.id
    assert y.tolist() == [1, 2, 3, 4]


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


# Wrong arguments


def test_a_pool_takes_no_allocator():
    with pytest.raises(NotImplementedError, match="takes no allocator"):
        openreg.MemPool(object())


def test_the_device_must_exist(pool):
    with pytest.raises(torch.AcceleratorError), openreg.use_mem_pool(pool, 99):
        pass
    with pytest.raises(ValueError, match="Expected an openreg device"):
        openreg.use_mem_pool(pool, "cpu").__enter__()
    assert pool.use_count() == 1


def test_only_a_pool_is_a_pool():
    with pytest.raises(TypeError), openreg.use_mem_pool(3):
        pass


def test_the_names_are_where_cudas_are():
    assert openreg.memory.MemPool is openreg.MemPool
    assert openreg.memory.use_mem_pool is openreg.use_mem_pool
