"""Memory pools: who gets their memory, and who does not.

Where nothing else is said, the answers are those of a GPU.
"""

import threading

import pytest
import torch
from blocks import MIB, block, pool_of
from torch import openreg

from driver import Gate

pytestmark = pytest.mark.usefixtures("nothing_cached")


@pytest.fixture
def pool() -> openreg.MemPool:
    return openreg.MemPool()


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
