"""Runs the cases: all, those whose names begin as told, or a sample."""

import argparse
import os
import sys
from collections import Counter
from importlib.metadata import version
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)

from tests.coverage.pool import ROOT, list_cases, run_all
from tests.coverage.report import write_report
from tests.coverage.results import ResultFile, read_results
from tests.coverage.sampling import sample

_DEFAULT_FILE = ROOT / "build" / "coverage" / "results.jsonl"
_FAILURES = ("different", "crash", "hang", "leak")


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.coverage")
    commands = parser.add_subparsers(dest="command", required=True)
    run = commands.add_parser("run", help="run cases, in worker processes")
    run.add_argument("prefixes", nargs="*", help="of the cases' names; all if none")
    run.add_argument("--file", type=Path, default=_DEFAULT_FILE)
    run.add_argument("--fresh", action="store_true", help="do not resume")
    run.add_argument("--sampled", action="store_true", help="what `make test` runs")
    run.add_argument("--limit", type=int, default=0, help="samples a case, 0 for all")
    run.add_argument("--seconds", type=float, default=300, help="limit of a case")
    run.add_argument("--lanes", type=int, default=os.cpu_count() or 1)
    run.add_argument("--report", type=Path, help="write the page here at the end")
    report = commands.add_parser("report", help="make the page of a file of results")
    report.add_argument("--file", type=Path, default=_DEFAULT_FILE)
    report.add_argument("--report", type=Path, default=ROOT / "docs" / "coverage.md")
    one = commands.add_parser("one", help="run cases in this process, to debug them")
    one.add_argument("prefixes", nargs="+")
    one.add_argument("--limit", type=int, default=0)
    commands.add_parser("list", help="print the names of all cases")
    return parser.parse_args()


def _run(options: argparse.Namespace) -> int:
    console = Console()
    every = list_cases()
    wanted = sample(every) if options.sampled else every
    if options.prefixes:
        wanted = [c for c in wanted if c.startswith(tuple(options.prefixes))]
    if options.fresh:
        options.file.unlink(missing_ok=True)
    settings = {"torch": version("torch"), "limit": options.limit}
    file = ResultFile(options.file, settings)
    counts = Counter(file.results[c]["verdict"] for c in wanted if c in file.results)
    left_to_do = [case for case in wanted if case not in file.results]
    bar = Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TimeRemainingColumn(),
        TextColumn("{task.fields[verdicts]}"),
        console=console,
    )
    task = bar.add_task(
        "cases", total=len(wanted), completed=sum(counts.values()), verdicts=""
    )

    def report(result: dict[str, Any]) -> None:
        file.add(result)
        counts[result["verdict"]] += 1
        told = ", ".join(f"{n} {v}" for v, n in sorted(counts.items()))
        bar.update(task, advance=1, verdicts=told)
        if result["verdict"] in _FAILURES:
            text = f"{result['verdict']}: {result['case']}: {result['reason']}"
            bar.console.print(text[:300], markup=False, highlight=False)

    with bar:
        left = run_all(
            left_to_do,
            report,
            lanes=options.lanes,
            limit=options.limit,
            seconds=options.seconds,
        )
    file.close()
    results = [file.results[case] for case in wanted]
    console.print(dict(sorted(counts.items())), f"bytes left: {left}")
    if options.report is not None:
        write_report(results, options.limit, options.report)
    return 1 if left or any(r["verdict"] in _FAILURES for r in results) else 0


def _one(options: argparse.Namespace) -> int:
    from tests.coverage.cases import case_ids, prepare, run_case

    prepare()
    failures = 0
    for case in case_ids():
        if case.startswith(tuple(options.prefixes)):
            result = run_case(case, options.limit)
            failures += result.verdict in _FAILURES
            print(result)
    return 1 if failures else 0


def main() -> int:
    """Do what the command line says; 1 if a case has failed."""
    options = _arguments()
    if options.command == "list":
        from tests.coverage.cases import case_ids

        print("\n".join(case_ids()))
        return 0
    if options.command == "report":
        results, settings = read_results(options.file)
        write_report(results, settings["limit"], options.report)
        return 0
    return _run(options) if options.command == "run" else _one(options)


if __name__ == "__main__":
    sys.exit(main())
