"""The packages of ``examples/``, built and installed as a user does."""

import os
import subprocess
import sys
from pathlib import Path

import pytest


def run(*command: str | Path, **env: str) -> subprocess.CompletedProcess[str]:
    """Run ``command`` to its end; fail if it does."""
    done = subprocess.run(
        command,
        env=os.environ | env,
        capture_output=True,
        text=True,
        stdin=subprocess.DEVNULL,
        timeout=500,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done


def install(source: Path, factory: pytest.TempPathFactory) -> Path:
    """Install the package; return the folder that holds it."""
    folder = factory.mktemp("package")
    options = ("--quiet", "--no-input", "--no-build-isolation", "--no-deps")
    run(
        *(sys.executable, "-m", "pip", "install", *options, "--target", folder),
        # Not in the checkout: the build would leave its files there.
        *("--config-settings", f"build-dir={factory.mktemp('build')}"),
        source,
    )
    return folder
