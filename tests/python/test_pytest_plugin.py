"""The pytest plugin, in sessions of pytest of their own."""

import os
import re
import sys
from importlib.metadata import entry_points
from pathlib import Path

import pytest

import pytest_openreg

pytest_plugins = ["pytester"]

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def session(pytester, monkeypatch):
    """Runs tests in a new process, with the driver of this one and no other setting."""
    for name in os.environ:
        if name.startswith("OPENREG_") and name != "OPENREG_DRIVER":
            monkeypatch.delenv(name)

    def run(code: str, *arguments: str) -> pytest.RunResult:
        pytester.makepyfile(code)
        return pytester.runpytest_subprocess(*arguments)

    return run


def test_the_plugin_is_an_entry_point():
    (entry,) = entry_points(group="pytest11", name="openreg")
    assert entry.value == "pytest_openreg"


def test_the_plugin_imports_no_torch_and_changes_nothing_by_itself(session):
    done = session(
        """
        import os
        import sys

        def test_nothing(pytestconfig):
            assert pytestconfig.pluginmanager.hasplugin("openreg")
            assert not {"torch", "torch_openreg"} & set(sys.modules)
            assert not {"OPENREG_DEVICES", "OPENREG_STRICT"} & set(os.environ)
        """
    )
    done.assert_outcomes(passed=1)
    assert "openreg:" not in done.stdout.str()


def test_a_test_runs_once_for_every_device(session):
    done = session(
        """
        import torch

        def test_add(openreg_device):
            x = torch.ones(2, device=openreg_device)
            assert (x + 1).tolist() == [2, 2]
            assert x.device == openreg_device

        def test_all(openreg_devices):
            assert [str(d) for d in openreg_devices] == [
                "openreg:0", "openreg:1", "openreg:2"
            ]
        """,
        "--openreg-devices=3",
        "-v",
    )
    done.assert_outcomes(passed=4)
    done.stdout.fnmatch_lines(["openreg: OPENREG_DEVICES=3", "*test_add[[]openreg:2*"])


def test_options_hold_before_the_first_conftest(session, pytester):
    pytester.makeconftest(
        """
        import torch

        assert torch.openreg.device_count() == 1
        """
    )
    done = session("def test_nothing(): pass", "--openreg-devices", "1")
    done.assert_outcomes(passed=1)


def test_an_option_overrides_the_environment(session, monkeypatch):
    monkeypatch.setenv("OPENREG_DEVICES", "5")
    done = session(
        "def test_count(openreg_devices): assert len(openreg_devices) == 1",
        "--openreg-devices=1",
    )
    done.assert_outcomes(passed=1)


@pytest.mark.parametrize("driver", pytest_openreg._DRIVERS)
def test_the_chosen_driver_runs_the_devices(session, driver):
    done = session(
        f"""
        import os

        import torch
        from torch_openreg.testing import requires

        def test_driver(openreg_device):
            properties = torch.openreg.get_device_properties(openreg_device)
            assert properties.isolated == ({driver!r} == "isolated")
            assert os.environ["OPENREG_DRIVER"] == {driver!r}
            assert (torch.ones(2, device=openreg_device) + 1).tolist() == [2, 2]

        @requires(driver="inprocess")
        def test_in_this_process(): pass

        @requires(driver="isolated")
        def test_in_another_process(): pass
        """,
        f"--openreg-driver={driver}",
    )
    done.assert_outcomes(passed=3, skipped=1)


FALLS_BACK = """
    import torch

    def test_fallback(openreg_device):
        x = torch.ones(2, device=openreg_device)
        torch.ops.openreg.custom_sub(x, x)
"""


def test_in_strict_mode_a_fallback_fails_the_test(session):
    done = session(FALLS_BACK, "--openreg-strict", "--openreg-devices=1")
    done.assert_outcomes(failed=1)
    done.stdout.fnmatch_lines(["*NotImplementedError: openreg::custom_sub would run*"])


def test_else_it_is_listed_at_the_end(session):
    done = session(FALLS_BACK)
    done.assert_outcomes(passed=2)
    done.stdout.fnmatch_lines(
        [
            "*openreg: operators that ran on the CPU, on copies*",
            "openreg::custom_sub      2 *",
        ]
    )


@pytest.mark.parametrize(
    ("argument", "message"),
    [
        ("--openreg-devices=0", "expected a number of devices from 1 to 64, got '0'"),
        ("--openreg-devices=65", "expected a number of devices from 1 to 64, got '65'"),
        ("--openreg-devices=-1", "expected a number of devices from 1 to 64, got '-1'"),
        ("--openreg-devices=two", "from 1 to 64, got 'two'"),
        ("--openreg-devices=1_0", "from 1 to 64, got '1_0'"),
        ("--openreg-driver=remote", "invalid choice: 'remote'"),
    ],
)
def test_an_option_out_of_range_is_an_error_that_says_what_is_possible(
    pytester, argument, message
):
    pytester.makepyfile("def test_nothing(): pass")
    done = pytester.runpytest_subprocess(argument)
    assert done.ret == pytest.ExitCode.USAGE_ERROR
    assert message in done.stderr.str()
    assert "passed" not in done.stdout.str()


def test_options_that_come_too_late_are_refused(session, pytester):
    pytester.makepyfile(
        early="""
        import torch

        torch.openreg.init()
        """
    )
    done = session("def test_nothing(): pass", "-p", "early", "--openreg-devices=3")
    assert done.ret == pytest.ExitCode.USAGE_ERROR
    assert "in use before pytest read its options" in done.stderr.str()


def test_devices_that_cannot_start_are_an_error_and_no_skip(session, monkeypatch):
    monkeypatch.setenv("OPENREG_MEMORY", "nonsense")
    done = session("def test_device(openreg_device): pass")
    done.assert_outcomes(errors=1)
    done.stdout.fnmatch_lines(["*OPENREG_MEMORY='nonsense' is not valid*"])


def test_a_failure_of_the_device_belongs_to_the_test_that_caused_it(session):
    """The kernel fails behind a gate, after the test's last line."""
    done = session(
        """
        import torch

        def test_cause(openreg_device):
            x = torch.zeros(1 << 20, device=openreg_device)
            for _ in range(20):
                x = x.sin()
            index = torch.full((1 << 18,), 1 << 30, device=openreg_device)
            x.index_select(0, index)

        def test_after(openreg_device):
            assert torch.ones(1, device=openreg_device).item() == 1
        """,
        "--openreg-devices=1",
    )
    text = done.stdout.str()
    assert "test_after" not in text.split("short test summary")[1]
    assert "out of range" in text


def test_markers_skip_what_the_devices_cannot_do(session):
    done = session(
        """
        import torch
        from torch_openreg.testing import requires

        @requires(devices=2)
        def test_two(): raise AssertionError

        @requires(memory=1 << 50)
        def test_memory(): raise AssertionError

        @requires(driver="isolated")
        def test_driver(): raise AssertionError

        @requires(peer_access=True)
        def test_peers(): raise AssertionError

        @requires(devices=1, memory=1 << 20, dtype=torch.bfloat16)
        def test_enough(): pass
        """,
        "--openreg-devices=1",
        "--openreg-driver=inprocess",
        "--strict-markers",
        "-rs",
    )
    done.assert_outcomes(passed=1, skipped=4)
    done.stdout.fnmatch_lines_random(
        [
            "*needs 2 openreg devices, there are 1",
            "*needs 1,125,899,906,842,624 bytes of device memory, there are *",
            "*needs the driver 'isolated', this is 'inprocess'",
            "*needs two openreg devices that reach each other's memory",
        ]
    )


def test_this_session_has_the_plugin_and_no_option(pytestconfig):
    """What the other tests of this process rely on."""
    assert pytestconfig.pluginmanager.hasplugin("openreg")
    assert "pytest_openreg" in sys.modules
    assert pytestconfig.getoption("--openreg-devices") is None


def test_the_range_of_devices_is_the_drivers():
    header = (ROOT / "include" / "openreg" / "device.h").read_text()
    (most,) = re.findall(r"OPENREG_MAX_DEVICES (\d+)$", header, re.MULTILINE)
    assert int(most) == pytest_openreg._MAX_DEVICES


def test_the_code_of_the_page_of_testing_passes(session):
    """The page leaves out what is tested; it stands here."""
    page = (ROOT / "docs" / "testing.md").read_text()
    codes = re.findall(r"^```py\n(.*?)^```", page, re.M | re.S)
    assert len(codes) == 3
    tested = """
def normalize(x):
    return (x - x.mean(0)) / x.std(0)

def make(device):
    return torch.nn.Linear(3, 2).to(device), torch.ones(4, 3, device=device)

def step(model, batch):
    model(batch).sum().backward()
"""
    done = session(codes[0] + tested + "".join(codes[1:]), "--openreg-devices=2")
    done.assert_outcomes(passed=5)
