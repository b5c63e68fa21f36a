"""The allocator's snapshots and history."""

import gc
import inspect
import time

import pytest
import torch
from torch import openreg
from torch.openreg.memory import _record_memory_history, _snapshot

MIB = 1 << 20


@pytest.fixture(autouse=True)
def _no_history():
    """Every test starts with empty caches and ends without a history."""
    gc.collect()
    openreg.empty_cache()
    yield
    _record_memory_history(None)


def block(size: int, device: str = "openreg:0") -> torch.Tensor:
    return torch.empty(size, dtype=torch.uint8, device=device)


def trace(device: int = 0) -> list[dict]:
    return _snapshot()["device_traces"][device]


def actions(device: int = 0) -> list[str]:
    return [entry["action"] for entry in trace(device)]


def use_and_free() -> None:
    tensor = block(12 * MIB)
    del tensor
    openreg.empty_cache()


def live_block(pointer: int) -> dict:
    (found,) = (
        part
        for segment in openreg.memory_snapshot()
        for part in segment["blocks"]
        if part["address"] == pointer
    )
    return found


# Segments


def test_a_snapshot_shows_segments_and_their_blocks():
    tensor = block(12 * MIB + 1, "openreg:1")
    segments = [
        each for each in openreg.memory_snapshot() if each["segment_type"] == "large"
    ]
    (segment,) = (each for each in segments if each["address"] == tensor.data_ptr())
    blocks = segment.pop("blocks")
    assert segment == {
        "device": 1,
        "address": tensor.data_ptr(),
        "total_size": 14 * MIB,
        "allocated_size": 12 * MIB + 512,
        "active_size": 12 * MIB + 512,
        "requested_size": 12 * MIB + 1,
        "stream": openreg.default_stream(1).native_handle,
        "segment_type": "large",
        "segment_pool_id": (0, 0),
        "is_expandable": False,
        "frames": [],
    }
    assert [(each["state"], each["size"]) for each in blocks] == [
        ("active_allocated", 12 * MIB + 512),
        ("inactive", 2 * MIB - 512),
    ]
    assert blocks[0]["requested_size"] == 12 * MIB + 1
    assert blocks[1]["address"] == tensor.data_ptr() + 12 * MIB + 512


def test_a_snapshot_agrees_with_the_statistics():
    tensors = [block(size) for size in (1, 3 * MIB, MIB, 13 * MIB)]
    del tensors[1]
    segments = [each for each in openreg.memory_snapshot() if each["device"] == 0]
    assert sum(each["total_size"] for each in segments) == openreg.memory_reserved()
    allocated = sum(each["allocated_size"] for each in segments)
    assert allocated == openreg.memory_allocated()
    stats = openreg.memory_stats()
    assert len(segments) == stats["segment.all.current"]
    for segment in segments:
        assert sum(part["size"] for part in segment["blocks"]) == segment["total_size"]


def test_snapshots_can_be_of_one_pool():
    tensor = block(1)
    assert openreg.memory_snapshot((0, 0)) == openreg.memory_snapshot()
    assert openreg.memory_snapshot((1, 2)) == []
    del tensor


def test_a_snapshot_holds_the_settings_of_the_allocator():
    settings = _snapshot()["allocator_settings"]
    assert settings["max_split_size"] == -1
    assert settings["garbage_collection_threshold"] == 0
    assert settings["expandable_segments"] is False
    assert settings["roundup_power2_divisions"]["1"] == 0


# History


def test_nothing_is_recorded_unless_it_is_asked_for():
    use_and_free()
    assert actions() == []


def test_the_history_holds_what_cudas_holds():
    _record_memory_history()
    use_and_free()
    assert actions() == [
        "segment_alloc",
        "alloc",
        "free_requested",
        "free_completed",
        "segment_free",
    ]


def test_a_snapshot_is_an_action_in_the_next_one():
    _record_memory_history()
    _snapshot()
    assert actions() == ["snapshot"]


def test_entries_say_what_where_and_when():
    _record_memory_history()
    start = time.time() * 1e6
    side = openreg.Stream("openreg:1")
    with openreg.stream(side):
        tensor = block(100, "openreg:1")
    end = time.time() * 1e6
    segment, entry = trace(1)
    frames = entry.pop("frames")
    assert frames
    assert start - 1e6 <= entry.pop("time_us") <= end + 1e6
    assert entry == {
        "action": "alloc",
        "addr": tensor.data_ptr(),
        "size": 100,
        "stream": side.native_handle,
        "pool_id": (0, 0),
        "compile_context": "N/A",
        "user_metadata": "",
    }
    assert (segment["action"], segment["size"]) == ("segment_alloc", 2 * MIB)
    assert set(actions(0)) == {"snapshot"}


def test_a_free_that_waits_for_a_stream_is_completed_later(gate):
    _record_memory_history()
    side = openreg.Stream()
    tensor = block(100)
    gate.hold(side)
    tensor.record_stream(side)
    del tensor
    assert actions()[-1] == "free_requested"
    gate.open()
    side.synchronize()
    openreg.empty_cache()
    assert actions()[-2:] == ["free_completed", "segment_free"]


def test_out_of_memory_is_in_the_history():
    _record_memory_history()
    with pytest.raises(torch.OutOfMemoryError):
        block(1 << 50)
    (entry,) = (each for each in trace() if each["action"] == "oom")
    assert entry["size"] == 1 << 50
    assert entry["device_free"] == openreg.mem_get_info()[0]
    assert "addr" not in entry


def test_only_the_latest_actions_are_kept():
    _record_memory_history(max_entries=2)
    use_and_free()
    assert actions() == ["free_completed", "segment_free"]


def test_actions_can_be_left_out():
    _record_memory_history(skip_actions=["segment_alloc", "segment_free", "snapshot"])
    use_and_free()
    assert actions() == ["alloc", "free_requested", "free_completed"]


def test_a_history_ends_and_starts_anew():
    _record_memory_history()
    use_and_free()
    _record_memory_history(None)
    use_and_free()
    assert actions() == []
    _record_memory_history()
    assert actions() == []


def test_a_history_goes_on_unless_it_is_cleared():
    _record_memory_history(skip_actions=["snapshot"])
    use_and_free()
    recorded = actions()
    _record_memory_history(skip_actions=["snapshot"])
    assert actions() == recorded
    _record_memory_history(clear_history=True)
    assert actions() == []


def test_the_state_alone_is_recorded_without_a_history():
    _record_memory_history("state")
    tensor = block(100)
    assert actions() == []
    assert live_block(tensor.data_ptr())["frames"]


@pytest.mark.parametrize("name", ["enabled", "context", "stacks"])
def test_an_unknown_option_is_refused(name):
    with pytest.raises(ValueError, match=f"expected {name} to be"):
        _record_memory_history(**{name: "nonsense"})


# Stacks


def here() -> int:
    """The line of the caller."""
    return inspect.currentframe().f_back.f_lineno


def test_stacks_lead_to_the_line_in_python():
    _record_memory_history(stacks="python")
    tensor, line = block(100), here()
    (entry,) = (each for each in trace() if each["action"] == "alloc")
    inner, outer = entry["frames"][:2]
    assert (inner["name"], inner["filename"]) == ("block", __file__)
    assert outer["name"] == "test_stacks_lead_to_the_line_in_python"
    assert outer["line"] == line
    assert live_block(tensor.data_ptr())["frames"][1]["line"] == line


def test_stacks_of_all_kinds_have_frames_of_cpp_as_well():
    _record_memory_history(stacks="all")
    tensor = block(100)
    names = [frame["name"] for frame in live_block(tensor.data_ptr())["frames"]]
    assert "block" in names
    assert any("::" in name for name in names)


@pytest.mark.parametrize(
    ("context", "with_stack"),
    [
        (None, set()),
        ("state", set()),
        ("alloc", {"segment_alloc", "alloc", "free_requested", "free_completed"}),
        (
            "all",
            {
                "segment_alloc",
                "alloc",
                "free_requested",
                "free_completed",
                "segment_free",
            },
        ),
    ],
)
def test_which_actions_get_a_stack_can_be_chosen(context, with_stack):
    _record_memory_history(context=context, stacks="python")
    use_and_free()
    assert {each["action"] for each in trace() if each["frames"]} == with_stack
