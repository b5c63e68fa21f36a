"""Measures the cases: in a process for each driver and number of threads.

A process has one driver, and one number of threads: OpenMP's stay once they exist.
"""

from __future__ import annotations

import gc
import multiprocessing
import os
import statistics
from collections.abc import Callable, Collection
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass, field
from typing import Any

import torch
from cases import CASES, add, enqueue
from timing import Comparison, compare

CPU = torch.device("cpu")
SIZES = (8, 64, 512, 4 << 10, 32 << 10, 256 << 10, 1 << 20, 4 << 20)
LAUNCHES = (1, 10, 100, 1000, 10_000)
LAUNCHES_BY_SIZE = 100  # that a sample enqueues
BY_SIZE = "growth_by_size"
BY_LAUNCHES = "growth_by_launches"
NAMES = (*(case.name for case in CASES), BY_SIZE, BY_LAUNCHES)


@dataclass(frozen=True)
class Options:
    """What every measurement has to know."""

    device: torch.device
    repetitions: int


@dataclass
class Findings:
    """What was measured of one driver with one number of threads.

    `sizes` has the add of so many elements, on both sides, and the host's time for
    enqueueing it; `launches` the host's time for each of so many launches.
    """

    driver: str
    threads: int
    cases: dict[str, Comparison] = field(default_factory=dict)
    sizes: dict[int, tuple[Comparison, float]] = field(default_factory=dict)
    launches: dict[int, float] = field(default_factory=dict)
    failures: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Job:
    """A call for the measuring process: its result goes to `results[argument]`."""

    title: str
    call: Callable[[Any, Options], object]
    argument: str | int
    results: dict[Any, Any]


def measure_case(name: str, options: Options) -> Comparison:
    """Compare one case on both devices."""
    case = next(case for case in CASES if case.name == name)
    samplers = (case.prepare(options.device), case.prepare(CPU))
    gc.collect()  # not in the middle of a sample
    return compare(options.repetitions, *samplers)


def measure_size(size: int, options: Options) -> tuple[Comparison, float]:
    """Compare an add of `size` elements, and time its launch on a held stream."""
    samplers = (add((size,), options.device), add((size,), CPU))
    launch = enqueue((size,), options.device)
    launches = [launch(LAUNCHES_BY_SIZE) for _ in range(options.repetitions)]
    return compare(options.repetitions, *samplers), statistics.median(launches)


def measure_launches(count: int, options: Options) -> float:
    """Time that many launches of a tiny add on a held stream."""
    launch = enqueue((8, 8), options.device)
    return statistics.median(launch(count) for _ in range(options.repetitions))


def jobs_for(names: Collection[str], findings: Findings) -> list[Job]:
    """Return what has to be measured for these of `NAMES`."""
    jobs = [
        Job(case.title, measure_case, case.name, findings.cases)
        for case in CASES
        if case.name in names
    ]
    if BY_SIZE in names:
        jobs += [
            Job(f"add of {size} elements", measure_size, size, findings.sizes)
            for size in SIZES
        ]
    if BY_LAUNCHES in names:
        jobs += [
            Job(f"{count} launches", measure_launches, count, findings.launches)
            for count in LAUNCHES
        ]
    return jobs


def begin(driver: str, threads: int) -> None:
    """Make this process measure that driver with that many threads."""
    torch.set_num_threads(threads)
    actual = torch.openreg.process_info(0).driver  # type: ignore[attr-defined]
    if actual != driver:
        raise RuntimeError(f"the process has the driver {actual}, not {driver}")


def new_process(driver: str, threads: int) -> ProcessPoolExecutor:
    """Return a process that measures that driver with that many threads.

    It takes its driver from the environment: of this process, which has no device.
    """
    os.environ["OPENREG_DRIVER"] = driver
    return ProcessPoolExecutor(
        max_workers=1,
        mp_context=multiprocessing.get_context("spawn"),
        initializer=begin,
        initargs=(driver, threads),
    )


def measure(
    findings: Findings,
    jobs: list[Job],
    options: Options,
    announce: Callable[[str], None],
) -> None:
    """Do the jobs; tell `announce` the title of each before it starts.

    What fails becomes one of the failures, and the others go on: in a new process,
    if the old one is gone.
    """
    process = new_process(findings.driver, findings.threads)
    try:
        for job in jobs:
            announce(job.title)
            try:
                done = process.submit(job.call, job.argument, options)
                job.results[job.argument] = done.result()
            except BrokenProcessPool:
                findings.failures[job.title] = "the process died"
                process = new_process(findings.driver, findings.threads)
            except Exception as error:
                findings.failures[job.title] = f"{type(error).__name__}: {error}"
    finally:
        process.shutdown()
