#!/usr/bin/env python3
"""Run openreg_driver_bench and say whether the driver keeps its promises.

    benchmarks/report.py build/release/benchmarks/openreg_driver_bench

A promise is a ratio of two medians of one run, in which the repetitions of all
benchmarks are shuffled, so that a slow moment of the machine hits both sides. How
fast a copy is depends also on which pages of memory a process happens to get; so
there are several runs, and the median of their ratios counts. Exits with 1 if a
promise is broken.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from table import UNITS, duration, print_table, print_verdict, verdict

MEMCPY = "copy_host_memcpy"
ALLOCATION_SIZES = (512, 1 << 20, 16 << 20)


@dataclass(frozen=True)
class Ratio:
    """`what` may cost at most `target` times as much as `than`."""

    title: str
    what: str
    than: str
    target: float


RATIOS = (
    Ratio("copy 64 MB to the device, async", "copy_async/to_device", MEMCPY, 1.1),
    Ratio("copy 64 MB to the host, async", "copy_async/to_host", MEMCPY, 1.1),
    Ratio("copy 64 MB to the device", "copy_sync/to_device", MEMCPY, 1.1),
    Ratio("copy 64 MB to the host", "copy_sync/to_host", MEMCPY, 1.1),
    Ratio("launch on a busy stream", "launch_on_busy_stream", "launch_std_async", 0.1),
)


@dataclass
class Measurement:
    """The repetitions of one benchmark, in one or several runs."""

    nanoseconds: list[float]
    system_calls: float = 0.0

    @property
    def median(self) -> float:
        """Return the median of the repetitions in nanoseconds."""
        return statistics.median(self.nanoseconds)


def run(
    binary: str, repetitions: int, min_time: float, extra: list[str]
) -> dict[str, Any]:
    """Run the benchmarks and return google-benchmark's report."""
    command = [
        binary,
        "--benchmark_format=json",
        f"--benchmark_repetitions={repetitions}",
        f"--benchmark_min_time={min_time}",
        "--benchmark_enable_random_interleaving=true",
        *extra,
    ]
    output = subprocess.run(
        command, check=True, stdout=subprocess.PIPE, text=True
    ).stdout
    report: dict[str, Any] = json.loads(output)
    return report


def plain_name(name: str) -> str:
    """Drop what google-benchmark appends to a name ("/real_time" and such)."""
    dropped = ("real_time", "manual_time", "iterations:", "repeats:")
    return "/".join(part for part in name.split("/") if not part.startswith(dropped))


def read(reports: list[dict[str, Any]]) -> dict[str, Measurement]:
    """Collect the repetitions of each benchmark."""
    measurements: dict[str, Measurement] = defaultdict(lambda: Measurement([]))
    for entry in (entry for report in reports for entry in report["benchmarks"]):
        if entry.get("run_type") != "iteration":
            continue
        measurement = measurements[plain_name(entry["run_name"])]
        measurement.nanoseconds.append(entry["real_time"] * UNITS[entry["time_unit"]])
        measurement.system_calls += entry.get("system_calls", 0.0)
    return dict(measurements)


def judge(
    runs: list[dict[str, Measurement]], measurements: dict[str, Measurement]
) -> bool:
    """Print the promises and return whether all of them are kept."""
    kept = True
    rows = []
    for ratio in RATIOS:
        what, than = measurements[ratio.what], measurements[ratio.than]
        value = statistics.median(
            run[ratio.what].median / run[ratio.than].median for run in runs
        )
        ok = value <= ratio.target
        kept &= ok
        rows.append(
            (
                ratio.title,
                duration(what.median),
                duration(than.median),
                f"{value:.3f}",
                f"<= {ratio.target}",
                verdict(ok),
            )
        )
    for size in ALLOCATION_SIZES:
        name = f"malloc_and_free/{size}"
        calls = measurements[name].system_calls
        ok = calls == 0
        kept &= ok
        rows.append(
            (
                f"system calls of malloc and free, {size} bytes",
                duration(measurements[name].median),
                "",
                f"{calls:.0f}",
                "0",
                verdict(ok),
            )
        )
    header = ("promise", "driver", "host", "ratio or count", "target", "")
    print_table("Promises", header, rows)
    return kept


def print_all(measurements: dict[str, Measurement]) -> None:
    """Print the times of every benchmark."""
    rows = [
        (
            name,
            duration(m.median),
            duration(min(m.nanoseconds)),
            duration(max(m.nanoseconds)),
        )
        for name, m in sorted(measurements.items())
    ]
    print_table(
        "All benchmarks, per call", ("benchmark", "median", "best", "worst"), rows
    )


def main() -> int:
    """Run, report, and return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("binary", help="the path of openreg_driver_bench")
    parser.add_argument("--runs", type=int, default=5, help="processes to measure in")
    parser.add_argument("--repetitions", type=int, default=5, help="per run")
    parser.add_argument(
        "--min-time", type=float, default=0.05, help="seconds per repetition"
    )
    parser.add_argument(
        "--json", type=Path, help="write google-benchmark's reports to this file"
    )
    arguments, extra = parser.parse_known_args()
    reports = []
    for number in range(1, arguments.runs + 1):
        print(f"run {number} of {arguments.runs}", flush=True)
        reports.append(
            run(arguments.binary, arguments.repetitions, arguments.min_time, extra)
        )
    if arguments.json:
        arguments.json.write_text(json.dumps(reports, indent=1), encoding="utf-8")
    measurements = read(reports)
    print_all(measurements)
    kept = judge([read([report]) for report in reports], measurements)
    print_verdict(kept)
    return 0 if kept else 1


if __name__ == "__main__":
    sys.exit(main())
