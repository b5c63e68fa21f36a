"""A wheel works in an environment of its own, away from this checkout."""

import configparser
import os
import re
import shutil
import subprocess
import sys
import sysconfig
import textwrap
import venv
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
SUFFIX = sysconfig.get_config_var("EXT_SUFFIX")
LIBRARIES = [
    f"_C{SUFFIX}",
    "lib/libopenreg.so",
    "lib/libtorch_bindings.so",
    "lib/libtorch_openreg.so",
    "lib/openreg_executor.so",
]
DEVICE = "lib/openreg-device"  # the program that an isolated device is

ADD_ON_THE_DEVICE = """
    import sys
    import torch

    assert "torch_openreg" in sys.modules
    x = torch.ones(2, device="openreg")
    print((x + 1).tolist(), x.device)
    print("isolated:", torch.openreg.get_device_properties(0).isolated)
    import torch_openreg
    print(torch_openreg.__file__)
"""


def run(*command: str | Path, cwd: Path, **changes: str) -> str:
    """Run ``command`` to its end, unaware of this checkout; return what it prints."""
    dropped = ("OPENREG_", "PYTHON", "TORCH_", "VIRTUAL_ENV", "LD_LIBRARY_PATH")
    env = {k: v for k, v in os.environ.items() if not k.startswith(dropped)}
    done = subprocess.run(
        command,
        cwd=cwd,
        env=env | changes,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=900,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def wheel(tmp_path_factory) -> Path:
    """The path of a freshly built wheel."""
    folder = tmp_path_factory.mktemp("wheel")
    return Path(run(ROOT / "tools" / "wheel.sh", folder, cwd=folder).strip())


def pinned_torch() -> list[str]:
    """PyTorch and what it needs, as requirements-dev.txt pins them."""
    text = (ROOT / "requirements-dev.txt").read_text()
    (torch,) = re.findall(r"^torch==.*$", text, re.M)
    (needed,) = re.findall(r"^# What torch needs\.\n((?:.+\n)+)", text, re.M)
    return [torch, *needed.split()]


@pytest.fixture(scope="module")
def installed(wheel, tmp_path_factory) -> Iterator[Path]:
    """A new environment with PyTorch and the wheel, and with nothing else."""
    folder = tmp_path_factory.mktemp("environment")
    venv.create(folder, with_pip=False)
    pip = (sys.executable, "-m", "pip", "--python", folder / "bin" / "python")
    install = (*pip, "install", "--quiet", "--no-input", "--no-compile")
    # --no-deps: a PyTorch that was built for CUDA would bring gigabytes along.
    run(*install, "--no-deps", *pinned_torch(), cwd=folder)
    # Nothing is fetched, so this also shows that the requirements are met.
    run(*install, "--no-index", wheel, cwd=folder)
    yield folder
    shutil.rmtree(folder)  # almost a gigabyte


def test_the_wheel_is_for_one_python_and_one_platform(wheel):
    version = f"cp{sys.version_info.major}{sys.version_info.minor}"
    platform = sysconfig.get_platform().replace("-", "_").replace(".", "_")
    assert wheel.name.endswith(f"-{version}-{version}-{platform}.whl")


def test_the_wheel_holds_every_library_once(wheel):
    names = zipfile.ZipFile(wheel).namelist()
    assert sorted(name for name in names if name.endswith(".so")) == sorted(
        f"torch_openreg/{library}" for library in LIBRARIES
    )


def test_the_wheel_holds_the_program_of_isolated_devices(wheel):
    entry = zipfile.ZipFile(wheel).getinfo(f"torch_openreg/{DEVICE}")
    assert entry.external_attr >> 16 & 0o111 == 0o111, "everybody may run it"


def test_libraries_are_looked_for_in_relative_places_only(wheel, tmp_path):
    zipfile.ZipFile(wheel).extractall(tmp_path)
    for library in (*LIBRARIES, DEVICE):
        path = tmp_path / "torch_openreg" / library
        headers = run("readelf", "--dynamic", "--wide", path, cwd=tmp_path)
        places = re.findall(r"\((?:RPATH|RUNPATH)\).*\[(.*)\]", headers)
        assert all(
            place.startswith("$ORIGIN") for line in places for place in line.split(":")
        ), (library, places)


def test_the_wheel_holds_every_module(wheel):
    names = set(zipfile.ZipFile(wheel).namelist())
    for package in ("torch_openreg", "pytest_openreg"):
        files = [*(ROOT / package).rglob("*.py"), *(ROOT / package).rglob("*.py[it]*")]
        assert files
        for file in files:
            if "__pycache__" not in file.parts:
                assert str(file.relative_to(ROOT)) in names


def test_torch_and_pytest_are_told_of_the_wheel(wheel):
    archive = zipfile.ZipFile(wheel)
    (path,) = [n for n in archive.namelist() if n.endswith("/entry_points.txt")]
    points = configparser.ConfigParser()
    points.read_string(archive.read(path).decode())
    assert points["torch.backends"]["torch_openreg"] == "torch_openreg:_autoload"
    assert points["pytest11"]["openreg"] == "pytest_openreg"


@pytest.mark.parametrize("driver", ["inprocess", "isolated"])
def test_torch_finds_the_device_of_an_installed_wheel(installed, driver):
    """Where there is no compiler, nor any other program."""
    python = installed / "bin" / "python"
    script = textwrap.dedent(ADD_ON_THE_DEVICE)
    nothing = str(installed / "nothing")
    changes = {"PATH": nothing, "OPENREG_DRIVER": driver}
    sum_, isolated, package = run(
        python, "-c", script, cwd=installed, **changes
    ).splitlines()
    assert sum_ == "[2.0, 2.0] openreg:0"
    assert isolated == f"isolated: {driver == 'isolated'}"
    assert Path(package).is_relative_to(installed)


def test_a_cpp_program_uses_the_installed_backend(installed, tmp_path):
    """The example builds as a project of its own, and runs without any path set."""
    python = installed / "bin" / "python"
    where = "import torch_openreg; print(torch_openreg.cmake_dir())"
    package = run(python, "-c", where, cwd=installed).strip()
    assert Path(package).is_relative_to(installed)

    source = ROOT / "examples" / "backend"
    configure = ("cmake", "-S", source, "-B", tmp_path, "-G", "Ninja")
    run(*configure, f"-DOpenReg_DIR={package}", cwd=tmp_path)
    run("cmake", "--build", tmp_path, cwd=tmp_path)
    for driver in ("inprocess", "isolated"):
        program = tmp_path / "example_backend"
        printed = run(program, cwd=tmp_path, OPENREG_DRIVER=driver)
        assert "the device agrees with the CPU" in printed
