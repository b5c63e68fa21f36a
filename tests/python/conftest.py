"""Which tests run on which driver.

``OPENREG_DRIVER`` chooses the driver of a run, as for every program. ``make test`` runs
them on both with ``--shared``: what says nothing about a driver runs in-process alone,
and each test of a file that takes long on one of the two.
"""

import os
import zlib
from pathlib import Path

import pytest

_DRIVERS = ("inprocess", "isolated")

# They use no device, or choose the driver by themselves.
_ONCE = (
    "isolated/test_distance.py",
    "isolated/test_kill.py",
    "isolated/test_round_trips.py",
    "isolated/test_staging.py",
    "test_bare_build.py",
    "test_includes.py",
    "test_info.py",
    "test_integration_table.py",
    "test_paths.py",
    "test_pictures.py",
    "test_vendor_functions.py",
    "test_wheel.py",
)
# Each of their tests runs on one of the drivers.
_LONG = (
    "coverage/test_sample.py",
    "openreg/engine/test_new_kinds.py",
    "openreg/real_models/test_real_models.py",
    "test_benchmarks.py",
    "test_custom_op_example.py",
    "test_docs.py",
    "test_minimal_backend.py",
    "test_pytest_plugin.py",
)


def pytest_configure() -> None:
    """Have PyTorch print where a program stood that is aborted in C++."""
    os.environ.setdefault("TORCH_CUSTOM_TERMINATE", "1")


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add ``--shared``."""
    parser.addoption(
        "--shared",
        action="store_true",
        help="run only this driver's share of the tests that take long",
    )


def pytest_collection_modifyitems(
    config: pytest.Config, items: list[pytest.Item]
) -> None:
    """Leave the other driver its share; they are not tests of this run at all."""
    if not config.getoption("--shared"):
        return
    driver = os.environ.get("OPENREG_DRIVER") or _DRIVERS[0]
    kept = [item for item in items if driver in drivers_of(item.path, item.name)]
    config.hook.pytest_deselected(items=[x for x in items if x not in set(kept)])
    items[:] = kept


def drivers_of(path: Path, name: str) -> tuple[str, ...]:
    """Return the drivers that a test is to be run on."""
    file = path.relative_to(Path(__file__).parent).as_posix()
    if file in _ONCE:
        return _DRIVERS[:1]
    if file in _LONG:
        return (_DRIVERS[zlib.crc32(name.encode()) % len(_DRIVERS)],)
    return _DRIVERS
