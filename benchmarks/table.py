"""How the reports of the benchmarks write numbers and tables."""

from __future__ import annotations

from collections.abc import Sequence

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

UNITS = {"ns": 1.0, "us": 1e3, "ms": 1e6, "s": 1e9}
OK = "ok"
MISSED = "MISSED"
STYLES = {OK: "green", MISSED: "bold red"}
LOG_WIDTH = 120  # a log has no width of its own


def make_console() -> Console:
    """Return a console that is wide enough for a table, in a log too."""
    console = Console(highlight=False)
    if not console.is_terminal:
        console.width = LOG_WIDTH
    return console


def duration(nanoseconds: float) -> str:
    """Write a time with a fitting unit."""
    for unit in ("s", "ms", "us"):
        if abs(nanoseconds) >= UNITS[unit]:
            return f"{nanoseconds / UNITS[unit]:.2f} {unit}"
    return f"{nanoseconds:.0f} ns"


def verdict(kept: bool) -> str:
    """Write whether a target is reached."""
    return OK if kept else MISSED


def print_table(
    title: str, header: tuple[str, ...], rows: Sequence[tuple[str, ...]]
) -> None:
    """Print rows under a title, the first column to the left."""
    table = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False)
    table.add_column(header[0])
    for heading in header[1:]:
        table.add_column(heading, justify="right", no_wrap=True)
    for row in rows:
        table.add_row(*(Text(cell, style=STYLES.get(cell, "")) for cell in row))
    print(f"\n{title}")  # by itself: a table's own title is not wider than the table
    make_console().print(table)


def print_verdict(kept: bool) -> None:
    """Say whether the promises are kept."""
    print("\nEvery promise is kept." if kept else "\nA promise is broken.")
