#!/usr/bin/env python3
"""Compare what is new to the device with what is new to the CPU.

    benchmarks/first_time.py [--quick] [--driver DRIVER]... [--only NAME]...
                             [--json FILE]

First training steps, sequences that grow, operators with shapes or numbers that no
call had before. Time is processor time: of every thread, and of the device's process
where devices are isolated. OpenMP's threads sleep while they wait. Both sides are
measured in turns, where the median of the ratios of neighbours counts; with one thread
and with the default number of them. Only the in-process driver has limits. Exits with 1
if one is missed.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import os
import statistics
import sys
from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import torch
from cases import DRIVERS, INPROCESS
from first_operators import OPERATORS
from first_work import (
    CPU,
    LARGE,
    begin,
    compare_generation,
    compare_lengths,
    compare_operator,
    first_clip,
    first_step,
    peaks,
)
from measuring import new_process
from table import duration, print_table, print_verdict, verdict
from timing import Comparison, in_turns

OPERATOR_LIMIT = 2.0
MEDIAN_LIMIT = 1.4
CLIP_LIMIT = 20e6  # nanoseconds
MEMORY_LIMIT = 64 << 20  # bytes
MEDIAN = "operators_median"
STEPS = {"first_gpt": "gpt", "first_cnn": "cnn", "first_lstm": "lstm"}
MEMORY = {f"memory_{name}": name for name in LARGE}


@dataclass(frozen=True)
class Repetitions:
    """How often each is measured; a process takes seconds to start."""

    processes: int
    samples: int  # of an operator or of a growing text, in one process
    steps: int  # of a training


FULL = Repetitions(processes=7, samples=9, steps=24)
QUICK = Repetitions(processes=3, samples=4, steps=8)


def ratio(value: float) -> str:
    """Write how many times as much it is."""
    return f"{value:.2f}"


def mebibytes(value: float) -> str:
    """Write bytes."""
    return f"{value / (1 << 20):.1f} MiB"


@dataclass(frozen=True)
class Finding:
    """What was measured of a case: the value that has a limit, and what it is from."""

    name: str
    title: str
    value: float
    limit: float
    write: Callable[[float], str] = ratio
    parts: tuple[str, str] = ("", "")  # of the device and of the CPU, as text

    @property
    def kept(self) -> bool:
        """Whether the value is within its limit."""
        return self.value <= self.limit


@dataclass
class Run:
    """One driver with one number of threads, and what was found of it."""

    driver: str
    threads: int
    device: torch.device
    repetitions: Repetitions
    findings: list[Finding] = field(default_factory=list)
    failures: dict[str, str] = field(default_factory=dict)

    @property
    def title(self) -> str:
        """The driver and the number of threads."""
        return f"{self.driver}, {self.threads} thread{'s' if self.threads != 1 else ''}"

    @property
    def promised(self) -> bool:
        """Whether the limits are this driver's."""
        return self.driver == INPROCESS

    @property
    def kept(self) -> bool:
        """Whether every limit that is promised is kept, and nothing failed."""
        missed = self.promised and not all(found.kept for found in self.findings)
        return not self.failures and not missed

    def in_new_process(self, call: Callable[..., Any], *arguments: Any) -> Any:
        """Return what `call` returns where only the devices were started."""
        with new_process(self.driver, self.threads) as process:
            process.submit(begin, self.device).result()
            return process.submit(call, *arguments).result()

    def compare_first(self, call: Callable[..., float], *arguments: str) -> Comparison:
        """Compare both devices, each time in a new process."""

        def sample(device: torch.device) -> float:
            return float(self.in_new_process(call, *arguments, device))

        turns = (partial(sample, self.device), partial(sample, CPU))
        return in_turns(self.repetitions.processes, *turns)

    def add(
        self,
        name: str,
        title: str,
        measured: Comparison,
        limit: float,
    ) -> None:
        """Note a ratio."""
        found = Finding(name, title, measured.ratio, limit, parts=measured.medians)
        self.findings.append(found)


def measure_step(run: Run, name: str) -> None:
    """Measure the first step of a model."""
    measured = run.compare_first(first_step, STEPS[name])
    run.add(name, f"first training step, {STEPS[name]}", measured, 1.5)


def measure_generation(run: Run, name: str) -> None:
    """Measure how a text grows."""
    measured = run.in_new_process(
        compare_generation, run.device, run.repetitions.samples
    )
    run.add(name, "a token, with a growing cache", measured, 1.2)


def measure_lengths(run: Run, name: str) -> None:
    """Measure training steps of new lengths."""
    measured = run.in_new_process(compare_lengths, run.device, run.repetitions.steps)
    run.add(name, "training step of a new length", measured, 1.0)


def measure_clip(run: Run, name: str) -> None:
    """Measure the first `clip_grad_norm_`, which has an absolute limit."""
    measured = run.compare_first(first_clip)
    value = measured.ours_median
    title = "first clip_grad_norm_"
    found = Finding(name, title, value, CLIP_LIMIT, duration, measured.medians)
    run.findings.append(found)


def measure_memory(run: Run, name: str) -> None:
    """Measure how much more memory a first call takes than a later one."""
    large = MEMORY[name]
    first, later = run.in_new_process(peaks, large, run.device)
    title = f"host memory, {large} of 1 GiB: first, later"
    parts = (mebibytes(first), mebibytes(later))
    value = first - later
    run.findings.append(Finding(name, title, value, MEMORY_LIMIT, mebibytes, parts))


WORK: dict[str, Callable[[Run, str], None]] = {
    **dict.fromkeys(STEPS, measure_step),
    "generation": measure_generation,
    "lengths": measure_lengths,
    "first_clip": measure_clip,
    **dict.fromkeys(MEMORY, measure_memory),
}
EVERY_OPERATOR = "operators"
NAMES = (*WORK, EVERY_OPERATOR, *OPERATORS)


def measure_operators(run: Run, names: Collection[str]) -> None:
    """Measure operators in one process: of each, every call is of a new kind."""
    measured: dict[str, Comparison] = {}
    with new_process(run.driver, run.threads) as process:
        process.submit(begin, run.device).result()
        for name in names:
            samples = run.repetitions.samples
            done = process.submit(compare_operator, name, run.device, samples)
            try:
                measured[name] = done.result()
            except Exception as error:
                run.failures[name] = f"{type(error).__name__}: {error}"
    for name, found in sorted(measured.items(), key=lambda item: -item[1].ratio):
        run.add(name, name, found, OPERATOR_LIMIT)
    if measured.keys() == OPERATORS.keys():
        middle = statistics.median(found.ratio for found in measured.values())
        title = f"median of {len(measured)} operators"
        run.findings.append(Finding(MEDIAN, title, middle, MEDIAN_LIMIT))


def measure(run: Run, names: Collection[str]) -> None:
    """Measure these of `NAMES`; what fails is noted, and the others go on."""
    for name in (name for name in WORK if name in names):
        print(f"{run.title}: {name}", flush=True)
        try:
            WORK[name](run, name)
        except Exception as error:
            run.failures[name] = f"{type(error).__name__}: {error}"
    chosen = OPERATORS if EVERY_OPERATOR in names else names
    operators = [name for name in OPERATORS if name in chosen]
    if operators:
        print(f"{run.title}: operators", flush=True)
        measure_operators(run, operators)


def print_run(run: Run) -> None:
    """Print what was found beside the limits."""
    rows = []
    for found in run.findings:
        judged = ("", "")
        if run.promised:
            judged = (f"<= {found.write(found.limit)}", verdict(found.kept))
        rows.append((found.title, *found.parts, found.write(found.value), *judged))
    header = ("first time", "openreg", "CPU", "value", "limit", "")
    print_table(f"Processor time of what is new, {run.title}", header, rows)
    for name, failure in run.failures.items():
        print(f"FAILED, {name}: {failure}")


def run_json(run: Run) -> dict[str, Any]:
    """Return what was found, for other programs: ratios, nanoseconds or bytes."""
    fields = ("name", "title", "value", "limit", "parts", "kept")
    return {
        "driver": run.driver,
        "threads": run.threads,
        "repetitions": dataclasses.asdict(run.repetitions),
        "findings": [
            {name: getattr(found, name) for name in fields} for found in run.findings
        ],
        "failures": run.failures,
    }


def parse() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--device", type=torch.device, default="openreg:0")
    parser.add_argument(
        "--quick", action="store_true", help="fewer repetitions, for a first look"
    )
    parser.add_argument(
        "--driver", action="append", choices=DRIVERS, help="one of them alone"
    )
    parser.add_argument(
        "--threads", type=int, action="append", help="this number of them alone"
    )
    parser.add_argument(
        "--only", action="append", choices=NAMES, metavar="NAME", help=", ".join(NAMES)
    )
    parser.add_argument("--json", type=Path, help="write everything to this file")
    return parser.parse_args()


def main() -> int:
    """Measure, report, and return the exit code."""
    arguments = parse()
    # OpenMP's threads would otherwise spin while they wait, and be counted: on a busy
    # machine that is many times the work.
    os.environ["OMP_WAIT_POLICY"] = "passive"  # the measuring processes inherit it
    repetitions = QUICK if arguments.quick else FULL
    runs = [
        Run(driver, threads, arguments.device, repetitions)
        for driver in arguments.driver or DRIVERS
        for threads in arguments.threads or sorted({1, torch.get_num_threads()})
    ]
    for run in runs:
        measure(run, arguments.only or NAMES)
        print_run(run)
    if arguments.json:
        report = {"torch": torch.__version__, "runs": [run_json(run) for run in runs]}
        arguments.json.write_text(json.dumps(report, indent=1), encoding="utf-8")
    good = all(run.kept for run in runs)
    print_verdict(good)
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
