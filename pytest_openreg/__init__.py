"""The pytest plugin of OpenReg: options, fixtures and a marker for device tests.

pytest loads this module into every session of an environment that has torch_openreg
installed. So it imports neither PyTorch nor torch_openreg until a test asks for a
device, and changes nothing unless one of its options is given. It is a package of its
own for that reason: importing a part of torch_openreg imports PyTorch.

``torch_openreg.testing`` has what tests call themselves.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    import torch

_MAX_DEVICES = 64
_DRIVERS = ("inprocess", "isolated")
_MARKER = "openreg_requires"

# The variables that the options have replaced, with their values before.
_replaced = pytest.StashKey[dict[str, str | None]]()
# Whether a test has asked for a device.
_used = pytest.StashKey[bool]()


def _device_number(text: str) -> int:
    """Read the value of ``--openreg-devices``."""
    # Not int(): it takes "1_0" and digits of other scripts too.
    if not (text.isascii() and text.isdigit() and 1 <= int(text) <= _MAX_DEVICES):
        raise argparse.ArgumentTypeError(
            f"expected a number of devices from 1 to {_MAX_DEVICES}, got {text!r}"
        )
    return int(text)


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the options, all off."""
    group = parser.getgroup("openreg", "simulated accelerator (torch_openreg)")
    group.addoption(
        "--openreg-devices",
        type=_device_number,
        metavar="N",
        help=f"how many devices there are, 1 to {_MAX_DEVICES}; else as "
        "OPENREG_DEVICES says, else 2",
    )
    group.addoption(
        "--openreg-driver",
        choices=_DRIVERS,
        help="where devices run: in this process, or each in a process of its own; "
        "else as OPENREG_DRIVER says, else inprocess",
    )
    group.addoption(
        "--openreg-strict",
        action="store_true",
        help="an operator that would run on the CPU, on copies, is an error",
    )


def _wanted(options: argparse.Namespace) -> dict[str, str]:
    """Return the variables that the options stand for."""
    wanted = {}
    if options.openreg_devices is not None:
        wanted["OPENREG_DEVICES"] = str(options.openreg_devices)
    if options.openreg_driver is not None:
        wanted["OPENREG_DRIVER"] = options.openreg_driver
    if options.openreg_strict:
        wanted["OPENREG_STRICT"] = "1"
    return wanted


def _refuse_if_too_late(wanted: dict[str, str]) -> None:
    """Raise if the devices have started with other settings: they read them once."""
    if "torch_openreg.openreg" not in sys.modules:
        return
    from torch_openreg import openreg

    late = [name for name, value in wanted.items() if os.environ.get(name) != value]
    if late and openreg.is_initialized():
        raise pytest.UsageError(
            "the openreg devices were in use before pytest read its options, so "
            f"{', '.join(late)} cannot change any more; set the environment instead"
        )


@pytest.hookimpl(tryfirst=True)
def pytest_load_initial_conftests(early_config: pytest.Config) -> None:
    """Apply the options before the first conftest.py can import PyTorch."""
    wanted = _wanted(early_config.known_args_namespace)
    if not wanted:
        return
    _refuse_if_too_late(wanted)
    early_config.stash[_replaced] = {name: os.environ.get(name) for name in wanted}
    os.environ.update(wanted)


def pytest_configure(config: pytest.Config) -> None:
    """Make the marker known."""
    config.addinivalue_line(
        "markers",
        f"{_MARKER}(**capabilities): skip the test where the openreg devices lack a "
        "capability; made by torch_openreg.testing.requires",
    )


def pytest_unconfigure(config: pytest.Config) -> None:
    """Restore the environment."""
    for name, value in config.stash.get(_replaced, {}).items():
        if value is None:
            os.environ.pop(name, None)
        else:
            os.environ[name] = value


def pytest_report_header(config: pytest.Config) -> str | None:
    """Name the settings that the options have changed."""
    replaced = config.stash.get(_replaced, {})
    if not replaced:
        return None
    return "openreg: " + ", ".join(f"{name}={os.environ[name]}" for name in replaced)


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Run a test that takes ``openreg_device`` once for every device."""
    if "openreg_device" not in metafunc.fixturenames:
        return
    from torch_openreg import openreg, testing

    if not testing.devices():
        openreg.init()  # says why there are none
    places = [str(place) for place in testing.devices()]
    metafunc.parametrize("openreg_device", places, indirect=True)


@pytest.fixture
def openreg_devices(request: pytest.FixtureRequest) -> Iterator[list[torch.device]]:
    """All devices. What fails on one of them later fails this test, not the next."""
    import torch

    from torch_openreg import openreg, testing

    request.config.stash[_used] = True
    openreg.init()
    current = openreg.current_device()
    places = testing.devices()
    yield places
    openreg.set_device(current)
    for place in places:
        torch.accelerator.synchronize(place)


@pytest.fixture
def openreg_device(
    request: pytest.FixtureRequest, openreg_devices: list[torch.device]
) -> torch.device:
    """One device; the test runs once for each."""
    import torch

    return torch.device(request.param)


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Skip a test whose capabilities are missing."""
    for marker in item.iter_markers(_MARKER):
        from torch_openreg import testing

        missing = testing.missing_capability(**marker.kwargs)
        if missing is not None:
            pytest.skip(missing)


def pytest_terminal_summary(
    terminalreporter: pytest.TerminalReporter, config: pytest.Config
) -> None:
    """List what ran on the CPU, if the devices were tested and something did."""
    tested = config.stash.get(_used, False) or _replaced in config.stash
    if not tested or "torch_openreg.openreg" not in sys.modules:
        return
    from torch_openreg import openreg

    report = openreg.fallback_report()
    if report:
        terminalreporter.section("openreg: operators that ran on the CPU, on copies")
        terminalreporter.line(str(report))
