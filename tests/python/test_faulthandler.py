"""A host that reads device memory gets the driver's report and Python's."""

import os
import signal
import subprocess
import sys
import textwrap

import pytest

import torch_openreg

# Reads a byte of device memory, with faulthandler enabled before the driver's
# first use, after it, or never.
READ_DEVICE_MEMORY = """
    import ctypes
    import faulthandler
    import sys

    library, enabled = sys.argv[1:]
    driver = ctypes.CDLL(library)
    if enabled == "before":
        faulthandler.enable()
    pointer = ctypes.c_void_p()
    status = driver.orMalloc(ctypes.byref(pointer), ctypes.c_size_t(1024))
    assert status == 0 and pointer.value
    if enabled == "after":
        faulthandler.enable()
    print(hex(pointer.value), flush=True)
    ctypes.string_at(pointer.value + 16, 1)
"""

REPORT = "openreg: the host touched device memory at "
TRACEBACK = "Fatal Python error: Segmentation fault"


def read_device_memory(enabled: str) -> subprocess.CompletedProcess:
    """Run the script to its death."""
    env = {k: v for k, v in os.environ.items() if not k.startswith("OPENREG_")}
    env.pop("PYTHONFAULTHANDLER", None)
    env.pop("PYTHONDEVMODE", None)
    script = textwrap.dedent(READ_DEVICE_MEMORY)
    library = torch_openreg.library_path()
    return subprocess.run(
        [sys.executable, "-c", script, library, enabled],
        env=env,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


@pytest.mark.parametrize("enabled", ["before", "after", "never"])
def test_reading_device_memory_is_reported(enabled):
    done = read_device_memory(enabled)
    assert done.returncode == -signal.SIGSEGV, done.stderr
    base = int(done.stdout, 16)
    assert f"{REPORT}{base + 16:#x}" in done.stderr
    assert f"16 bytes into a live allocation of 1024 bytes at {base:#x}" in done.stderr
    assert (TRACEBACK in done.stderr) == (enabled != "never")


@pytest.mark.parametrize("enabled", ["before", "after"])
def test_pythons_traceback_names_the_line(enabled):
    done = read_device_memory(enabled)
    assert "string_at" in done.stderr.partition(TRACEBACK)[2]
