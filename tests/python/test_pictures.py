"""The pictures of the documents are drawn from the texts beside them."""

import re
import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree

import pytest

ROOT = Path(__file__).resolve().parents[2]
PICTURES = ROOT / "docs" / "pictures"
NAMES = sorted(path.stem for path in PICTURES.glob("*.txt"))
LARGEST = 20_000  # bytes
LETTER = 7.2  # the width of a letter at the size of notes, in a wide font


@pytest.fixture(scope="module")
def drawn(tmp_path_factory) -> Path:
    """A folder with the pictures, drawn anew."""
    folder = tmp_path_factory.mktemp("pictures")
    subprocess.run([sys.executable, ROOT / "tools" / "pictures.py", folder], check=True)
    return folder


def test_every_picture_has_a_text():
    assert len(NAMES) >= 3
    assert sorted(path.stem for path in PICTURES.glob("*.svg")) == NAMES


@pytest.mark.parametrize("name", NAMES)
def test_a_picture_is_what_its_text_says(drawn, name):
    """If not: python tools/pictures.py."""
    expected = (drawn / f"{name}.svg").read_text()
    assert (PICTURES / f"{name}.svg").read_text() == expected
    assert len(expected) < LARGEST


@pytest.mark.parametrize("name", NAMES)
def test_a_picture_fits_into_its_frame(name):
    root = ElementTree.parse(PICTURES / f"{name}.svg").getroot()
    width = int(root.attrib["width"])
    for text in root.iterfind("{http://www.w3.org/2000/svg}text"):
        long, x = len(text.text or "") * LETTER, int(text.attrib["x"])
        left = x - long / 2 if text.attrib["text-anchor"] == "middle" else x
        assert 0 <= left <= left + long <= width, text.text


@pytest.mark.parametrize("name", NAMES)
def test_a_picture_is_in_a_document(name):
    documents = [ROOT / "README.md", *ROOT.glob("docs/*.md")]
    shown = re.compile(rf"!\[.+\]\((docs/)?pictures/{name}\.svg\)")
    assert any(shown.search(path.read_text()) for path in documents)
