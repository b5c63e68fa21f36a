"""Events: marks in streams, to wait for and to measure with."""

import gc

import pytest
import torch

from driver import counters

KINDS = [torch.Event, torch.openreg.Event]


# What an event is


def test_generic_event_is_of_the_accelerator_by_default():
    assert torch.Event().device.type == "openreg"


@pytest.mark.parametrize("kind", KINDS)
def test_event_that_was_never_recorded_is_done_and_has_no_id(kind):
    event = kind()
    assert event.query()
    assert event.event_id == 0
    event.synchronize()


def test_generic_event_has_no_index_before_its_record():
    event = torch.Event()
    assert event.device.index is None
    event.record(torch.Stream("openreg:1"))
    assert str(event.device) == "openreg:1"


def test_module_event_has_no_device_before_its_record():
    event = torch.openreg.Event()
    assert event.device is None
    event.record()
    assert str(event.device) == "openreg:0"


@pytest.mark.parametrize("kind", KINDS)
def test_recorded_events_have_ids_of_their_own(kind):
    events = [kind() for _ in range(5)]
    for event in events:
        event.record()
    ids = {event.event_id for event in events}
    assert len(ids) == 5
    assert 0 not in ids


@pytest.mark.parametrize("kind", KINDS)
def test_event_keeps_its_id_when_it_is_recorded_again(kind):
    event = kind()
    event.record()
    first = event.event_id
    event.record()
    assert event.event_id == first


def test_module_events_are_torch_events():
    assert issubclass(torch.openreg.Event, torch.Event)


def test_repr_of_events():
    event = torch.openreg.Event()
    assert repr(event) == "<torch.openreg.Event uninitialized>"
    event.record()
    assert repr(event) == f"<torch.openreg.Event {event.event_id:#x}>"
    assert "torch.Event device_type=openreg" in repr(torch.Event())


@pytest.mark.parametrize("kind", KINDS)
def test_blocking_event_waits_like_any_other(gate, watch, kind):
    event = kind(blocking=True)
    gate.hold()
    event.record()
    assert watch.waits(event.synchronize)
    gate.open()
    event.synchronize()
    assert event.query()


def test_events_are_given_back_to_the_driver():
    gc.collect()
    before = counters().live_events
    events = [kind() for kind in KINDS]
    for event in events:
        event.record()
    assert counters().live_events == before + len(events)
    events.clear()
    del event
    assert counters().live_events == before


def test_event_that_was_never_recorded_costs_the_driver_nothing():
    before = counters().live_events
    events = [kind() for kind in KINDS]
    assert counters().live_events == before
    del events


@pytest.mark.parametrize("kind", KINDS)
def test_event_that_dies_while_it_is_pending_is_harmless(gate, watch, kind):
    stream, side = torch.Stream("openreg:0"), torch.Stream("openreg:0")
    gate.hold(stream)
    event = kind()
    event.record(stream)
    side.wait_event(event)
    del event
    gc.collect()
    assert watch.waits(side.synchronize)
    gate.open()
    side.synchronize()
    assert stream.query()


# Recording


@pytest.mark.parametrize("kind", KINDS)
def test_record_without_a_stream_is_on_the_current_one(gate, kind):
    stream = torch.Stream("openreg:1")
    gate.hold(stream)
    event = kind()
    with torch.openreg.stream(stream):
        event.record()
    assert str(event.device) == "openreg:1"
    assert not event.query()
    assert torch.openreg.default_stream(1).query()


def test_record_event_gives_an_event_of_the_streams_kind():
    assert type(torch.Stream("openreg").record_event()) is torch.Event
    assert type(torch.openreg.Stream().record_event()) is torch.openreg.Event


@pytest.mark.parametrize(
    ("stream_kind", "event_kind"),
    [
        (torch.Stream, torch.Event),
        (torch.openreg.Stream, torch.Event),
        (torch.openreg.Stream, torch.openreg.Event),
    ],
)
def test_record_event_gives_the_same_event_back(gate, stream_kind, event_kind):
    stream, event = stream_kind("openreg:0"), event_kind()
    gate.hold(stream)
    assert stream.record_event(event) is event
    assert not event.query()


@pytest.mark.parametrize("kind", KINDS)
def test_query_speaks_of_the_latest_record(gate, kind):
    event = kind()
    event.record()
    event.synchronize()
    assert event.query()
    gate.hold()
    event.record()
    assert not event.query()
    gate.open()
    event.synchronize()
    assert event.query()


@pytest.mark.parametrize("kind", KINDS)
def test_recorded_event_stays_on_its_device(kind):
    event = kind()
    event.record(torch.Stream("openreg:0"))
    with pytest.raises(RuntimeError, match="does not match recording stream's device"):
        event.record(torch.Stream("openreg:1"))
    assert str(event.device) == "openreg:0"


def test_module_event_records_on_the_current_device_and_no_other():
    """The generic event would go back to the device that it knows."""
    event = torch.openreg.Event()
    event.record()
    torch.openreg.set_device(1)
    with pytest.raises(RuntimeError, match="does not match recording stream's device"):
        event.record()


@pytest.mark.parametrize("kind", KINDS)
def test_stream_of_the_host_is_refused(kind):
    with pytest.raises(RuntimeError, match="does not match recording stream's"):
        kind().record(torch.Stream("cpu"))


# Waiting


@pytest.mark.parametrize("kind", KINDS)
def test_synchronize_of_an_unrecorded_event_ignores_a_busy_stream(gate, watch, kind):
    gate.hold()
    assert watch.returns(kind().synchronize)


@pytest.mark.parametrize("kind", KINDS)
def test_synchronize_leaves_later_work_running(gate, watch, kind):
    stream, event = torch.Stream("openreg:0"), kind()
    event.record(stream)
    gate.hold(stream)
    assert watch.returns(event.synchronize)
    assert event.query()
    assert not stream.query()


@pytest.mark.parametrize("kind", KINDS)
def test_wait_binds_to_the_record_that_is_the_latest_then(gate, watch, kind):
    stream, side, event = torch.Stream("openreg"), torch.Stream("openreg"), kind()
    event.record(stream)
    side.wait_event(event)
    gate.hold(stream)
    event.record(stream)
    assert watch.returns(side.synchronize)
    assert not event.query()


@pytest.mark.parametrize("kind", KINDS)
def test_waiting_for_an_unrecorded_event_is_no_obstacle(gate, watch, kind):
    side = torch.Stream("openreg:0")
    gate.hold()
    side.wait_event(kind())
    assert watch.returns(side.synchronize)


@pytest.mark.parametrize("kind", KINDS)
def test_wait_without_a_stream_holds_the_current_one(gate, watch, kind):
    stream, side, event = torch.Stream("openreg"), torch.Stream("openreg"), kind()
    gate.hold(stream)
    event.record(stream)
    with torch.openreg.stream(side):
        event.wait()
    assert watch.waits(side.synchronize)
    assert torch.openreg.default_stream().query()


def test_module_event_holds_the_current_stream_of_another_device(gate):
    """The generic event would hold the stream of its own device."""
    gate.hold()
    event = torch.openreg.Event()
    event.record()
    torch.openreg.set_device(1)
    event.wait()
    assert not torch.openreg.default_stream(1).query()


@pytest.mark.parametrize("event_kind", KINDS)
@pytest.mark.parametrize("stream_kind", [torch.Stream, torch.openreg.Stream])
def test_stream_waits_for_an_event_of_another_device(
    gate, watch, event_kind, stream_kind
):
    producer, consumer = stream_kind("openreg:0"), stream_kind("openreg:1")
    event = event_kind()
    gate.hold(producer)
    event.record(producer)
    consumer.wait_event(event)
    assert watch.waits(consumer.synchronize)
    gate.open()
    consumer.synchronize()


@pytest.mark.parametrize("kind", KINDS)
def test_event_of_one_thread_is_waited_for_by_another(gate, watch, kind):
    event = kind()
    gate.hold()
    event.record()
    assert watch.waits(event.synchronize)
    gate.open()
    event.synchronize()
