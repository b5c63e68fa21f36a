"""Scripts in a Python of their own, for what only a fresh process can show."""

import os
import subprocess
import sys
import textwrap


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
    clean = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith("OPENREG_") or name == "OPENREG_DRIVER"
    }
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(script), *arguments],
        env=clean | (env or {}),
        capture_output=True,
        text=True,
        timeout=timeout,
        check=False,
    )
    assert done.returncode == returncode, done.stdout + done.stderr
    return done.stdout
