"""Arguments of every kind, and results as the CPU's: values, dtypes and strides."""

from collections.abc import Iterator

import pytest
from argument_programs import CASES, WAITING, forget_tensors
from compare import DEVICE, assert_as_on_the_cpu, assert_same


@pytest.fixture(scope="module", autouse=True)
def _no_tensors_stay() -> Iterator[None]:
    """Other tests count the memory of the device."""
    yield
    forget_tensors()


@pytest.mark.usefixtures("one_thread")
@pytest.mark.parametrize("name", CASES)
def test_result_is_the_cpus(name):
    assert_as_on_the_cpu(CASES[name])


@pytest.mark.usefixtures("one_thread")
@pytest.mark.parametrize("name", CASES)
def test_result_is_the_cpus_the_second_time_behind_a_held_stream(gate, watch, name):
    """From the cache, and computed later by the device's own thread."""
    expected = CASES[name]("cpu")
    CASES[name](DEVICE)
    results: list[object] = []
    gate.hold()
    has_waited = watch.waits(lambda: results.append(CASES[name](DEVICE)))
    gate.open()
    watch.finish()
    assert_same(results[0], expected)
    assert has_waited == (name in WAITING)
