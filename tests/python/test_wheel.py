"""A wheel works in an environment of its own, away from this checkout."""

import os
import re
import subprocess
import sys
import sysconfig
import textwrap
import venv
import zipfile
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

ADD_ON_THE_DEVICE = """
    import sys
    import torch

    assert "torch_openreg" in sys.modules
    x = torch.ones(2, device="openreg")
    print((x + 1).tolist(), x.device)
    import torch_openreg
    print(torch_openreg.__file__)
"""


def run(*command: str | Path, cwd: Path) -> str:
    """Run ``command`` to its end, unaware of this checkout; return what it prints."""
    dropped = ("OPENREG_", "PYTHON", "TORCH_", "VIRTUAL_ENV", "LD_LIBRARY_PATH")
    env = {k: v for k, v in os.environ.items() if not k.startswith(dropped)}
    done = subprocess.run(
        command,
        cwd=cwd,
        env=env,
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


@pytest.fixture(scope="module")
def installed(wheel, tmp_path_factory) -> Path:
    """A new environment with the wheel and links to everything that it needs."""
    folder = tmp_path_factory.mktemp("environment")
    venv.create(folder, with_pip=False)
    python = folder / "bin" / "python"
    packages = Path(sysconfig.get_path("platlib", vars={"platbase": str(folder)}))
    for entry in Path(sysconfig.get_path("platlib")).iterdir():
        if "torch_openreg" not in entry.name:
            (packages / entry.name).symlink_to(entry)
    # Nothing is fetched, so this also shows that the requirements are met.
    pip = (sys.executable, "-m", "pip", "--python", python)
    run(*pip, "install", "--quiet", "--no-index", wheel, cwd=folder)
    return folder


def test_the_wheel_is_for_one_python_and_one_platform(wheel):
    version = f"cp{sys.version_info.major}{sys.version_info.minor}"
    platform = sysconfig.get_platform().replace("-", "_").replace(".", "_")
    assert wheel.name.endswith(f"-{version}-{version}-{platform}.whl")


def test_the_wheel_holds_every_library_once(wheel):
    names = zipfile.ZipFile(wheel).namelist()
    assert sorted(name for name in names if name.endswith(".so")) == sorted(
        f"torch_openreg/{library}" for library in LIBRARIES
    )


def test_libraries_are_looked_for_in_relative_places_only(wheel, tmp_path):
    zipfile.ZipFile(wheel).extractall(tmp_path)
    for library in LIBRARIES:
        path = tmp_path / "torch_openreg" / library
        headers = run("readelf", "--dynamic", "--wide", path, cwd=tmp_path)
        places = re.findall(r"\((?:RPATH|RUNPATH)\).*\[(.*)\]", headers)
        assert all(
            place.startswith("$ORIGIN") for line in places for place in line.split(":")
        ), (library, places)


def test_torch_finds_the_device_of_an_installed_wheel(installed):
    python = installed / "bin" / "python"
    script = textwrap.dedent(ADD_ON_THE_DEVICE)
    printed = run(python, "-c", script, cwd=installed).splitlines()
    assert printed[0] == "[2.0, 2.0] openreg:0"
    assert Path(printed[1]).is_relative_to(installed)


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
    printed = run(tmp_path / "example_backend", cwd=tmp_path)
    assert "the device agrees with the CPU" in printed
