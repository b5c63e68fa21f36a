"""Draws the pictures of the documents: docs/pictures/*.txt become *.svg beside them.

tools/pictures.py [FOLDER]        writes them into FOLDER instead

A picture is bands of rows of boxes:

    # what the picture shows
    [colour] name of a band
    title: a note | title         a row of boxes
    v a label                     an arrow to the next row
"""

from __future__ import annotations

import sys
from dataclasses import dataclass, field
from html import escape
from pathlib import Path
from textwrap import wrap

PICTURES = Path(__file__).resolve().parents[1] / "docs" / "pictures"

# The background is part of the picture, so that it can be read on any page.
_COLOURS = {  # of a band: its background, its lines
    "python": ("#eef0f2", "#5b6570"),
    "backend": ("#dfebfa", "#2563a8"),
    "driver": ("#fdebd3", "#a85b12"),
    "device": ("#f9e1dd", "#a83a2a"),
    "kept": ("#ddf1e1", "#2a7a3b"),
    "goes": ("#eef0f2", "#5b6570"),
    "yours": ("#dfebfa", "#2563a8"),
}
_TEXT = "#1b1f24"
_FONTS = "system-ui, 'Segoe UI', Helvetica, Arial, 'DejaVu Sans', sans-serif"

_WIDTH, _MARGIN, _PADDING, _GAP = 760, 14, 12, 12
_ARROW = 30  # from a row to the next, if there is an arrow
_LINE = 17
_TITLE, _NOTE = 9.0, 7.2  # the width of a letter in a wide font: bold 13, plain 12


@dataclass
class _Row:
    """Boxes side by side, each of a title and a note."""

    boxes: list[tuple[str, str]]
    arrow: str | None = None  # what the arrow that leads here says


@dataclass
class _Band:
    """Rows that belong together."""

    colour: str
    name: str
    rows: list[_Row] = field(default_factory=list)


def _read(text: str) -> tuple[str, list[_Band]]:
    """Return what the picture shows, and its bands."""
    head, *lines = text.splitlines()
    bands: list[_Band] = []
    arrow = None
    for line in lines:
        if line.startswith("["):
            colour, _, name = line[1:].partition("] ")
            bands.append(_Band(colour, name))
        elif line.split(" ")[0] == "v":
            arrow = line[2:]
        else:
            boxes = [box.partition(": ")[::2] for box in line.split(" | ")]
            bands[-1].rows.append(_Row(boxes, arrow))
            arrow = None
    return head.removeprefix("# "), bands


class _Picture:
    """A picture that grows downwards. ``y`` is where it ends so far."""

    def __init__(self, shows: str) -> None:
        self.shows = escape(shows)
        self.y = _MARGIN
        self.shapes: list[str] = []
        self.last: tuple[int, list[int]] = (0, [])  # the row above: bottom, centres

    def band(self, band: _Band) -> None:
        """Add a band and what is in it. An arrow to its first row ends at its edge."""
        fill, line = _COLOURS[band.colour]
        self.y += 0 if band.rows[0].arrow is None else _GAP
        top, place = self.y, len(self.shapes)
        self.text(_MARGIN + _PADDING, top + 19, [band.name], line, "600", "start")
        self.y += 30
        for row in band.rows:
            if row is not band.rows[0]:
                self.y += _GAP if row.arrow is None else _ARROW
            self.row(row, line, top if row is band.rows[0] else self.y)
        self.y += _PADDING
        width, height = _WIDTH - 2 * _MARGIN, self.y - top
        self.shapes.insert(place, _rect(_MARGIN, top, width, height, fill))
        self.y += _GAP

    def row(self, row: _Row, line: str, edge: int) -> None:
        """Add a row of boxes of one size, and the arrows that lead to ``edge``."""
        count = len(row.boxes)
        inside = _WIDTH - 2 * (_MARGIN + _PADDING)
        width = (inside - (count - 1) * _GAP) // count
        room = width - _PADDING
        titles = [wrap(title, int(room / _TITLE)) for title, _ in row.boxes]
        notes = [wrap(note, int(room / _NOTE)) for _, note in row.boxes]
        lines = max(len(t) + len(n) for t, n in zip(titles, notes, strict=True))
        height = lines * _LINE + _PADDING
        centres = []
        for i, (title, note) in enumerate(zip(titles, notes, strict=True)):
            x = _MARGIN + _PADDING + i * (width + _GAP)
            centres.append(x + width // 2)
            self.shapes.append(_rect(x, self.y, width, height, "#ffffff", line))
            first = self.y + (height - _LINE * (len(title) + len(note))) // 2 + 13
            self.text(centres[i], first, title, _TEXT, "600")
            self.text(centres[i], first + _LINE * len(title), note, _TEXT)
        if row.arrow is not None:
            self.arrows(max(self.last[1], centres, key=len), edge, row.arrow)
        self.y += height
        self.last = self.y, centres

    def arrows(self, columns: list[int], edge: int, label: str) -> None:
        """Add arrows from the row above to ``edge``, and say what they mean."""
        start, end = self.last[0] + 2, edge - 2
        for x in columns:
            self.shapes.append(
                f'<path d="M{x} {start}V{end - 6}" stroke="{_TEXT}"/>'
                f'<path d="M{x} {end}l-4 -8h8z" fill="{_TEXT}"/>'
            )
        middle = columns[len(columns) // 2] + 10 if len(columns) % 2 else _WIDTH // 2
        anchor = "start" if len(columns) % 2 else "middle"
        self.text(middle, end - 8, [label] if label else [], _TEXT, "400", anchor)

    def text(
        self,
        x: int,
        y: int,
        lines: list[str],
        colour: str,
        weight: str = "400",
        anchor: str = "middle",
    ) -> None:
        """Add lines of text; ``y`` is where the first one stands."""
        size = 13 if weight == "600" else 12
        self.shapes += [
            f'<text x="{x}" y="{y + i * _LINE}" fill="{colour}" font-size="{size}" '
            f'font-weight="{weight}" text-anchor="{anchor}">{escape(line)}</text>'
            for i, line in enumerate(lines)
        ]

    def svg(self) -> str:
        """Return the picture."""
        height = self.y - _GAP + _MARGIN
        return "\n".join(
            [
                f'<svg xmlns="http://www.w3.org/2000/svg" width="{_WIDTH}" '
                f'height="{height}" viewBox="0 0 {_WIDTH} {height}" role="img" '
                f'font-family="{_FONTS}">',
                f"<title>{self.shows}</title>",
                _rect(0, 0, _WIDTH, height, "#ffffff"),
                *self.shapes,
                "</svg>\n",
            ]
        )


def _rect(
    x: int, y: int, width: int, height: int, fill: str, stroke: str = "none"
) -> str:
    return (
        f'<rect x="{x}" y="{y}" width="{width}" height="{height}" rx="6" '
        f'fill="{fill}" stroke="{stroke}"/>'
    )


def draw(text: str) -> str:
    """Return the SVG of a picture that a text describes."""
    shows, bands = _read(text)
    picture = _Picture(shows)
    for band in bands:
        picture.band(band)
    return picture.svg()


def main() -> None:
    """Draw every picture."""
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else PICTURES
    for source in sorted(PICTURES.glob("*.txt")):
        (folder / f"{source.stem}.svg").write_text(draw(source.read_text()))


if __name__ == "__main__":
    main()
