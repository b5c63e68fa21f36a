"""What the documents say about files, code and settings is true."""

import os
import re
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest
import torch

from torch_openreg import info

ROOT = Path(__file__).resolve().parents[2]
DOCUMENTS = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/*.md")])
DRIVER_PAGE = ROOT / "docs" / "driver.md"
SEED_PAGE = ROOT / "docs" / "manual_seed.md"
OPERATORS_PAGE = ROOT / "docs" / "operators.md"
TROUBLE_PAGE = ROOT / "docs" / "troubleshooting.md"
TESTING_PAGE = ROOT / "docs" / "testing.md"
ECOSYSTEM_PAGE = ROOT / "docs" / "ecosystem.md"
PRECISION_PAGE = ROOT / "docs" / "mixed_precision.md"
CONTEXT_H = Path(torch.__file__).parent / "include" / "ATen" / "Context.h"


def ids(paths: list[Path]) -> list[str]:
    return [str(path.relative_to(ROOT)) for path in paths]


@pytest.mark.parametrize("document", DOCUMENTS, ids=ids(DOCUMENTS))
def test_links_lead_to_files(document: Path):
    links = re.findall(r"\]\(([^)#\s]+)(?:#[^)]*)?\)", document.read_text())
    local = [link for link in links if "://" not in link]
    missing = [link for link in local if not (document.parent / link).exists()]
    assert missing == []


def test_the_architecture_names_files_that_exist():
    """Paths in backticks are relative to the root or to driver/."""
    text = (ROOT / "ARCHITECTURE.md").read_text()
    paths = re.findall(r"`((?:\w+/)+\w+\.\w+)`", text)
    assert len(paths) > 10
    missing = [
        path
        for path in paths
        if not (ROOT / path).exists() and not (ROOT / "driver" / path).exists()
    ]
    assert missing == []


def test_c_code_in_the_documents_is_code_that_is_built():
    """Every C block stands in an example, to the letter."""
    sources = [path.read_text() for path in ROOT.glob("examples/**/*.[ch]")]
    blocks = re.findall(r"```c\n(.*?)```", DRIVER_PAGE.read_text(), re.DOTALL)
    assert blocks
    for block in blocks:
        assert any(block in source for source in sources), block


def test_cpp_code_in_the_readme_is_code_that_is_built():
    """Every C++ block stands in the example, but for its indentation."""
    source = (ROOT / "examples" / "backend" / "main.cpp").read_text()
    blocks = re.findall(
        r"```cpp\n(.*?)```", (ROOT / "README.md").read_text(), re.DOTALL
    )
    assert blocks
    for block in blocks:
        assert any(textwrap.indent(block, " " * n) in source for n in (0, 2, 4)), block


def test_python_code_in_the_readme_prints_what_it_says():
    """A comment behind a print is what it prints, in a new process."""
    readme = (ROOT / "README.md").read_text()
    blocks = re.findall(r"```python\n(.*?)```", readme, re.DOTALL)
    assert blocks
    for block in blocks:
        said = re.findall(r"^print\(.*\)  # (.*)$", block, re.MULTILINE)
        assert output_of(block).splitlines() == said


def test_the_figures_of_the_readme_are_those_of_the_benchmarks():
    """The last column is what in-process devices took, with one thread."""
    page = (ROOT / "docs" / "benchmarks.md").read_text().partition("\n### ")[0]
    measured = re.findall(r"^\| (.+) \| [^|]+ \| ([^|]+) \| [^|]+ \|$", page, re.M)
    readme = (ROOT / "README.md").read_text().partition("\n## What it costs\n")[2]
    costs = readme.partition("\n## ")[0]
    rows = re.findall(r"^\| (.*\w.*) \| [^|]+ \| ([\d., ]+) \|$", costs, re.M)
    assert 1 < len(rows) <= 8
    assert set(rows) <= set(measured)


def test_every_variable_is_in_the_table_of_settings():
    files = ("core/config.cpp", "isolated/process/spawn.cpp")
    code = "".join((ROOT / "driver" / file).read_text() for file in files)
    read_by_the_driver = set(re.findall(r'"(OPENREG_[A-Z_]+)"', code))
    rows = re.findall(r"^\| `(OPENREG_[A-Z_]+)` \|", DRIVER_PAGE.read_text(), re.M)
    assert set(rows) == read_by_the_driver
    assert len(rows) == len(read_by_the_driver)


def test_the_most_devices_are_as_many_as_the_driver_has():
    header = (ROOT / "include" / "openreg" / "device.h").read_text()
    (most,) = re.findall(r"#define OPENREG_MAX_DEVICES (\d+)", header)
    rows = [
        *re.findall(r"`OPENREG_DEVICES` \| 0 to (\d+) \|", DRIVER_PAGE.read_text()),
        *re.findall(r"--openreg-devices` \| 1 to (\d+) \|", TESTING_PAGE.read_text()),
    ]
    assert rows == [most, most]
    meaning = info.VARIABLES["OPENREG_DEVICES"][1]
    assert meaning.endswith(f" 0 to {most}")


def test_every_public_header_is_in_the_table_of_headers():
    headers = {path.name for path in (ROOT / "include" / "openreg").glob("*.h")}
    named = set(
        re.findall(r"\]\(\.\./include/openreg/(\w+\.h)\)", DRIVER_PAGE.read_text())
    )
    assert headers - named == {"defs.h", "openreg.h"}


def blocks(page: Path, language: str) -> list[str]:
    """The code blocks of a page in that language."""
    return re.findall(rf"^```{language}\n(.*?)^```", page.read_text(), re.M | re.S)


def unindented(text: str) -> str:
    return "\n".join(line.strip() for line in text.splitlines())


def assert_quoted(quotes: list[str], page: Path, *others: Path) -> None:
    """Every quote stands in a file that the page links to, or in another one."""
    links = re.findall(r"\]\(\.\./([^)#]+)\)", page.read_text())
    sources = [unindented(f.read_text()) for f in (*map(ROOT.joinpath, links), *others)]
    for quote in quotes:
        assert any(unindented(quote) in source for source in sources), quote


def run_program(program: str) -> subprocess.CompletedProcess[str]:
    """Run it in a new process with no settings."""
    env = {k: v for k, v in os.environ.items() if not k.startswith("OPENREG_")}
    return subprocess.run(
        [sys.executable, "-c", program],
        env=env,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


def output_of(program: str) -> str:
    """What it prints."""
    done = run_program(program)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_walk_of_manual_seed_quotes_its_sources():
    """Every block but the program stands in a file that the page links to."""
    _program, *quotes = blocks(SEED_PAGE, "(?:python|cpp)")
    assert len(quotes) >= 7
    assert_quoted(quotes, SEED_PAGE, CONTEXT_H)


def test_the_program_of_the_walk_prints_what_the_page_shows():
    program, *_ = blocks(SEED_PAGE, "python")
    (output,) = blocks(SEED_PAGE, "text")
    assert output_of(program) == output


def test_the_page_of_operators_quotes_its_sources():
    quotes = blocks(OPERATORS_PAGE, "cpp")
    assert len(quotes) >= 10
    assert_quoted(quotes, OPERATORS_PAGE)


def test_the_programs_of_the_page_of_operators_print_what_it_shows():
    programs = blocks(OPERATORS_PAGE, "python")
    outputs = blocks(OPERATORS_PAGE, "text")
    assert len(programs) == len(outputs) >= 4
    for program, output in zip(programs, outputs, strict=True):
        assert output_of(program) == output


def test_the_program_of_the_page_of_mixed_precision_prints_what_it_shows():
    (program,), (output,) = (blocks(PRECISION_PAGE, x) for x in ("python", "text"))
    assert output_of(program) == output


def test_every_form_of_registration_has_a_file_and_a_test():
    rows = re.findall(r"^\|.*::test_.*\|$", OPERATORS_PAGE.read_text(), re.M)
    assert len(rows) >= 7
    for row in rows:
        ((path, test),) = re.findall(r"\]\(\.\./([^)]+)\)`::(\w+)`", row)
        assert f"def {test}(" in (ROOT / path).read_text(), row
        assert "](../backend/" in row


def test_the_page_of_operators_names_every_reason_of_a_fallback():
    code = (ROOT / "backend" / "fallback" / "fallback_log.cpp").read_text()
    reasons = re.findall(r'case FallbackReason::\w+:\s+return "(.*)";', code)
    assert len(reasons) >= 4
    for reason in reasons:
        assert f"| {reason} |" in OPERATORS_PAGE.read_text()


def troubles() -> list[tuple[str, str, str]]:
    """The title, the program and the message of each trouble."""
    page = TROUBLE_PAGE.read_text()
    pattern = r"^## ([^\n]*)\n\n```python\n(.*?)^```\n\n```text\n(.*?)^```"
    return re.findall(pattern, page, re.M | re.S)


@pytest.mark.parametrize(
    ("title", "program", "message"), troubles(), ids=[row[0] for row in troubles()]
)
def test_a_trouble_says_what_the_page_shows(title: str, program: str, message: str):
    done = run_program(program)
    assert done.returncode != 0
    # What changes from run to run is an ellipsis in the page.
    pattern = ".*?".join(map(re.escape, message.rstrip("\n").split("…")))
    assert re.search(pattern, done.stderr), done.stderr


def test_no_trouble_is_left_out():
    assert len(troubles()) == TROUBLE_PAGE.read_text().count("```python") >= 14


def test_what_the_page_of_troubles_says_of_pytest_is_in_the_plugin():
    plugin = (ROOT / "pytest_openreg" / "__init__.py").read_text()
    page = TROUBLE_PAGE.read_text()
    for words in ("the openreg devices were in use before pytest read its options",):
        assert words in page
        assert words in plugin


def test_the_workflow_of_the_page_is_the_examples():
    (workflow,) = blocks(TESTING_PAGE, "yaml")
    example = ROOT / "examples" / "ci_library" / ".github" / "workflows" / "test.yml"
    assert workflow in example.read_text()


def test_the_page_of_testing_names_every_option_and_fixture():
    plugin = (ROOT / "pytest_openreg" / "__init__.py").read_text()
    options = re.findall(r'"(--openreg-\w+)"', plugin)
    fixtures = re.findall(r"@pytest\.fixture\ndef (\w+)", plugin)
    assert len(options) == 3
    assert len(fixtures) == 2
    for name in (*options, *fixtures):
        assert f"| `{name}` |" in TESTING_PAGE.read_text()


def test_the_table_of_libraries_has_the_versions_that_are_tested():
    pins = {}
    for name in ("requirements-ecosystem.txt", "requirements-dev.txt"):
        pins.update(re.findall(r"^([\w-]+)==(\S+)$", (ROOT / name).read_text(), re.M))
    rows = re.findall(
        r"^\| ([\w-]+) \| ([\d.]+) \|.*\]\(\.\./(tests/ecosystem/\w+\.py)\) \|$",
        ECOSYSTEM_PAGE.read_text(),
        re.M,
    )
    assert len(rows) >= 10
    for library, version, test in rows:
        assert pins[library.lower()] == version
        module = library.lower().replace("-", "_")
        assert re.search(rf"\b{module}\b", (ROOT / test).read_text()), library
    others = {"test_page.py", "test_plot.py", "test_vision_models.py"}
    tested = {Path(test).name for _, _, test in rows} | others
    assert tested == {p.name for p in (ROOT / "tests" / "ecosystem").glob("test_*.py")}


def test_every_requirement_is_pinned_and_explained():
    text = (ROOT / "CONTRIBUTING.md").read_text()
    for name in ("ecosystem", "docs"):
        lines = (ROOT / f"requirements-{name}.txt").read_text().splitlines()
        pins = [line for line in lines if line and not line.startswith("#")]
        assert all(re.fullmatch(r"[\w-]+==[\w.]+", pin) for pin in pins), pins
        chosen = lines[: lines.index("# What these need.")]
        for pin in (line for line in chosen if "==" in line):
            library, version = pin.split("==")
            assert f"| {library} | {version} |" in text, pin
