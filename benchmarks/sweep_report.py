#!/usr/bin/env python3
"""Compare some hundred common calls with the CPU, and print the slowest.

    benchmarks/sweep_report.py [--quick] [--driver DRIVER]... [--match TEXT]
                               [--worst NUMBER] [--json FILE]

Both are measured in turns in one process, with one thread, for each driver; a call is
repeated, and at the end the device has done all of it. Promises nothing: it exits with
1 only if a call fails.
"""

from __future__ import annotations

import argparse
import gc
import json
import statistics
import sys
from pathlib import Path

import torch
from cases import DRIVERS, timed
from measuring import CPU, Findings, Job, Options
from operators_report import comparison_json, title_of, with_progress
from sweep import CALLS
from table import print_table
from timing import Comparison, compare

REPETITIONS = 9
QUICK_REPETITIONS = 3
SAMPLE = 4e6  # nanoseconds
WORST = 30


def measure_call(name: str, options: Options) -> Comparison:
    """Compare one call on both devices."""
    call = next(call for call in CALLS if call.name == name)
    ours, other = (
        timed(call.prepare(device), device) for device in (options.device, CPU)
    )
    gc.collect()  # not in the middle of a sample
    return compare(options.repetitions, ours, other, SAMPLE)


def jobs_for(match: str, findings: Findings) -> list[Job]:
    """Return what has to be measured for the calls whose name has `match` in it."""
    return [
        Job(call.name, measure_call, call.name, findings.cases)
        for call in CALLS
        if match in call.name
    ]


def print_worst(findings: Findings, count: int) -> None:
    """Print the calls with the largest ratios, and how all of them are spread."""
    found = sorted(findings.cases.items(), key=lambda item: -item[1].ratio)
    if not found:
        return
    rows = [(name, *each.medians, f"{each.ratio:.2f}") for name, each in found[:count]]
    title = title_of(f"The slowest of {len(found)} calls", findings)
    print_table(title, ("call", "openreg", "CPU", "ratio"), rows)
    ratios = [each.ratio for _, each in found]
    above = sum(ratio > 2 for ratio in ratios)
    print(f"Median ratio {statistics.median(ratios):.2f}; {above} above 2.")


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
    parser.add_argument("--match", default="", help="calls with this text alone")
    parser.add_argument("--worst", type=int, default=WORST, help="how many to print")
    parser.add_argument("--json", type=Path, help="write everything to this file")
    return parser.parse_args()


def main() -> int:
    """Measure, report, and return the exit code."""
    arguments = parse()
    repetitions = QUICK_REPETITIONS if arguments.quick else REPETITIONS
    options = Options(arguments.device, repetitions)
    everything = [Findings(driver, 1) for driver in arguments.driver or DRIVERS]
    for findings in everything:
        with_progress(findings, jobs_for(arguments.match, findings), options)
        print_worst(findings, arguments.worst)
        for title, failure in findings.failures.items():
            print(f"FAILED, {title}: {failure}")
    if arguments.json:
        report = {
            findings.driver: {
                name: comparison_json(each) for name, each in findings.cases.items()
            }
            for findings in everything
        }
        arguments.json.write_text(json.dumps(report, indent=1), encoding="utf-8")
    return 1 if any(findings.failures for findings in everything) else 0


if __name__ == "__main__":
    sys.exit(main())
