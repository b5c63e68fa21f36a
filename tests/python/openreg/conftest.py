"""Fixtures for the tests of ``torch.openreg``."""

import gc
import threading
from collections.abc import Callable, Iterator

import pytest
import torch
from compare import threads

from driver import Gate


class Watch:
    """Tells whether a call returns while a gate holds its stream back.

    The call runs on a thread of its own, on the caller's device and stream.
    """

    def __init__(self) -> None:
        self._threads: list[threading.Thread] = []
        self._failures: list[BaseException] = []

    def _start(self, call: Callable[[], object]) -> threading.Thread:
        stream = torch.accelerator.current_stream()

        def run() -> None:
            try:
                # `with stream:` leaves the device if the stream is its current one.
                with torch.openreg.stream(stream):
                    call()
            except BaseException as error:
                self._failures.append(error)

        thread = threading.Thread(target=run)
        self._threads.append(thread)
        thread.start()
        return thread

    def returns(self, call: Callable[[], object]) -> bool:
        """Whether ``call`` returns; one that does takes far less than the limit."""
        thread = self._start(call)
        thread.join(timeout=30)
        return not thread.is_alive()

    def waits(self, call: Callable[[], object]) -> bool:
        """Whether ``call`` has not returned after a while.

        A call that waits for a closed gate never returns, so a correct program
        never fails here, however slow the machine is.
        """
        thread = self._start(call)
        thread.join(timeout=0.3)
        return thread.is_alive()

    def finish(self) -> None:
        """Wait for all calls, which the open gate lets go on."""
        for thread in self._threads:
            thread.join(timeout=60)
            assert not thread.is_alive(), "a call waits although the gate is open"
        if self._failures:
            raise self._failures[0]


@pytest.fixture
def watch() -> Iterator[Watch]:
    """See ``Watch``; it ends after the gate."""
    made = Watch()
    yield made
    made.finish()


@pytest.fixture
def gate(watch: Watch) -> Iterator[Gate]:
    """A stop sign for streams, open at the end of the test."""
    made = Gate()
    yield made
    made.destroy()


@pytest.fixture
def second_gate(gate: Gate) -> Iterator[Gate]:
    """Another one; at the end both open, because freeing one waits for all work."""
    made = Gate()
    yield made
    gate.open()
    made.destroy()


@pytest.fixture(autouse=True, scope="module")
def _long_lived_objects() -> None:
    """What exists before the first test of a file stays: collections skip it."""
    gc.collect()
    gc.freeze()


@pytest.fixture(autouse=True)
def _clean_state() -> Iterator[None]:
    """Every test ends on device 0, on the default streams, with nothing queued."""
    yield
    gc.collect()
    for device in range(torch.openreg.device_count()):
        torch.openreg.set_stream(torch.openreg.default_stream(device))
        torch.openreg.synchronize(device)
    torch.openreg.set_device(0)


@pytest.fixture
def nothing_cached() -> None:
    """The test starts without unused segments, its sums and peaks at 0."""
    gc.collect()
    torch.openreg.empty_cache()
    for device in range(torch.openreg.device_count()):
        torch.openreg.reset_accumulated_memory_stats(device)
        torch.openreg.reset_peak_memory_stats(device)


@pytest.fixture
def one_thread() -> Iterator[None]:
    """The CPU's kernels use one thread, so that sums have one order."""
    with threads(1):
        yield
