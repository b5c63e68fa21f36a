import pytest
import torch
from compare import DEVICE, assert_same, numbers


def floats(d):
    return numbers(3, 4).to(d)


P = {
    "split": lambda d: floats(d).split([1, 2]),
    "split_copy": lambda d: torch.split_copy(floats(d), 2),
    "unsafe_chunk": lambda d: floats(d).unsafe_chunk(2, 1),
    "unbind_copy": lambda d: torch.unbind_copy(floats(d), 1),
    "unbind": lambda d: floats(d).unbind(1),
    "add": lambda d: floats(d) + 1,
}


@pytest.mark.usefixtures("one_thread")
@pytest.mark.parametrize("name", P)
@pytest.mark.parametrize("i", range(20))
def test_old(gate, watch, name, i):
    expected = P[name]("cpu")
    P[name](DEVICE)
    results: list[object] = []
    stream = torch.openreg.Stream()

    def work() -> None:
        results.append(P[name](DEVICE))
        stream.synchronize()

    with torch.openreg.stream(stream):
        gate.hold()
        waiting = watch.waits(work)
    assert waiting
    gate.open()
    watch.finish()
    assert_same(results[0], expected)
