"""Programs that use isolated devices, each in a Python of its own."""

import os
import select
import subprocess
import sys
import textwrap
import time
from collections.abc import Iterator
from contextlib import contextmanager

# What every program begins with: a device and its process.
PRELUDE = """
import gc, os, signal, sys, threading, time
import torch

def pid_of(device):
    return torch.openreg.process_info(device).pid

def kill(device, number=signal.SIGKILL):
    os.kill(pid_of(device), number)

def lost(use, limit=1.0):
    '''Call ``use`` until it fails; return the message of the lost device.'''
    begin = time.monotonic()
    while True:
        try:
            use()
        except torch.AcceleratorError as error:
            assert time.monotonic() - begin < limit, time.monotonic() - begin
            return str(error)
        assert time.monotonic() - begin < limit, 'the device goes on'

"""


def environment(variables: dict[str, str]) -> dict[str, str]:
    """Return the environment of a program, with ``variables`` on top."""
    clean = {k: v for k, v in os.environ.items() if not k.startswith("OPENREG_")}
    return clean | {"OPENREG_DRIVER": "isolated", "OPENREG_MEMORY": "1GiB"} | variables


def run(script: str, *arguments: str, timeout: float = 300, **variables: str) -> str:
    """Run ``script``, which must succeed in silence, and return what it printed."""
    done = subprocess.run(
        [sys.executable, "-c", PRELUDE + textwrap.dedent(script), *arguments],
        env=environment(variables),
        capture_output=True,
        text=True,
        timeout=timeout,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stderr == "", done.stderr
    return done.stdout


class Program:
    """A script that runs: it prints lines and is sent some."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        """Talk to ``process``."""
        self.process = process

    @property
    def pid(self) -> int:
        """Its number."""
        return self.process.pid

    def read_line(self) -> str:
        """Return the next line; there must be one."""
        line = self.process.stdout.readline()
        assert line.endswith("\n"), line + self.process.stderr.read()
        return line[:-1]

    def write_line(self) -> None:
        """Let it go on."""
        self.process.stdin.write("\n")
        self.process.stdin.flush()


@contextmanager
def running(script: str, **variables: str) -> Iterator[Program]:
    """Start ``script``; it is killed at the end if it still runs."""
    process = subprocess.Popen(
        [sys.executable, "-c", PRELUDE + textwrap.dedent(script)],
        env=environment(variables),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    with process:
        try:
            yield Program(process)
        finally:
            process.kill()


class Watched:
    """A process, which need not be a child, and its end."""

    def __init__(self, pid: int) -> None:
        """Watch the process ``pid``, which exists."""
        self._fd = os.pidfd_open(pid)

    def ends_by(self, deadline: float) -> bool:
        """Whether it ends before ``time.monotonic()`` is ``deadline``."""
        left = max(0.0, deadline - time.monotonic())
        return bool(select.select([self._fd], [], [], left)[0])

    def close(self) -> None:
        """Look no more."""
        os.close(self._fd)
