"""PyTorch's test classes are made for the device as they are, and nothing is skipped.

The classes are in two files in support/; the tests here run them.
"""

import re
from pathlib import Path

import pytest
from process import run_file, run_script

SUPPORT = Path(__file__).parents[1] / "support"
CLASSES = SUPPORT / "device_type_classes.py"
DATABASES = SUPPORT / "device_type_databases.py"

# The tests of the device that don't run, and why: each asks for it.
SKIPPED = {
    "TestDecoratorsOPENREG.test_cpu_openreg": "Only runs on cpu",
    "TestDecoratorsOPENREG.test_cuda_openreg": "Only runs on cuda",
    "TestDecoratorsOPENREG.test_skipped_openreg": "asked for",
    "TestDecoratorsOPENREG.test_too_large_openreg": "Insufficient openreg:0 memory",
}


def run(*arguments: str, file: Path = CLASSES, **env: str) -> dict[str, str]:
    """What became of each test, by class and name: "ok", or why it was skipped."""
    # In CI, PyTorch's runner wants packages that write reports.
    env = {"OPENREG_MEMORY": "2GiB", "OPENREG_DEVICES": "2", "CI": ""} | env
    printed = run_file(file, "-v", *arguments, env=env)
    found = re.findall(
        r"^test_\w+ \(__main__\.(\w+\.\w+)\) \.\.\. (?:.*\n)*?"
        r"(?:.*\.\.\. )?(ok|skipped .*|FAIL|ERROR|expected failure)$",
        printed,
        re.MULTILINE,
    )
    count = re.search(r"^Ran (\d+) tests? in", printed, re.MULTILINE)
    assert int(count[1]) == len(found), printed
    return {name: re.sub(r"^skipped .(.*).$", r"\1", text) for name, text in found}


def device_of(test: str) -> str:
    return "openreg" if "OPENREG." in test else "cpu"


@pytest.fixture(scope="module")
def outcomes() -> dict[str, str]:
    """Of all tests, without anything in the environment."""
    return run() | run(file=DATABASES)


def test_every_test_passes_or_is_skipped_because_it_says_so(outcomes):
    """Slow ones say so too, on both devices."""
    assert {"FAIL", "ERROR"}.isdisjoint(outcomes.values())
    ours = {k: v for k, v in outcomes.items() if device_of(k) == "openreg"}
    slow = {k for k, v in ours.items() if v.startswith("test is slow")}
    assert {k: v for k, v in ours.items() if v != "ok" and k not in slow} == SKIPPED


def test_every_test_of_the_cpu_exists_for_the_device(outcomes):
    ours = {name for name in outcomes if device_of(name) == "openreg"}
    theirs = {
        name.replace("CPU.", "OPENREG.").replace("_cpu", "_openreg")
        for name in outcomes
        if device_of(name) == "cpu" and not name.startswith("TestOthers")
    }
    ours = {name for name in ours if not name.startswith("TestOnly")}
    # A test that asks for other dtypes on the CPU, and on ours.
    theirs.remove("TestDecoratorsOPENREG.test_dtypes_of_a_device_openreg_int8")
    theirs.add("TestDecoratorsOPENREG.test_dtypes_of_a_device_openreg_float64")
    # "_cpu" is in the name of one, and is not its end.
    theirs.remove("TestDecoratorsOPENREG.test_openreg_openreg")
    theirs.add("TestDecoratorsOPENREG.test_cpu_openreg")
    assert ours == theirs


def test_classes_are_made_for_the_devices_that_they_name(outcomes):
    made = {
        name.split(".")[0] for name in outcomes if name.endswith("test_name_openreg")
    }
    assert made == {"TestOnlyOursOPENREG", "TestOnlyFromOutsideOPENREG"}
    assert outcomes["TestOthersCPU.test_name_cpu"] == "ok"


def test_the_tests_that_are_made_don_t_depend_on_the_hash_seed(outcomes):
    """PyTorch makes them in the order of a set."""
    assert run("TestDecoratorsOPENREG", PYTHONHASHSEED="1").keys() == {
        name for name in outcomes if name.startswith("TestDecoratorsOPENREG")
    }


@pytest.mark.parametrize(
    ("variable", "value", "devices"),
    [
        ("PYTORCH_TESTING_DEVICE_ONLY_FOR", "openreg", {"openreg"}),
        ("PYTORCH_TESTING_DEVICE_ONLY_FOR", "privateuse1", {"openreg"}),
        ("PYTORCH_TESTING_DEVICE_EXCEPT_FOR", "openreg", {"cpu"}),
    ],
)
def test_the_environment_chooses_the_device(variable, value, devices):
    outcomes = run("-k", "test_device_", **{variable: value})
    assert {device_of(name) for name in outcomes} == devices


def test_the_environment_brings_tests_of_cuda_to_the_device():
    outcomes = run("-k", "test_name", PYTORCH_TESTING_DEVICE_FOR_CUSTOM="openreg")
    assert outcomes["TestOnlyCudaOPENREG.test_name_openreg"] == "ok"


BASE_CLASS = """
class TestBase(PrivateUse1TestBase):
    bypass_device_restrictions = True
TEST_CLASS = TestBase
"""


def test_a_base_class_of_ones_own_takes_the_place_of_pytorchs(tmp_path):
    """It runs tests that are CUDA's alone, as PyTorch offers to other devices."""
    file = tmp_path / "base_class.py"
    file.write_text(BASE_CLASS)
    outcomes = run(
        "-k",
        "test_cuda",
        TORCH_TEST_DEVICES=str(file),
        PYTORCH_TESTING_DEVICE_ONLY_FOR="openreg",
    )
    assert outcomes["TestDecoratorsOPENREG.test_cuda_openreg"] == "ok"


def test_pytorchs_test_module_may_be_imported_first():
    script = """
        import torch
        from torch.testing._internal import common_device_type
        import torch_openreg
        print(common_device_type._has_sufficient_memory("openreg:1", 1 << 20))
        print(common_device_type._has_sufficient_memory("openreg:1", 1 << 60))
    """
    printed = run_script(script, env={"TORCH_DEVICE_BACKEND_AUTOLOAD": "0"})
    assert printed == "True\nFalse\n"


def test_nothing_of_it_is_imported_with_torch():
    script = """
        import sys, torch
        print("torch.testing._internal.common_device_type" in sys.modules)
    """
    assert run_script(script) == "False\n"
