#!/usr/bin/env python3
"""Check who includes what.

    tools/check_includes.py [FILE]...

A folder may include its own headers and those of the folders that are named for it
below; so what a vendor keeps does not know the simulation, and the device's side does
not know the host's. Nothing may include a header that drags in all of PyTorch: each
costs seconds in every file that sees it. Without arguments, looks at all of our files.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

# What a folder may include besides itself. The longest folder that a file is in
# counts; a folder that is not here, such as tests/, may include everything.
ALLOWED: dict[str, tuple[str, ...]] = {
    # The driver.
    "driver/api": ("driver/core", "driver/kernels"),
    "driver/core": (),
    "driver/execution": ("driver/core", "driver/kernels"),
    "driver/inprocess": ("driver/core", "driver/execution"),
    "driver/kernels": ("driver/core",),
    "driver/isolated": ("driver/core", "driver/isolated/process"),
    "driver/isolated/process": ("driver/core", "driver/isolated"),
    "driver/isolated/device": ("driver/core", "driver/execution", "driver/isolated",
                               "driver/isolated/process"),
    # What a vendor keeps. Its way to whatever runs operators is backend/seam.h.
    "backend": ("backend/runtime", "backend/ops", "backend/fallback", "backend/amp",
                "backend/pytorch"),
    "backend/runtime": ("backend",),
    "backend/ops": ("backend", "backend/runtime", "backend/fallback",
                    "backend/pytorch"),
    "backend/fallback": ("backend", "backend/runtime", "backend/pytorch"),
    "backend/amp": ("backend", "backend/pytorch"),
    "backend/pytorch": (),
    "backend/bare": ("backend", "backend/runtime", "backend/fallback",
                     "backend/pytorch"),
    "bindings": ("backend", "backend/runtime", "backend/fallback"),
    # The simulation: the host's side and the device's have two folders in common.
    "backend/simulation": ("backend", "backend/runtime", "backend/pytorch",
                           "backend/simulation/common", "backend/simulation/host"),
    "backend/simulation/host": ("backend", "backend/runtime", "backend/ops",
                                "backend/fallback", "backend/pytorch",
                                "backend/simulation/common",
                                "backend/simulation/record"),
    "backend/simulation/device": ("backend/pytorch", "backend/simulation/common",
                                  "backend/simulation/record"),
    "backend/simulation/common": ("backend/pytorch", "backend/simulation/record"),
    "backend/simulation/record": (),
}  # fmt: skip
# Folders that a vendor deletes. Without them their rules say nothing.
REPLACED = ("backend/simulation", "driver")
# Folders in which not even the word "executor" may stand.
KEPT = ("backend/runtime", "backend/ops", "backend/fallback", "backend/amp")

HEAVY = re.compile(
    r"torch/(all|extension|torch)\.h|ATen/(ATen|Functions|NativeFunctions)\.h"
)
INCLUDE = re.compile(r'\s*#\s*include\s*(?:"([^"]+)"|<([^>]+)>)')


def own_files() -> list[Path]:
    """Return our C and C++ files."""
    listed = subprocess.run(
        ["tools/sources.sh"], check=True, capture_output=True, text=True
    ).stdout
    return [Path(name) for name in listed.split("\0") if name]


def folder_of(path: Path) -> str | None:
    """Return the folder with a rule that holds for a file or header."""
    for parent in path.parents:
        if str(parent) in ALLOWED:
            return str(parent)
    return None


def included_file(source: Path, header: str) -> Path:
    """Return the path of one of our headers; those of the driver lie in driver/."""
    if header.startswith("."):
        return Path(os.path.normpath(source.parent / header))
    in_driver = Path("driver", header)
    return in_driver if folder_of(in_driver) else Path(header)


def missing_folders() -> list[str]:
    """Return the folders in the rules that do not exist, such as misspelled ones."""
    named = {name for folder, allowed in ALLOWED.items() for name in (folder, *allowed)}
    gone = [top for top in REPLACED if not Path(top).is_dir()]
    return sorted(
        name
        for name in named
        if not Path(name).is_dir()
        and not any(Path(name).is_relative_to(top) for top in gone)
    )


def wrong_include(source: Path, header: str) -> str | None:
    """Return what is wrong with an include, if anything."""
    if HEAVY.fullmatch(header):
        return f"includes {header}, which is too heavy; include what is needed"
    here = folder_of(source)
    there = folder_of(included_file(source, header))
    if here is None or there is None or here == there or there in ALLOWED[here]:
        return None
    return f"includes {header}; {here}/ may not include {there}/"


def findings(source: Path) -> Iterator[str]:
    """Yield what is wrong with a file, with line numbers."""
    is_kept = folder_of(source) in KEPT
    for number, line in enumerate(source.read_text().splitlines(), 1):
        where = f"{source}:{number}"
        match = INCLUDE.match(line)
        if match and (wrong := wrong_include(source, match[1] or match[2])):
            yield f"{where}: {wrong}"
        if is_kept and "executor" in line.lower():
            yield f"{where}: names the executor, which a vendor does not have"


def main() -> int:
    """Print the findings; return 1 if there are any."""
    sources = [Path(name) for name in sys.argv[1:]] or own_files()
    wrong = [f"{sys.argv[0]}: no folder {name}" for name in missing_folders()]
    wrong += [finding for source in sources for finding in findings(source)]
    print("\n".join(wrong), end="\n" if wrong else "")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
