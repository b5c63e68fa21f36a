"""Streams: which there are, which one is current, what waits for what."""

import threading

import pytest
import torch

# Which streams there are


def test_current_stream_is_at_first_the_default_one_and_idle():
    for device in range(2):
        stream = torch.openreg.current_stream(device)
        assert stream == torch.openreg.default_stream(device)
        assert stream.stream_id == 0
        assert stream.native_handle == 0
        assert stream.query()


def test_new_streams_differ_from_the_default_and_from_each_other():
    first, second = torch.Stream("openreg"), torch.openreg.Stream()
    default = torch.openreg.default_stream()
    assert len({first, second, default}) == 3
    assert first != second
    assert first.native_handle != second.native_handle


@pytest.mark.parametrize("make", [torch.Stream, torch.openreg.Stream])
def test_hundred_creations_give_32_streams(make):
    assert len({make("openreg:0") for _ in range(100)}) == 32


def test_streams_of_two_devices_are_different_streams():
    ours = {torch.Stream("openreg:0") for _ in range(32)}
    theirs = {torch.Stream("openreg:1") for _ in range(32)}
    assert not ours & theirs
    assert torch.openreg.default_stream(0) != torch.openreg.default_stream(1)


@pytest.mark.parametrize(
    ("arguments", "index"),
    [
        ((), 0),
        ((1,), 1),
        (("openreg",), 0),
        (("openreg:1",), 1),
        ((torch.device("openreg:1"),), 1),
    ],
)
@pytest.mark.parametrize("kind", [torch.Stream, torch.openreg.Stream])
def test_stream_is_made_on_the_device_that_is_asked_for(kind, arguments, index):
    stream = kind(*arguments)
    assert stream.device == torch.device("openreg", index)
    assert stream.device_index == index
    assert isinstance(stream.native_handle, int)
    assert torch.openreg.current_device() == 0


@pytest.mark.parametrize("kind", [torch.Stream, torch.openreg.Stream])
def test_stream_is_made_on_the_current_device_by_default(kind):
    torch.openreg.set_device(1)
    assert kind().device_index == 1


def test_negative_device_is_the_current_one():
    torch.openreg.set_device(1)
    assert torch.openreg.Stream(-1).device_index == 1


@pytest.mark.parametrize("kind", [torch.Stream, torch.openreg.Stream])
def test_stream_is_rebuilt_from_its_three_numbers(kind):
    stream = torch.Stream("openreg:1")
    again = kind(
        stream_id=stream.stream_id,
        device_index=stream.device_index,
        device_type=stream.device_type,
    )
    assert again == stream
    assert hash(again) == hash(stream)
    assert again.native_handle == stream.native_handle


def test_made_up_stream_is_an_error_when_used():
    device_type = torch.Stream("openreg").device_type
    made_up = torch.Stream(stream_id=987654, device_index=0, device_type=device_type)
    with pytest.raises(torch.AcceleratorError, match="not a live stream"):
        made_up.query()
    with pytest.raises(torch.AcceleratorError, match="not a live stream"):
        made_up.synchronize()


@pytest.mark.parametrize("index", [2, 99, 127])
def test_made_up_stream_of_no_device_is_an_error_everywhere(index):
    device_type = torch.Stream("openreg").device_type
    stream = torch.Stream(stream_id=1, device_index=index, device_type=device_type)
    for use in (
        stream.query,
        stream.synchronize,
        stream.record_event,
        lambda: stream.native_handle,
        lambda: torch.openreg.set_stream(stream),
        lambda: torch.ones(1, device="openreg").record_stream(stream),
    ):
        with pytest.raises(torch.AcceleratorError, match="out of range"):
            use()
    assert torch.ones(2, device="openreg").tolist() == [1.0, 1.0]


def test_module_streams_are_torch_streams():
    assert issubclass(torch.openreg.Stream, torch.Stream)
    assert type(torch.accelerator.current_stream()) is torch.Stream
    assert type(torch.openreg.current_stream()) is torch.openreg.Stream
    assert type(torch.openreg.default_stream()) is torch.openreg.Stream


def test_stream_equals_the_same_stream_of_the_other_class():
    stream = torch.openreg.Stream()
    with stream:
        generic = torch.accelerator.current_stream()
    assert generic == stream
    assert stream == generic
    assert hash(generic) == hash(stream)


def test_stream_is_no_equal_of_other_things():
    stream = torch.openreg.Stream()
    assert (stream == None) is False  # noqa: E711
    assert stream != 1
    assert stream != "openreg"


def test_repr_names_device_and_stream():
    generic = repr(torch.Stream("openreg:1"))
    assert "torch.Stream device_type=openreg, device_index=1" in generic
    stream = torch.openreg.Stream(1)
    assert repr(stream) == (
        "<torch.openreg.Stream device=openreg:1 "
        f"openreg_stream={stream.native_handle:#x}>"
    )


# Priorities


def test_priority_range_goes_from_0_down():
    least, greatest = torch.openreg.Stream.priority_range()
    assert least == 0
    assert greatest < 0


def test_priority_is_brought_into_range():
    greatest = torch.openreg.Stream.priority_range()[1]
    given = (-1, 0, 1, -100)
    found = [torch.openreg.Stream(priority=p).priority for p in given]
    assert found == [-1, 0, 0, greatest]


def test_default_stream_has_the_lowest_priority():
    assert torch.openreg.default_stream().priority == 0


@pytest.mark.parametrize("kind", [torch.Stream, torch.openreg.Stream])
def test_streams_of_another_priority_come_from_another_pool(kind):
    least, greatest = torch.openreg.Stream.priority_range()
    pools = [
        {kind("openreg:0", priority=p) for p in [priority] * 40}
        for priority in range(greatest, least + 1)
    ]
    assert [len(pool) for pool in pools] == [32] * len(pools)
    assert len(set().union(*pools)) == 32 * len(pools)


# The current stream


def test_with_stream_sets_and_restores_nested_too():
    default = torch.openreg.current_stream()
    outer, inner = torch.Stream("openreg:0"), torch.openreg.Stream(0)
    with outer as entered:
        assert entered is outer
        assert torch.openreg.current_stream() == outer
        with inner:
            assert torch.openreg.current_stream() == inner
        assert torch.openreg.current_stream() == outer
    assert torch.openreg.current_stream() == default


def test_stream_context_of_the_module_sets_and_restores():
    stream = torch.openreg.Stream()
    context = torch.openreg.stream(stream)
    assert isinstance(context, torch.openreg.StreamContext)
    with context:
        assert torch.openreg.current_stream() == stream
        with torch.openreg.stream(None):
            assert torch.openreg.current_stream() == stream
    assert torch.openreg.current_stream() == torch.openreg.default_stream()


@pytest.mark.parametrize("enter", [lambda s: s, torch.openreg.stream])
def test_stream_of_another_device_switches_the_device_and_back(enter):
    here, there = torch.Stream("openreg:0"), torch.Stream("openreg:1")
    with enter(here):
        with enter(there):
            assert torch.openreg.current_device() == 1
            assert torch.openreg.current_stream() == there
            assert torch.openreg.current_stream(0) == here
        assert torch.openreg.current_device() == 0
        assert torch.openreg.current_stream() == here
        assert torch.openreg.current_stream(1) == torch.openreg.default_stream(1)


@pytest.mark.parametrize("enter", [lambda s: s, torch.openreg.stream])
def test_stream_context_restores_after_an_exception(enter):
    def fail():
        with enter(torch.Stream("openreg:1")):
            raise KeyError

    with pytest.raises(KeyError):
        fail()
    assert torch.openreg.current_device() == 0
    assert torch.openreg.current_stream(1) == torch.openreg.default_stream(1)


def test_set_stream_switches_stream_and_device_and_none_does_nothing():
    stream = torch.openreg.Stream(1)
    torch.openreg.set_stream(stream)
    torch.openreg.set_stream(None)
    assert torch.openreg.current_device() == 1
    assert torch.openreg.current_stream() == stream


def test_stream_of_the_host_is_refused():
    with pytest.raises(RuntimeError, match="stream of an OpenReg device"):
        torch.openreg.set_stream(torch.Stream("cpu"))


def test_every_thread_has_its_own_current_streams_at_first_the_default_ones():
    torch.openreg.set_stream(torch.openreg.Stream(1))
    mine = torch.openreg.current_stream(1)
    seen = []

    def look():
        seen.append(torch.openreg.current_stream(1))
        torch.openreg.set_stream(torch.openreg.Stream(1))
        seen.append(torch.openreg.current_stream(1))

    thread = threading.Thread(target=look)
    thread.start()
    thread.join(timeout=60)
    assert seen[0] == torch.openreg.default_stream(1)
    assert seen[1] not in (seen[0], mine)
    assert torch.openreg.current_stream(1) == mine


def test_nothing_is_capturing():
    assert not torch.openreg.is_current_stream_capturing()
    assert not torch.Stream("openreg").is_capturing()
