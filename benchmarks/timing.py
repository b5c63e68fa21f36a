"""How two things are compared: in turns, by the medians of neighbours.

A slow moment of the machine then hits both sides. Nothing here knows PyTorch.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass, field

from table import duration

# Runs something that often and returns the nanoseconds that each took.
Sampler = Callable[[int], float]

SAMPLE = 30e6  # nanoseconds that a sample should take
FEWEST = 2  # a wait at the end of a sample must not count as much as the work
MOST = 10_000
# The threads of a parallel region spin for about a millisecond after it. What one
# side leaves behind must not run while the other one is measured.
REST = 0.005  # seconds


@dataclass
class Comparison:
    """Two things, measured in turns: nanoseconds of ours and of the other."""

    ours: list[float] = field(default_factory=list)
    other: list[float] = field(default_factory=list)

    @property
    def ours_median(self) -> float:
        """The median of ours."""
        return statistics.median(self.ours)

    @property
    def other_median(self) -> float:
        """The median of the other."""
        return statistics.median(self.other)

    @property
    def medians(self) -> tuple[str, str]:
        """The medians of both, as text."""
        return duration(self.ours_median), duration(self.other_median)

    @property
    def difference(self) -> float:
        """The median of the differences of neighbours."""
        pairs = zip(self.ours, self.other, strict=True)
        return statistics.median(ours - other for ours, other in pairs)

    @property
    def ratio(self) -> float:
        """The median of the ratios of neighbours."""
        pairs = zip(self.ours, self.other, strict=True)
        return statistics.median(ours / other for ours, other in pairs)


def in_turns(
    repetitions: int, ours: Callable[[], float], other: Callable[[], float]
) -> Comparison:
    """Measure both `repetitions` times; each is first in every second turn."""
    ours(), other()  # files and caches get warm
    result = Comparison()
    turns = [(ours, result.ours), (other, result.other)]
    for _ in range(repetitions):
        for measure, samples in turns:
            time.sleep(REST)
            samples.append(measure())
        turns.reverse()
    return result


def calibrate(sampler: Sampler, sample: float) -> int:
    """Return how often to run it so that a sample takes about `sample` ns."""
    count = FEWEST
    sampler(count)  # the first run is slower than the others
    while count < MOST:
        each = sampler(count)
        if each * count >= sample / 4:
            return min(max(FEWEST, round(sample / each)), MOST)
        count = min(4 * count, MOST)
    return count


def compare(
    repetitions: int, ours: Sampler, other: Sampler, sample: float = SAMPLE
) -> Comparison:
    """Measure both in turns; a sample of either has as many runs."""
    count = calibrate(other, sample)
    return in_turns(repetitions, lambda: ours(count), lambda: other(count))
