"""Scripts in a Python of their own, for what only a fresh process can show."""

import os
import subprocess
import sys
import textwrap
from pathlib import Path


def run_script(
    script: str,
    *arguments: str,
    env: dict[str, str] | None = None,
    returncode: int = 0,
    timeout: float = 120,
) -> str:
    """Run ``script`` and return what it printed.

    ``OPENREG_*`` variables are those of ``env`` alone, but for the driver that the
    tests run on. Fails if the script ends with another ``returncode``.
    """
    command = [sys.executable, "-c", textwrap.dedent(script), *arguments]
    done = _run(command, env, timeout)
    assert done.returncode == returncode, done.stdout + done.stderr
    return done.stdout


def run_file(
    path: Path,
    *arguments: str,
    env: dict[str, str] | None = None,
    timeout: float = 300,
) -> str:
    """Run the script at ``path`` and return what it printed, on both outputs.

    As ``run_script``, but a failure is the caller's to find.
    """
    done = _run([sys.executable, str(path), *arguments], env, timeout)
    return done.stdout + done.stderr


def _run(
    command: list[str], env: dict[str, str] | None, timeout: float
) -> subprocess.CompletedProcess[str]:
    clean = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith("OPENREG_") or name == "OPENREG_DRIVER"
    }
    return subprocess.run(
        command,
        env=clean | (env or {}),
        capture_output=True,
        text=True,
        timeout=timeout,
        check=False,
    )
