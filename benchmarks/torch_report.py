#!/usr/bin/env python3
"""Measure the installed package and say whether it keeps its promises.

    benchmarks/torch_report.py [--repetitions 31]

A promise compares two things that are measured in turns, so that a slow moment of
the machine hits both sides: the median of the differences, or of the ratios, of
neighbours counts. Exits with 1 if a promise is broken.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import torch
from table import duration, print_table, print_verdict

MIB = 1 << 20
ALLOCATIONS_A_SAMPLE = 1000
COPIED = 64 * MIB
IMPORT_TARGET = 30e6  # nanoseconds
ALLOCATION_TARGET = 1.0

TIME_IMPORT = """
import time
start = time.perf_counter_ns()
import torch
print(time.perf_counter_ns() - start)
"""

# What PyTorch does for us in the end of its import, alone.
TIME_AUTOLOAD = """
import time
import torch
start = time.perf_counter_ns()
torch._import_device_backends()
print(time.perf_counter_ns() - start)
"""

Row = tuple[str, ...]


def time_of(script: str, autoload: bool) -> float:
    """Return the nanoseconds that `script` prints in a new process."""
    environment = os.environ | {"TORCH_DEVICE_BACKEND_AUTOLOAD": str(int(autoload))}
    command = [sys.executable, "-c", script]
    done = subprocess.run(
        command, env=environment, check=True, stdout=subprocess.PIPE, text=True
    )
    return float(done.stdout)


@dataclass
class Comparison:
    """Two things, measured in turns: nanoseconds of ours and of the other."""

    ours: list[float]
    other: list[float]

    @property
    def medians(self) -> tuple[str, str]:
        """The medians of both, as text."""
        return (
            duration(statistics.median(self.ours)),
            duration(statistics.median(self.other)),
        )

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
    result = Comparison([], [])
    turns = [(ours, result.ours), (other, result.other)]
    for _ in range(repetitions):
        for measure, samples in turns:
            samples.append(measure())
        turns.reverse()
    return result


def row(title: str, measured: Comparison, target: str, kept: bool) -> Row:
    """Write a promise."""
    return (
        title,
        *measured.medians,
        duration(measured.difference),
        f"{measured.ratio:.3f}",
        target,
        "ok" if kept else "MISSED",
    )


def judge_import(repetitions: int) -> tuple[bool, Row]:
    """Compare `import torch` with and without us."""
    measured = in_turns(
        repetitions,
        partial(time_of, TIME_IMPORT, True),
        partial(time_of, TIME_IMPORT, False),
    )
    kept = measured.difference <= IMPORT_TARGET
    target = f"difference <= {duration(IMPORT_TARGET)}"
    return kept, row("import torch", measured, target, kept)


def autoload_time(repetitions: int) -> str:
    """Measure what PyTorch's import does for us, without the rest of it."""
    samples = [time_of(TIME_AUTOLOAD, False) for _ in range(repetitions)]
    return duration(statistics.median(samples))


def allocation_time(device: torch.device) -> float:
    """Return the nanoseconds of making and freeing a tensor of 1 MiB."""
    start = time.perf_counter_ns()
    for _ in range(ALLOCATIONS_A_SAMPLE):
        torch.empty(MIB, dtype=torch.uint8, device=device)
    return (time.perf_counter_ns() - start) / ALLOCATIONS_A_SAMPLE


def judge_allocation(repetitions: int, device: torch.device) -> tuple[bool, Row]:
    """Compare `torch.empty` of 1 MiB on the device and on the CPU."""
    cpu = torch.device("cpu")
    measured = in_turns(
        repetitions, partial(allocation_time, device), partial(allocation_time, cpu)
    )
    kept = measured.ratio <= ALLOCATION_TARGET
    target = f"ratio <= {ALLOCATION_TARGET}"
    return kept, row("torch.empty, 1 MiB, and free", measured, target, kept)


def copy_time(target: torch.Tensor, source: torch.Tensor) -> float:
    """Return the nanoseconds until `source` has arrived in `target`."""
    start = time.perf_counter_ns()
    target.copy_(source)
    torch.accelerator.synchronize()
    return float(time.perf_counter_ns() - start)


def copy_rows(repetitions: int, device: torch.device) -> list[Row]:
    """Measure copies between the device and both kinds of host memory."""
    on_device = torch.zeros(COPIED, dtype=torch.uint8, device=device)
    pageable = torch.zeros(COPIED, dtype=torch.uint8)
    pinned = torch.zeros(COPIED, dtype=torch.uint8).pin_memory()
    target = torch.zeros_like(pageable)
    copies = (
        ("to the device, pinned", on_device, pinned),
        ("to the device, pageable", on_device, pageable),
        ("to the host, pinned", pinned, on_device),
        ("to the host, pageable", pageable, on_device),
        ("on the device", torch.zeros_like(on_device), on_device),
    )
    rows: list[Row] = []
    for title, to, source in copies:
        measured = in_turns(
            repetitions,
            partial(copy_time, to, source),
            partial(copy_time, target, pageable),
        )
        rates = (
            f"{COPIED / statistics.median(nanoseconds):.1f} GB/s"
            for nanoseconds in (measured.ours, measured.other)
        )
        rows.append((title, *rates, f"{measured.ratio:.3f}"))
    return rows


def main() -> int:
    """Measure, report, and return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--repetitions", type=int, default=31)
    parser.add_argument("--device", type=torch.device, default="openreg:0")
    arguments = parser.parse_args()

    promises = [
        judge_allocation(arguments.repetitions, arguments.device),
        judge_import(arguments.repetitions),
    ]
    print_table(
        f"Copies of {COPIED // MIB} MiB, for information",
        ("copy", "openreg", "CPU to CPU", "time ratio"),
        copy_rows(arguments.repetitions, arguments.device),
    )
    print_table(
        "Promises",
        ("promise", "openreg", "without", "difference", "ratio", "target", ""),
        [line for _, line in promises],
    )
    print(f"\nAutoload alone takes {autoload_time(5)} of the import.")
    kept = all(kept for kept, _ in promises)
    print_verdict(kept)
    return 0 if kept else 1


if __name__ == "__main__":
    sys.exit(main())
