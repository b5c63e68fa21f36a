"""What is written by hand beside the C++ table of settings agrees with it."""

import re
from pathlib import Path
from typing import NamedTuple

import pytest
import torch

from torch_openreg import _patches

ROOT = Path(__file__).resolve().parents[2]
HEADER = ROOT / "backend" / "simulation" / "common" / "settings_table.h"
PAGE = ROOT / "docs" / "launch-record.md"

TEXT = HEADER.read_text()
LITERALS = r'((?:"[^"]*"\s*)+)'
OWNERS = {"kThread": "the thread's", "kProcess": "the process's"}


class Row(NamedTuple):
    """A row as the document has it, and the functions that change the setting."""

    name: str
    bits: str
    owner: str
    setters: tuple[str, ...]


def joined(literals: str) -> str:
    """What adjacent string literals of C++ are together."""
    return "".join(re.findall(r'"([^"]*)"', literals))


CONSTANTS = dict(
    re.findall(rf"std::string_view (k\w+) =\s*{LITERALS};", TEXT, re.DOTALL)
)


def row_of(fields: str) -> Row:
    name = re.search(rf"\.name\s*=\s*{LITERALS}", fields)
    bits = re.search(r"\.bits = (\d+)", fields)
    owner = re.search(r"\.owner = Owner::(k\w+)", fields)
    setters = re.search(rf"\.setters\s*=\s*(?:{LITERALS}|(k\w+))", fields)
    assert name is not None
    named = "" if setters is None else setters[1] or CONSTANTS[setters[2]]
    return Row(
        joined(name[1]),
        bits[1] if bits else "1",
        OWNERS[owner[1] if owner else "kProcess"],
        tuple(joined(named).split()),
    )


FOUND = re.findall(
    r"struct (\w+)[^{;]*\{\s*static constexpr Row kRow\{(.*?)\};", TEXT, re.DOTALL
)
ROWS = [row_of(fields) for _, fields in FOUND]
SETTERS = sorted({setter for row in ROWS for setter in row.setters})


def test_the_list_has_every_row_in_order():
    listed = re.search(r"using Table =\s*List<(.*?)>;", TEXT, re.DOTALL)
    assert listed is not None
    assert re.findall(r"\w+", listed[1]) == [name for name, _ in FOUND]
    assert len(ROWS) > 10


def test_the_document_has_the_table():
    section = PAGE.read_text().partition("\n## Settings\n")[2].partition("\n## ")[0]
    documented = re.findall(r"^\| (.+) \| (\d+) \| (the .+) \|$", section, re.M)
    assert documented == [row[:3] for row in ROWS]


@pytest.mark.parametrize("setter", SETTERS)
def test_every_setter_is_wrapped(setter):
    """The device hears of the change, and nothing queued before sees it."""
    assert hasattr(getattr(torch._C, setter), "__wrapped__")


def test_no_other_setter_waits():
    assert set(_patches._SETTERS) <= set(SETTERS)
