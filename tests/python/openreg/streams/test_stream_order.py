"""Streams run side by side, each in order, and wait for each other when told."""

import pytest
import torch
from process import run_script

ONES = [1.0] * 4


def queue_copy(stream):
    """Put asynchronous work on ``stream`` and return its result."""
    device = stream.device
    source = torch.ones(4, device=device)
    target = torch.zeros(4, device=device)
    with torch.openreg.stream(stream):
        return target.copy_(source)


def queue_copy_from(stream):
    """Put work on ``stream`` whose tensors need no other stream."""
    with torch.openreg.stream(stream):
        return torch.zeros(4, device=stream.device).copy_(torch.ones(4))


def two_streams():
    return torch.Stream("openreg:0"), torch.Stream("openreg:0")


# Query and synchronize


@pytest.mark.parametrize("kind", [torch.Stream, torch.openreg.Stream])
def test_query_is_false_while_work_is_queued_and_true_after(gate, kind):
    stream = kind("openreg:0")
    gate.hold(stream)
    assert not stream.query()
    gate.open()
    stream.synchronize()
    assert stream.query()


def test_query_of_the_default_stream_of_another_device(gate):
    stream = torch.openreg.default_stream(1)
    gate.hold(stream)
    assert not stream.query()
    assert torch.openreg.default_stream(0).query()


def test_synchronize_waits_for_its_stream(gate, watch):
    stream = torch.Stream("openreg:1")
    gate.hold(stream)
    assert watch.waits(stream.synchronize)


def test_work_of_a_stream_runs_in_order(gate):
    stream = torch.openreg.Stream()
    x = torch.zeros(4, device="openreg")
    sources = [torch.full((4,), float(i), device="openreg") for i in range(50)]
    gate.hold(stream)
    with stream:
        for source in sources:
            x.copy_(source)
    gate.open()
    stream.synchronize()
    assert x.tolist() == [49.0] * 4


# Side by side


def test_side_stream_finishes_while_the_default_stream_is_busy(gate, watch):
    side = torch.Stream("openreg:0")
    gate.hold(torch.openreg.default_stream(0))
    assert watch.returns(side.synchronize)
    done = queue_copy_from(side)
    assert watch.returns(side.synchronize)
    assert not torch.openreg.default_stream(0).query()
    gate.open()
    assert done.tolist() == ONES


def test_default_stream_finishes_while_a_side_stream_is_busy(gate, watch):
    gate.hold(torch.Stream("openreg:0"))
    x = queue_copy(torch.openreg.default_stream(0))
    assert watch.returns(torch.openreg.default_stream(0).synchronize)
    assert x.tolist() == ONES


def test_devices_run_side_by_side(gate):
    gate.hold(torch.openreg.default_stream(0))
    assert queue_copy(torch.openreg.default_stream(1)).tolist() == ONES


def test_item_on_an_idle_stream_ignores_a_busy_side_stream(gate, watch):
    x = torch.ones(1, device="openreg")
    gate.hold(torch.Stream("openreg:0"))
    assert watch.returns(x.item)


@pytest.mark.parametrize(
    "read",
    [
        lambda x: x.item(),
        lambda x: bool(x),
        lambda x: x.tolist(),
        lambda x: repr(x),
        lambda x: x.cpu(),
    ],
    ids=["item", "bool", "tolist", "repr", "cpu"],
)
def test_reading_a_value_waits_for_the_current_stream(gate, watch, read):
    x = torch.ones(1, device="openreg")
    gate.hold()
    assert watch.waits(lambda: read(x))


def test_new_streams_and_events_wait_for_nothing(gate, watch):
    def make():
        stream = torch.Stream("openreg:0")
        torch.Event().record(stream)
        torch.openreg.Event(enable_timing=True).record()

    gate.hold()
    assert watch.returns(make)


def test_device_synchronize_waits_for_side_streams(gate, watch):
    gate.hold(torch.Stream("openreg:1"))
    assert watch.waits(lambda: torch.openreg.synchronize(1))
    assert watch.returns(lambda: torch.openreg.synchronize(0))


# Waiting for each other


@pytest.mark.parametrize("kind", [torch.Stream, torch.openreg.Stream])
def test_wait_stream_orders_work(gate, kind):
    producer, consumer = kind("openreg:0"), kind("openreg:0")
    source = torch.ones(4, device="openreg:0")
    x, y = torch.zeros(4, device="openreg:0"), torch.zeros(4, device="openreg:0")
    gate.hold(producer)
    with producer:
        x.copy_(source)
    consumer.wait_stream(producer)
    with consumer:
        y.copy_(x)
    assert not consumer.query()
    gate.open()
    consumer.synchronize()
    assert y.tolist() == ONES


def test_wait_stream_orders_streams_of_two_devices(gate, watch):
    producer, consumer = torch.Stream("openreg:0"), torch.Stream("openreg:1")
    gate.hold(producer)
    consumer.wait_stream(producer)
    assert watch.waits(consumer.synchronize)
    assert torch.openreg.default_stream(1).query()


def test_wait_stream_does_not_wait_for_later_work(gate, watch):
    producer, consumer = two_streams()
    consumer.wait_stream(producer)
    gate.hold(producer)
    queue_copy(consumer)
    assert watch.returns(consumer.synchronize)


def test_wait_stream_does_not_block_the_host(gate, watch):
    producer, consumer = two_streams()
    gate.hold(producer)
    assert watch.returns(lambda: consumer.wait_stream(producer))


def test_stream_may_wait_for_itself(gate, watch):
    stream = torch.openreg.Stream()
    stream.wait_stream(stream)
    queue_copy(stream)
    assert watch.returns(stream.synchronize)


def test_wait_event_waits_for_the_work_before_the_event_only(gate, second_gate, watch):
    producer, consumer = two_streams()
    gate.hold(producer)
    event = producer.record_event()
    second_gate.hold(producer)
    consumer.wait_event(event)
    x = queue_copy(consumer)
    assert watch.waits(consumer.synchronize)
    gate.open()
    assert watch.returns(consumer.synchronize)
    assert not producer.query()
    second_gate.open()
    assert x.tolist() == ONES


def test_streams_of_one_thread_are_seen_by_another(gate, watch):
    """Streams belong to the process: any thread may wait for them."""
    stream = torch.Stream("openreg:0")
    gate.hold(stream)
    assert watch.waits(stream.synchronize)
    gate.open()
    stream.synchronize()


def test_launch_blocking_leaves_nothing_queued():
    script = """
        import torch
        x = torch.empty(16 << 20, device="openreg")
        y = torch.empty(16 << 20, device="openreg")
        stream = torch.openreg.Stream()
        done = []
        with stream:
            for _ in range(5):
                x.copy_(y)
                done.append(stream.query())
        print(all(done))
    """
    env = {"OPENREG_LAUNCH_BLOCKING": "1", "OPENREG_MEMORY": "1GiB"}
    assert run_script(script, env=env) == "True\n"
