"""docs/integration.md names all that PyTorch asks, and what it names exists."""

import re
from importlib.util import find_spec
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
TABLE = ROOT / "docs" / "integration.md"

# Where PyTorch declares what a backend implements: header and class.
INTERFACES = {
    "ATen/detail/PrivateUse1HooksInterface.h": "PrivateUse1HooksInterface",
    "ATen/detail/AcceleratorHooksInterface.h": "AcceleratorHooksInterface",
    "c10/core/impl/DeviceGuardImplInterface.h": "DeviceGuardImplInterface",
    "c10/core/CachingDeviceAllocator.h": "DeviceAllocator",
    "ATen/core/CachingHostAllocator.h": "HostAllocator",
    "c10/core/GeneratorImpl.h": "GeneratorImpl",
}

# Declared there, and not part of what there is so far.
GRAPHS = {
    "begin_allocate_to_pool",
    "end_allocate_to_pool",
    "release_pool",
    "graphsafe_get_state",
    "graphsafe_set_state",
}


def rows() -> list[list[str]]:
    """The cells of the table, without its head."""
    lines = [line for line in TABLE.read_text().splitlines() if line.startswith("|")]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines[2:]]


def virtual_functions(header: str, name: str) -> set[str]:
    """The names of the virtual functions of a class of PyTorch."""
    spec = find_spec("torch")
    assert spec is not None
    assert spec.origin is not None
    text = (Path(spec.origin).parent / "include" / header).read_text()
    body = re.search(rf"struct (?:\w+ )?{name}\b[^;{{]*\{{(.*?)\n\}};", text, re.DOTALL)
    assert body is not None
    code = re.sub(r"//[^\n]*|/\*.*?\*/", "", body.group(1), flags=re.DOTALL)
    found = re.findall(
        r"virtual\s+[^;{(]*?(\w+)\s*\(|(\w+)\([^;{]*\)\s*(?:const\s*)?override",
        code,
    )
    return {first or second for first, second in found} - {name}


@pytest.mark.parametrize(("header", "name"), INTERFACES.items())
def test_every_function_of_pytorchs_interfaces_is_in_the_table(header: str, name: str):
    asked = virtual_functions(header, name) - GRAPHS
    assert len(asked) >= 5, "the header is not read as it should be"
    named = set(re.findall(r"`(\w+)`", "\n".join(row[1] for row in rows())))
    assert asked - named == set()


def test_every_row_has_a_file_of_ours_and_a_test():
    for row in rows():
        assert len(row) == 4, row
        assert "](../" in row[2], row
        assert "::" in row[3], row


def named_tests() -> list[tuple[str, str, str]]:
    """The text of the link, the path and the name of every test of the table."""
    link = r"\[`(\w+\.\w+)`\]\(\.\./([^)]+)\)`::(\w+)`"
    found = [test for row in rows() for test in re.findall(link, row[3])]
    assert len(found) == sum(row[3].count("::") for row in rows())
    return found


def test_every_file_exists():
    for row in rows():
        for path in re.findall(r"\]\(\.\./([^)]+)\)", row[2]):
            assert (ROOT / path).is_file(), path


def test_every_test_exists():
    for name, path, test in named_tests():
        assert Path(path).name == name
        # In Python a function, in C++ the second part of its name.
        head = f"def {test}(" if path.endswith(".py") else f"Test, {test})"
        assert head in (ROOT / path).read_text(), f"{path}::{test}"


def test_every_test_runs_on_isolated_devices_too(pytestconfig):
    """``--shared`` leaves none of them to the in-process driver alone."""
    conftest = str(ROOT / "tests" / "python" / "conftest.py")
    sharing = pytestconfig.pluginmanager.get_plugin(conftest)
    for _, path, test in named_tests():
        if path.endswith(".py"):
            assert "isolated" in sharing.drivers_of(ROOT / path, test), path
