"""The site of the documentation: its menu, its links, and the check of them."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
CHECK = ROOT / "tools" / "check_site.py"
MENU = (ROOT / "mkdocs.yml").read_text()
OUTSIDE = {"index.md", "architecture.md", "contributing.md", "changelog.md"}


def check(site: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, CHECK, site], capture_output=True, text=True, check=False
    )


@pytest.fixture
def site(tmp_path) -> Path:
    """A site of two pages that is as it should be."""
    (tmp_path / "index.html").write_text(
        '<a href="b.html#place">b</a><a href="#here" id="here"></a>'
        '<a href="https://example.org">away</a><script src="own.js"></script>'
    )
    (tmp_path / "b.html").write_text('<h2 id="place"></h2><a href=".">index</a>')
    return tmp_path


def test_a_good_site_passes(site):
    done = check(site)
    assert done.stdout == ""
    assert done.returncode == 0


@pytest.mark.parametrize(
    ("html", "finding"),
    [
        ('<a href="c.html">', "c.html leads nowhere"),
        ('<a href="index.html#nothing">', "index.html#nothing has no such place"),
        ('<a href="#nothing">', "#nothing has no such place"),
        ('<script src="https://cdn.example.org/x.js">', "fetches https://cdn."),
        ('<link rel="stylesheet" href="//example.org/x.css">', "fetches //example.org"),
        ('<img src="http://example.org/x.png">', "fetches http://example.org"),
    ],
)
def test_what_is_wrong_is_found(site, html, finding):
    (site / "b.html").write_text('<h2 id="place"></h2>' + html)
    done = check(site)
    assert done.returncode == 1
    assert f"b.html: {finding}" in done.stdout


def test_a_folder_without_a_site_is_refused(tmp_path):
    assert check(tmp_path).returncode == 2


def test_every_document_is_in_the_menu():
    pages = {str(p.relative_to(ROOT / "docs")) for p in (ROOT / "docs").rglob("*.md")}
    named = set(re.findall(r"([\w/-]+\.md)$", MENU, re.M))
    assert named == pages | OUTSIDE


def test_every_stylesheet_and_script_exists():
    names = re.findall(r"\b\w+/[\w-]+\.(?:css|js)\b", MENU)
    assert len(names) >= 2
    assert [name for name in names if not (ROOT / "docs" / name).is_file()] == []


def test_every_module_of_the_reference_exists():
    names = [
        name
        for page in (ROOT / "docs" / "reference").glob("*.md")
        for name in re.findall(r"^::: (\S+)$", page.read_text(), re.M)
    ]
    assert len(names) >= 10
    missing = [
        name
        for name in names
        if not (ROOT / name.replace(".", "/")).is_dir()
        and not (ROOT / (name.replace(".", "/") + ".py")).is_file()
    ]
    assert missing == []


def test_every_public_module_is_in_the_reference():
    text = "\n".join(p.read_text() for p in (ROOT / "docs" / "reference").glob("*.md"))
    for path in (ROOT / "torch_openreg").rglob("*.py"):
        module = ".".join(path.relative_to(ROOT).with_suffix("").parts)
        if any(part.startswith("_") for part in path.with_suffix("").parts[-2:]):
            continue
        assert f"::: {module}\n" in text, module
