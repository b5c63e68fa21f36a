"""The list in docs/vendors.md of what the kept code needs of a vendor's SDK."""

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "vendors.md"
HEADERS = ROOT / "include" / "openreg"
SIMULATION = ROOT / "backend" / "simulation"

COMMENT_OR_TEXT = re.compile(r'//[^\n]*|/\*.*?\*/|"(?:\\.|[^"\\\n])*"', re.S)


def declared() -> dict[str, str]:
    """Return the functions of the driver, each with the name of its header."""
    return {
        name: header.name
        for header in HEADERS.glob("*.h")
        for name in re.findall(
            r"^OPENREG_API[^;(]*?\b(or[A-Z]\w*)\(", header.read_text(), re.M
        )
    }


def kept_sources() -> list[Path]:
    """Return the sources that a vendor keeps."""
    found = [*ROOT.glob("backend/**/*"), *ROOT.glob("bindings/*")]
    return [
        path
        for path in found
        if path.suffix in {".c", ".cpp", ".h"} and not path.is_relative_to(SIMULATION)
    ]


def called() -> set[str]:
    """Return the driver's functions that these name, calls and pointers."""
    names = set()
    for source in kept_sources():
        code = COMMENT_OR_TEXT.sub(" ", source.read_text())
        names |= set(re.findall(r"\bor[A-Z]\w*", code))
    return names & declared().keys()


def listed() -> list[tuple[str, str]]:
    """Return the rows of the page's table: a header, and a function."""
    rows, header = [], ""
    for link, function in re.findall(
        r"^\| (?:\[`(\w+\.h)`\]\(\S+\))? ?\| `(or\w+)` \| \S", PAGE.read_text(), re.M
    ):
        header = link or header
        rows.append((header, function))
    return rows


def test_the_page_lists_the_functions_that_the_kept_code_calls():
    functions = [function for _, function in listed()]
    assert len(set(functions)) == len(functions)
    assert set(functions) == called()


def test_the_page_says_how_many_there_are():
    (number,) = re.findall(r"call (\d+) functions of the\s+driver", PAGE.read_text())
    assert int(number) == len(called())


def test_each_function_stands_with_its_header():
    headers = declared()
    assert [(headers[function], function) for _, function in listed()] == listed()
