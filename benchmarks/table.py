"""How the reports of the benchmarks write numbers and tables."""

from __future__ import annotations

from collections.abc import Sequence

UNITS = {"ns": 1.0, "us": 1e3, "ms": 1e6, "s": 1e9}


def duration(nanoseconds: float) -> str:
    """Write a time with a fitting unit."""
    for unit in ("s", "ms", "us"):
        if abs(nanoseconds) >= UNITS[unit]:
            return f"{nanoseconds / UNITS[unit]:.2f} {unit}"
    return f"{nanoseconds:.0f} ns"


def print_table(
    title: str, header: tuple[str, ...], rows: Sequence[tuple[str, ...]]
) -> None:
    """Print rows under a title, the first column to the left."""
    widths = [max(len(row[i]) for row in [header, *rows]) for i in range(len(header))]
    print(f"\n{title}")
    for row in [header, tuple("-" * width for width in widths), *rows]:
        cells = [row[0].ljust(widths[0])]
        cells += [
            cell.rjust(width) for cell, width in zip(row[1:], widths[1:], strict=True)
        ]
        print("  ".join(cells).rstrip())


def print_verdict(kept: bool) -> None:
    """Say whether the promises are kept."""
    print("\nEvery promise is kept." if kept else "\nA promise is broken.")
