"""A fixed sample of PyTorch's databases: on the device as on the CPU.

``python -m tests.coverage`` runs all of it; ``docs/coverage.md`` has the results.
"""

import sys
from collections import defaultdict
from collections.abc import Iterator

import pytest

from tests.coverage.pool import Lane, Result, list_cases
from tests.coverage.sampling import sample

# The samples of a case: few, since there are so many cases.
_SAMPLES = 3
_SECONDS = 120
_FAILURES = ("different", "crash", "hang", "leak")
_PARTS = 24


@pytest.fixture(scope="module")
def cases() -> list[str]:
    return sample(list_cases())


@pytest.fixture(scope="module")
def lane() -> Iterator[Lane]:
    """A worker process; a crash ends it, and not the tests."""
    made = Lane(_SAMPLES, _SECONDS)
    yield made
    assert made.finish() == 0, "device memory is left at the end"


def _describe(result: Result) -> str:
    return f"{result['verdict']}: {result['case']}: {result['reason']}"


@pytest.mark.parametrize("part", range(_PARTS))
def test_cases_are_as_on_the_cpu(cases: list[str], lane: Lane, part: int) -> None:
    """One of the parts; its cases are neighbours, which share samples."""
    own = cases[len(cases) * part // _PARTS : len(cases) * (part + 1) // _PARTS]
    verdicts: dict[str, list[str]] = defaultdict(list)
    for number, case in enumerate(own):
        result = lane.run(case)
        verdicts[result["verdict"]].append(_describe(result))
        if sys.stderr.isatty():
            print(f"\r{number + 1}/{len(own)} {case[:60]:60}", end="", file=sys.stderr)
    failures = [text for name in _FAILURES for text in verdicts[name]]
    assert not failures, "\n".join(failures)
    assert verdicts["same"], "the part has tried nothing"


def test_every_entry_is_in_the_sample(cases: list[str]) -> None:
    def entries(some: list[str]) -> set[str]:
        return {case.rsplit("/", 2)[0] for case in some}

    assert entries(cases) == entries(list_cases())
