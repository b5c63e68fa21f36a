#!/usr/bin/env python3
"""Compare the operators of the device with those of the CPU.

    benchmarks/operators_report.py [--quick] [--driver DRIVER]... [--only NAME]...
                                   [--json FILE]

Both are measured in turns in one process, where the median of the ratios of
neighbours counts; and all of it for each driver, with one thread and with the default
number of them. A copy is compared with memcpy between two pageable tensors of 64 MiB
that have been written before. A driver has targets of its own; where one has two
bounds, either suffices.

Shows also how the cost of an add grows with its size, and that of a launch with the
number of launches. Exits with 1 if a target is missed.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import sys
from pathlib import Path
from typing import Any

import torch
from cases import CASES, DRIVERS, ISOLATED, Case
from measuring import NAMES, Findings, Job, Options, jobs_for, measure
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TimeElapsedColumn
from table import duration, make_console, print_table, print_verdict, verdict
from timing import Comparison

REPETITIONS = 31
QUICK_REPETITIONS = 7


def with_progress(findings: Findings, jobs: list[Job], options: Options) -> None:
    """Measure, with a bar on a terminal and a line for each case in a log."""
    console = make_console()
    where = f"{findings.driver}, {thread_count(findings)}"
    columns = (BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(
        *columns,
        "{task.description}",
        console=console,
        transient=True,
        disable=not console.is_terminal,
        refresh_per_second=1,  # the bar takes time from what is measured
    ) as progress:
        task = progress.add_task(where, total=len(jobs) + 1)

        def announce(title: str) -> None:
            progress.update(task, advance=1, description=f"{where}: {title}")
            if not console.is_terminal:
                print(f"{where}: {title}", flush=True)

        measure(findings, jobs, options, announce)


def thread_count(findings: Findings) -> str:
    """Write the number of threads."""
    return f"{findings.threads} thread{'s' if findings.threads != 1 else ''}"


def measured(findings: Findings) -> list[Case]:
    """Return the cases that were measured."""
    return [case for case in CASES if case.name in findings.cases]


def kept(case: Case, findings: Findings) -> bool:
    """Return whether a case that was measured reaches its target, if it has one."""
    target = case.target(findings.driver)
    return target is None or target.is_reached(findings.cases[case.name])


def title_of(what: str, findings: Findings) -> str:
    """Return the title of a table."""
    where = " on isolated devices" if findings.driver == ISOLATED else ""
    return f"{what}{where}, {thread_count(findings)}"


def print_cases(findings: Findings) -> None:
    """Print the cases beside their targets."""
    rows = []
    for case in measured(findings):
        found = findings.cases[case.name]
        target = case.target(findings.driver)
        judged = ("", "")
        if target is not None:
            judged = (str(target), verdict(kept(case, findings)))
        rows.append((case.title, *found.medians, f"{found.ratio:.3f}", *judged))
    if rows:
        header = ("case", "openreg", "CPU", "ratio", "target", "")
        print_table(title_of("Operators", findings), header, rows)
    if any(case.name.startswith("copy_") for case in measured(findings)):
        print(
            "The CPU's copies are memcpy between two pageable tensors, written before."
        )


def print_growth(findings: Findings) -> None:
    """Print how the costs grow."""
    if findings.sizes:
        print_table(
            title_of("An add by its size", findings),
            ("elements", "openreg", "CPU", "ratio", "host, held stream"),
            [
                (f"{size:,}", *found.medians, f"{found.ratio:.3f}", duration(launch))
                for size, (found, launch) in findings.sizes.items()
            ],
        )
    if findings.launches:
        print_table(
            title_of("A tiny add on a held stream", findings),
            ("launches", "host, each"),
            [(f"{n:,}", duration(each)) for n, each in findings.launches.items()],
        )


def all_kept(findings: Findings) -> bool:
    """Return whether every target is reached and nothing failed."""
    return not findings.failures and all(
        kept(case, findings) for case in measured(findings)
    )


def comparison_json(comparison: Comparison) -> dict[str, Any]:
    """Return medians, ratio and samples, in nanoseconds."""
    return {
        "openreg": comparison.ours_median,
        "cpu": comparison.other_median,
        "ratio": comparison.ratio,
        "samples": {"openreg": comparison.ours, "cpu": comparison.other},
    }


def case_json(case: Case, findings: Findings) -> dict[str, Any]:
    """Return what was found of a case, and what its driver promises of it."""
    target = case.target(findings.driver)
    promise = None if target is None else dataclasses.asdict(target)
    judged = {"target": promise, "ok": kept(case, findings)}
    return comparison_json(findings.cases[case.name]) | judged


def findings_json(findings: Findings) -> dict[str, Any]:
    """Return what was found, in nanoseconds, for other programs."""
    return {
        "driver": findings.driver,
        "threads": findings.threads,
        "cases": {case.name: case_json(case, findings) for case in measured(findings)},
        "growth_by_size": {
            size: comparison_json(found) | {"held_stream": launch}
            for size, (found, launch) in findings.sizes.items()
        },
        "growth_by_launches": findings.launches,
        "failures": findings.failures,
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
        "--only", action="append", choices=NAMES, metavar="NAME", help=", ".join(NAMES)
    )
    parser.add_argument("--json", type=Path, help="write everything to this file")
    return parser.parse_args()


def main() -> int:
    """Measure, report, and return the exit code."""
    arguments = parse()
    repetitions = QUICK_REPETITIONS if arguments.quick else REPETITIONS
    options = Options(arguments.device, repetitions)
    everything = [
        Findings(driver, threads)
        for driver in arguments.driver or DRIVERS
        for threads in sorted({1, torch.get_num_threads()})
    ]
    for findings in everything:
        jobs = jobs_for(arguments.only or NAMES, findings)
        with_progress(findings, jobs, options)
        print_cases(findings)
        print_growth(findings)
        for title, failure in findings.failures.items():
            print(f"FAILED, {title}: {failure}")
    if arguments.json:
        report = {
            "torch": torch.__version__,
            "runs": [findings_json(findings) for findings in everything],
        }
        arguments.json.write_text(json.dumps(report, indent=1), encoding="utf-8")
    good = all(all_kept(findings) for findings in everything)
    print_verdict(good)
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
