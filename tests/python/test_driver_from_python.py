"""The installed driver serves programs outside of this checkout."""

import os
import subprocess
import sys
import textwrap
from pathlib import Path

import torch_openreg

COUNT_DEVICES = """
    import ctypes
    import sys

    driver = ctypes.CDLL(sys.argv[1])
    count = ctypes.c_int(-1)
    status = driver.orGetDeviceCount(ctypes.byref(count))
    print(status, count.value)
"""

CONSUMER_CMAKE = """
    cmake_minimum_required(VERSION 3.24)
    project(consumer C)
    find_package(OpenReg {version} REQUIRED CONFIG)
    add_executable(consumer main.c)
    target_link_libraries(consumer PRIVATE OpenReg::openreg)
"""

CONSUMER_MAIN = """
    #include <openreg/openreg.h>
    #include <stdio.h>

    int main(void) {
      int count = -1;
      orError_t status = orGetDeviceCount(&count);
      printf("%d %d %d\\n", (int)status, count, OPENREG_VERSION_MINOR);
      return status == orSuccess ? 0 : 1;
    }
"""


def run(*command: str | Path, devices: int | None = None) -> str:
    """Run ``command`` to its end and return what it prints."""
    env = dict(os.environ)
    env.pop("OPENREG_DEVICES", None)
    if devices is not None:
        env["OPENREG_DEVICES"] = str(devices)
    done = subprocess.run(
        command, env=env, capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_ctypes_counts_the_devices_of_the_environment():
    library = torch_openreg.library_path()
    script = textwrap.dedent(COUNT_DEVICES)
    assert run(sys.executable, "-c", script, library, devices=3).split() == ["0", "3"]


def test_there_are_two_devices_by_default():
    library = torch_openreg.library_path()
    script = textwrap.dedent(COUNT_DEVICES)
    assert run(sys.executable, "-c", script, library).split() == ["0", "2"]


def test_cmake_project_finds_and_links_the_driver(tmp_path):
    version = torch_openreg.__version__
    cmake_lists = textwrap.dedent(CONSUMER_CMAKE).format(version=version)
    (tmp_path / "CMakeLists.txt").write_text(cmake_lists, encoding="utf-8")
    (tmp_path / "main.c").write_text(textwrap.dedent(CONSUMER_MAIN), encoding="utf-8")
    build = tmp_path / "build"

    package = f"-DOpenReg_DIR={torch_openreg.cmake_dir()}"
    run("cmake", "-S", tmp_path, "-B", build, "-G", "Ninja", package)
    run("cmake", "--build", build)

    minor = version.split(".")[1]
    assert run(build / "consumer", devices=3).split() == ["0", "3", minor]
