#!/usr/bin/env python3
"""Measure what the installed package adds to `import torch`.

    benchmarks/import_report.py [--repetitions 31]

The import with and without it is measured in turns; the median of the differences
of neighbours counts. Python's bytecode is there, as after every import but the first.
Exits with 1 if it is too much.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
from functools import partial

from table import duration, print_table, print_verdict, verdict
from timing import in_turns

TARGET = 30e6  # nanoseconds

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


def time_of(script: str, autoload: bool) -> float:
    """Return the nanoseconds that `script` prints in a new process."""
    environment = os.environ | {"TORCH_DEVICE_BACKEND_AUTOLOAD": str(int(autoload))}
    # Where this is set, our files would be compiled each time: PyTorch's were when it
    # was installed, and so are ours, unless they are used from the checkout.
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    command = [sys.executable, "-c", script]
    done = subprocess.run(
        command, env=environment, check=True, stdout=subprocess.PIPE, text=True
    )
    return float(done.stdout)


def autoload_time(repetitions: int) -> str:
    """Measure what PyTorch's import does for us, without the rest of it."""
    samples = [time_of(TIME_AUTOLOAD, False) for _ in range(repetitions)]
    return duration(statistics.median(samples))


def main() -> int:
    """Measure, report, and return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--repetitions", type=int, default=31)
    arguments = parser.parse_args()

    measured = in_turns(
        arguments.repetitions,
        partial(time_of, TIME_IMPORT, True),
        partial(time_of, TIME_IMPORT, False),
    )
    kept = measured.difference <= TARGET
    print_table(
        "Promises",
        ("promise", "with openreg", "without", "difference", "target", ""),
        [
            (
                "import torch",
                *measured.medians,
                duration(measured.difference),
                f"<= {duration(TARGET)}",
                verdict(kept),
            )
        ],
    )
    print(f"\nAutoload alone takes {autoload_time(5)} of the import.")
    print_verdict(kept)
    return 0 if kept else 1


if __name__ == "__main__":
    sys.exit(main())
