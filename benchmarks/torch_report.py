#!/usr/bin/env python3
"""Measure the installed package and say whether it keeps its promises.

    benchmarks/torch_report.py [--repetitions 21]

A promise compares two things that are measured in turns, so that a slow moment of
the machine hits both sides; medians count. Exits with 1 if a promise is broken.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
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

Row = tuple[str, ...]


def import_time(autoload: bool) -> float:
    """Return the nanoseconds that `import torch` takes in a new process."""
    environment = os.environ | {"TORCH_DEVICE_BACKEND_AUTOLOAD": str(int(autoload))}
    command = [sys.executable, "-c", TIME_IMPORT]
    done = subprocess.run(
        command, env=environment, check=True, stdout=subprocess.PIPE, text=True
    )
    return float(done.stdout)


def in_turns(
    repetitions: int, what: Callable[[], float], than: Callable[[], float]
) -> tuple[float, float]:
    """Measure both `repetitions` times, in turns, and return their medians."""
    what(), than()  # files and caches get warm
    samples = [(what(), than()) for _ in range(repetitions)]
    return (
        statistics.median(sample[0] for sample in samples),
        statistics.median(sample[1] for sample in samples),
    )


def verdict(kept: bool) -> str:
    """Write whether a promise is kept."""
    return "ok" if kept else "MISSED"


def judge_import(repetitions: int) -> tuple[bool, Row]:
    """Compare `import torch` with and without us."""
    ours, plain = in_turns(
        repetitions, partial(import_time, True), partial(import_time, False)
    )
    kept = ours - plain <= IMPORT_TARGET
    return kept, (
        "import torch",
        duration(ours),
        duration(plain),
        duration(ours - plain),
        f"{ours / plain:.3f}",
        f"difference <= {duration(IMPORT_TARGET)}",
        verdict(kept),
    )


def allocation_time(device: torch.device) -> float:
    """Return the nanoseconds of making and freeing a tensor of 1 MiB."""
    start = time.perf_counter_ns()
    for _ in range(ALLOCATIONS_A_SAMPLE):
        torch.empty(MIB, dtype=torch.uint8, device=device)
    return (time.perf_counter_ns() - start) / ALLOCATIONS_A_SAMPLE


def judge_allocation(repetitions: int, device: torch.device) -> tuple[bool, Row]:
    """Compare `torch.empty` of 1 MiB on the device and on the CPU."""
    cpu = torch.device("cpu")
    ours, host = in_turns(
        repetitions, partial(allocation_time, device), partial(allocation_time, cpu)
    )
    kept = ours / host <= ALLOCATION_TARGET
    return kept, (
        "torch.empty, 1 MiB, and free",
        duration(ours),
        duration(host),
        duration(ours - host),
        f"{ours / host:.3f}",
        f"ratio <= {ALLOCATION_TARGET}",
        verdict(kept),
    )


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
        ours, host = in_turns(
            repetitions,
            partial(copy_time, to, source),
            partial(copy_time, target, pageable),
        )
        rates = (f"{COPIED / nanoseconds:.1f} GB/s" for nanoseconds in (ours, host))
        rows.append((title, *rates, f"{ours / host:.3f}"))
    return rows


def main() -> int:
    """Measure, report, and return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--repetitions", type=int, default=21)
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
        [row for _, row in promises],
    )
    kept = all(kept for kept, _ in promises)
    print_verdict(kept)
    return 0 if kept else 1


if __name__ == "__main__":
    sys.exit(main())
