"""Device memory and streams: who gets a freed block, and when."""

import pytest
import torch
from torch import openreg

MIB = 1 << 20


@pytest.fixture(autouse=True)
def _nothing_cached() -> None:
    """Every test starts without unused segments."""
    openreg.empty_cache()


@pytest.fixture
def side() -> openreg.Stream:
    """A stream beside the default one."""
    return openreg.Stream()


def block(size: int = 4096) -> torch.Tensor:
    return torch.empty(size, dtype=torch.uint8, device="openreg")


def block_on(stream: torch.Stream, size: int = 4096) -> torch.Tensor:
    with openreg.stream(stream):
        return block(size)


def freed(tensor: torch.Tensor) -> int:
    """The address of a tensor whose last reference was the caller's."""
    return tensor.data_ptr()


# A block belongs to the stream it was made on


def test_a_block_freed_on_a_busy_stream_is_reused_there_at_once(gate):
    """The stream keeps the order: the old content is read before the new one."""
    old = torch.arange(64, dtype=torch.uint8, device="openreg")
    new = torch.zeros_like(old)
    gate.hold()
    first, result = block(64), block(64)
    first.copy_(old)
    result.copy_(first)
    pointer = first.data_ptr()
    del first
    second = block(64)
    assert second.data_ptr() == pointer
    second.copy_(new)
    gate.open()
    assert result.tolist() == list(range(64))
    assert second.tolist() == [0] * 64


def test_memory_is_given_back_while_the_stream_is_busy(gate):
    before = openreg.memory_allocated()
    gate.hold()
    tensor = block()
    tensor.copy_(torch.empty_like(tensor))
    reserved = openreg.memory_reserved()
    assert openreg.memory_allocated() == before + 4096
    del tensor
    assert openreg.memory_allocated() == before
    assert openreg.memory_reserved() == reserved
    assert not openreg.current_stream().query()


def test_a_freed_block_goes_back_to_its_own_stream_only(side):
    pointer = freed(block_on(side))
    other = block()
    assert other.data_ptr() != pointer
    assert block_on(side).data_ptr() == pointer


def test_streams_have_segments_of_their_own(side):
    tensors = block(), block_on(side)
    segments = {
        segment["stream"]: {part["address"] for part in segment["blocks"]}
        for segment in openreg.memory_snapshot()
        if segment["device"] == 0
    }
    default = openreg.default_stream().native_handle
    assert tensors[0].data_ptr() in segments[default]
    assert tensors[1].data_ptr() in segments[side.native_handle]


# record_stream: a block that another stream uses


def test_a_recorded_block_waits_for_the_other_stream(gate, side):
    tensor = block()
    pointer = tensor.data_ptr()
    side.wait_stream(openreg.current_stream())
    gate.hold(side)
    with openreg.stream(side):
        copy = torch.empty_like(tensor)
        copy.copy_(tensor)
    tensor.record_stream(side)
    active = openreg.memory_stats()["active_bytes.all.current"]
    allocated = openreg.memory_allocated()
    del tensor
    assert openreg.memory_allocated() == allocated - 4096
    assert openreg.memory_stats()["active_bytes.all.current"] == active
    others = [block() for _ in range(4)]
    assert pointer not in {other.data_ptr() for other in others}
    gate.open()
    side.synchronize()
    del others
    assert pointer in {part.data_ptr() for part in [block() for _ in range(8)]}


def test_a_block_that_was_not_recorded_is_reused_at_once(gate, side):
    """Its stream is not the busy one; record_stream is what says so."""
    tensor = block()
    gate.hold(side)
    with openreg.stream(side):
        torch.empty_like(tensor).copy_(tensor)
    pointer = freed(tensor)
    del tensor
    assert block().data_ptr() == pointer


def test_a_block_that_waits_is_shown_in_the_snapshot(gate, side):
    tensor = block()
    pointer = tensor.data_ptr()
    gate.hold(side)
    tensor.record_stream(side)

    def state() -> str:
        (found,) = (
            part["state"]
            for segment in openreg.memory_snapshot()
            for part in segment["blocks"]
            if part["address"] == pointer
        )
        return found

    assert state() == "active_allocated"
    del tensor
    assert state() == "active_pending_free"
    gate.open()
    side.synchronize()
    keep = block(1)  # an allocation looks at what is done
    assert state() in ("inactive", "active_allocated")
    del keep


def test_recording_its_own_stream_changes_nothing(gate):
    tensor = block()
    pointer = tensor.data_ptr()
    gate.hold()
    tensor.record_stream(openreg.current_stream())
    del tensor
    assert block().data_ptr() == pointer


def test_a_recorded_block_waits_for_a_stream_of_another_device(gate):
    tensor = block()
    pointer = tensor.data_ptr()
    far = openreg.Stream("openreg:1")
    gate.hold(far)
    tensor.record_stream(far)
    del tensor
    assert block().data_ptr() != pointer
    gate.open()
    far.synchronize()
    block()
    assert pointer in {part.data_ptr() for part in [block() for _ in range(4)]}


def test_a_view_records_its_whole_block(gate, side):
    tensor = block()
    pointer = tensor.data_ptr()
    gate.hold(side)
    tensor[100:].record_stream(side)
    del tensor
    assert block().data_ptr() != pointer


def test_recording_a_tensor_without_memory_is_allowed(side):
    torch.empty(0, device="openreg").record_stream(side)


def test_what_cannot_be_recorded(side):
    with pytest.raises(NotImplementedError, match="aten::record_stream"):
        torch.ones(1).record_stream(side)
    with pytest.raises(RuntimeError, match="unknown parameter type"):
        block().record_stream(None)
    with pytest.raises(TypeError):
        block().record_stream()


# Who waits for a busy stream


def test_allocating_and_freeing_does_not_wait(gate, watch):
    cached = block(30 * MIB)
    del cached
    gate.hold()
    assert watch.returns(lambda: block(30 * MIB))
    assert watch.returns(lambda: block(50 * MIB))  # a new segment


def test_questions_do_not_wait(gate, watch):
    tensor = block()
    gate.hold()
    tensor.copy_(torch.empty_like(tensor))
    for question in (
        openreg.memory_allocated,
        openreg.mem_get_info,
        openreg.memory_stats,
        openreg.memory_snapshot,
        openreg.reset_peak_memory_stats,
    ):
        assert watch.returns(question)


def test_emptying_the_cache_waits_for_the_device(gate, watch):
    tensor = block(30 * MIB)
    gate.hold()
    tensor.copy_(torch.empty_like(tensor))
    del tensor
    reserved = openreg.memory_reserved()
    assert watch.waits(openreg.empty_cache)
    gate.open()
    watch.finish()
    assert openreg.memory_reserved() <= reserved - 60 * MIB


def test_emptying_the_cache_gives_recorded_blocks_back_too(gate, watch, side):
    tensor = block(30 * MIB)
    reserved = openreg.memory_reserved()
    gate.hold(side)
    tensor.record_stream(side)
    del tensor
    assert watch.waits(openreg.empty_cache)
    gate.open()
    watch.finish()
    assert openreg.memory_reserved() == reserved - 30 * MIB


# Blocks without a tensor


def test_a_raw_block_is_counted_until_it_is_deleted():
    before = openreg.memory_allocated()
    pointer = openreg.caching_allocator_alloc(100)
    assert openreg.memory_allocated() == before + 512
    openreg.caching_allocator_delete(pointer)
    assert openreg.memory_allocated() == before


@pytest.mark.parametrize("form", ["stream", "handle"])
def test_a_raw_block_is_of_the_device_and_stream_that_were_asked_for(form):
    stream = openreg.Stream("openreg:1")
    before = openreg.memory_allocated(1)
    given = stream if form == "stream" else stream.native_handle
    pointer = openreg.caching_allocator_alloc(100, "openreg:1", given)
    assert openreg.memory_allocated(1) == before + 512
    assert openreg.current_device() == 0
    (segment,) = (
        each
        for each in openreg.memory_snapshot()
        if pointer in {part["address"] for part in each["blocks"]}
    )
    assert (segment["device"], segment["stream"]) == (1, stream.native_handle)
    openreg.caching_allocator_delete(pointer)


def test_a_raw_block_of_no_bytes_is_null_and_null_can_be_deleted():
    assert openreg.caching_allocator_alloc(0) == 0
    openreg.caching_allocator_delete(0)


def test_wrong_raw_blocks_are_errors(side):
    with pytest.raises(TypeError, match="Invalid type for stream argument"):
        openreg.caching_allocator_alloc(1, stream="nonsense")
    with pytest.raises(TypeError):
        openreg.caching_allocator_alloc(-1)
    with pytest.raises(ValueError, match="not of openreg:1"):
        openreg.caching_allocator_alloc(1, 1, side)
    with pytest.raises(torch.AcceleratorError, match="device index is out of range"):
        openreg.caching_allocator_alloc(1, 99)
    with pytest.raises(RuntimeError, match="invalid device pointer: 0x3039"):
        openreg.caching_allocator_delete(12345)


def test_a_raw_block_cannot_be_deleted_twice():
    pointer = openreg.caching_allocator_alloc(100)
    openreg.caching_allocator_delete(pointer)
    with pytest.raises(RuntimeError, match="invalid device pointer"):
        openreg.caching_allocator_delete(pointer)
