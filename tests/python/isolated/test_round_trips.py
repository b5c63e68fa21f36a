"""What a call that the host waits for costs on an isolated device.

It is one round trip: the reply says what the results look like, and what brings them to
device memory is queued. A short reply needs no memory of its own.
"""

import json
from pathlib import Path

import pytest
from programs import run

# Calls that wait for the device. Their replies and copies are short.
CALLS = {
    "equal": "torch.equal(x, y)",
    "item": "x[0, 0].item()",
    "tolist": "x.tolist()",
    "cpu": "x.cpu()",
    "nonzero": "x.nonzero()",
    "mask": "x[mask]",
    "masked_select": "x.masked_select(mask)",
    "bincount": "counts.bincount()",
    "unique": "x.unique()",
    "repeat_interleave": "counts.repeat_interleave(counts)",
    "sparse addition": "a + b",
    "sparse product": "a * b",
    "to_sparse": "x.to_sparse()",
}
TWO_TRIPS = {"nonzero, then its end": "x.nonzero(), torch.openreg.synchronize()"}
LONG = {"tolist of 2 MiB": "long.tolist()"}

SCRIPT = """
    import json
    from driver import counters

    x = torch.arange(12.0).reshape(3, 4).to("openreg")
    y, mask, long = x.clone(), x > 4, torch.ones(1 << 19).to("openreg")
    counts = torch.tensor([2, 0, 1, 3]).to("openreg")
    a, b = torch.eye(4).to("openreg").to_sparse(), y.t().matmul(x).to_sparse()

    def shared():
        '''The memory that this program shares with the device.'''
        total = 0
        with os.scandir("/proc/self/fd") as files:
            for file in files:
                if os.readlink(file).startswith("/memfd:openreg-"):
                    total += file.stat().st_blocks * 512
        return total

    def measured(code, times):
        call = eval(f"lambda: ({code})")
        for _ in range(3):  # the first of a kind finds out what it is like
            call()
        before, memory = counters(), shared()
        for _ in range(times):
            call()
        after = counters()
        waits = after.device_waits - before.device_waits
        return waits, after.staged_bytes - before.staged_bytes, shared() - memory

    calls, times = json.loads(sys.argv[1]), int(sys.argv[2])
    print(json.dumps({name: measured(code, times) for name, code in calls.items()}))
"""


def measured(calls: dict[str, str], times: int) -> dict[str, tuple[int, int, int]]:
    """Make calls so many times; return what each took in all.

    How often the program waited for the device, the bytes that were staged, and how
    much more memory it shares with the device afterwards.
    """
    folder = Path(__file__).parents[1] / "openreg" / "support"  # of the module driver
    printed = run(SCRIPT, json.dumps(calls), str(times), PYTHONPATH=str(folder))
    return json.loads(printed)


@pytest.fixture(scope="module")
def one_call() -> dict[str, tuple[int, int, int]]:
    """What each call takes."""
    return measured(CALLS | TWO_TRIPS | LONG, 1)


@pytest.mark.parametrize("name", CALLS)
def test_a_call_that_waits_makes_one_round_trip_and_stages_nothing(one_call, name):
    waits, staged, _ = one_call[name]
    assert (waits, staged) == (1, 0)


@pytest.mark.parametrize("name", TWO_TRIPS)
def test_a_second_round_trip_is_counted(one_call, name):
    waits, staged, _ = one_call[name]
    assert (waits, staged) == (2, 0)


@pytest.mark.parametrize("name", LONG)
def test_what_is_long_is_staged_and_counted(one_call, name):
    waits, staged, _ = one_call[name]
    assert waits > 0
    assert staged >= 1 << 20


def test_replies_use_the_same_memory_again():
    """Many calls together need less than the ring of 1 MiB, which fills on the way."""
    times = 100
    for name, (waits, _, memory) in measured(CALLS, times).items():
        assert waits == times, name
        assert memory <= 1 << 20, name
