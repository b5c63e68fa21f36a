"""The time between events, and what events cannot do."""

import pytest
import torch
from pages import assert_names_its_section

KINDS = [torch.Event, torch.openreg.Event]
NO_TIMING = "Both events must be created with argument 'enable_timing=True'."
NOT_RECORDED = "Both events must be recorded before calculating elapsed time."


def timed(kind=torch.openreg.Event, stream=None):
    """A recorded event with timing."""
    event = kind(enable_timing=True)
    event.record(stream)
    return event


@pytest.mark.parametrize("kind", KINDS)
def test_elapsed_time_is_positive_milliseconds(kind):
    start, end = timed(kind), None
    x = torch.zeros(1 << 20, device="openreg")
    x.copy_(torch.ones(1 << 20))
    end = timed(kind)
    end.synchronize()
    elapsed = start.elapsed_time(end)
    assert isinstance(elapsed, float)
    assert 0 < elapsed < 60_000


@pytest.mark.parametrize("kind", KINDS)
def test_elapsed_time_of_events_without_work_between_is_positive(kind):
    start, end = timed(kind), timed(kind)
    torch.openreg.synchronize()
    assert start.elapsed_time(end) > 0


def test_elapsed_time_backwards_is_negative():
    start, end = timed(), timed()
    torch.openreg.synchronize()
    assert end.elapsed_time(start) == -start.elapsed_time(end)


@pytest.mark.parametrize("kind", KINDS)
def test_elapsed_time_between_two_streams(kind):
    first, second = torch.Stream("openreg:0"), torch.Stream("openreg:0")
    start = timed(kind, first)
    second.wait_event(start)
    end = timed(kind, second)
    end.synchronize()
    assert start.elapsed_time(end) >= 0


def test_elapsed_time_follows_the_latest_record():
    start, end = timed(), timed()
    torch.openreg.synchronize()
    first = start.elapsed_time(end)
    end.record()
    end.synchronize()
    assert start.elapsed_time(end) > first


def test_generic_and_module_events_are_measured_together():
    start, end = timed(torch.openreg.Event), timed(torch.Event)
    end.synchronize()
    assert start.elapsed_time(end) > 0


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("timing", [(False, False), (True, False), (False, True)])
def test_elapsed_time_without_timing_is_a_value_error(kind, timing):
    start, end = (kind(enable_timing=flag) for flag in timing)
    start.record()
    end.record()
    torch.openreg.synchronize()
    with pytest.raises(ValueError, match=NO_TIMING):
        start.elapsed_time(end)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("recorded", [(False, False), (True, False), (False, True)])
def test_elapsed_time_without_a_record_is_a_value_error(kind, recorded):
    events = [kind(enable_timing=True) for _ in recorded]
    for event, flag in zip(events, recorded, strict=True):
        if flag:
            event.record()
    with pytest.raises(ValueError, match=NOT_RECORDED):
        events[0].elapsed_time(events[1])


@pytest.mark.parametrize("kind", KINDS)
def test_elapsed_time_of_a_pending_event_is_an_error_and_does_not_wait(gate, kind):
    start = timed(kind)
    gate.hold()
    end = timed(kind)
    with pytest.raises(RuntimeError, match="must be completed"):
        start.elapsed_time(end)


@pytest.mark.parametrize("kind", KINDS)
def test_elapsed_time_between_two_devices_is_an_error(kind):
    start = timed(kind, torch.Stream("openreg:0"))
    end = timed(kind, torch.Stream("openreg:1"))
    start.synchronize()
    end.synchronize()
    with pytest.raises(torch.AcceleratorError, match="belongs to device 0 and end"):
        start.elapsed_time(end)


def test_elapsed_time_takes_nothing_but_events():
    with pytest.raises(TypeError, match=r"expected a torch\.Event"):
        timed().elapsed_time(1.0)


# What events cannot do


def test_events_do_not_leave_their_process():
    for share in (
        lambda: torch.openreg.Event(interprocess=True),
        lambda: torch.openreg.Event().ipc_handle(),
        lambda: torch.openreg.Event.from_ipc_handle(0, b""),
    ):
        with pytest.raises(NotImplementedError, match="between processes") as caught:
            share()
        section = "An event is shared between processes"
        assert_names_its_section(str(caught.value), section)


def test_external_events_need_graphs():
    with pytest.raises(NotImplementedError, match="graphs"):
        torch.openreg.Event(external=True)
