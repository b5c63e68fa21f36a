"""The example of a library that is tested in CI: what its workflow runs, passes."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

import pytest_openreg

EXAMPLE = Path(__file__).resolve().parents[2] / "examples" / "ci_library"
WORKFLOW = EXAMPLE / ".github" / "workflows" / "test.yml"


@pytest.fixture
def library(tmp_path) -> Path:
    """A copy of the library, to run and to change."""
    return shutil.copytree(EXAMPLE, tmp_path / "library")


def job() -> dict[str, Any]:
    """What the workflow does."""
    return yaml.safe_load(WORKFLOW.read_text())["jobs"]["test"]


def command(devices: int) -> str:
    """What its last step runs on that many devices, with the driver of this session."""
    driver = os.environ.get("OPENREG_DRIVER") or "inprocess"
    place = {"devices": devices, "driver": driver}
    matrix = job()["strategy"]["matrix"]
    assert all(value in matrix[name] for name, value in place.items())
    run = job()["steps"][-1]["run"]
    return re.sub(r"\$\{\{ matrix\.(\w+) \}\}", lambda m: str(place[m[1]]), run)


def run(library: Path, devices: int) -> subprocess.CompletedProcess[str]:
    """Run the tests of the library as CI would."""
    env = {k: v for k, v in os.environ.items() if not k.startswith("OPENREG_")}
    env["PATH"] = f"{Path(sys.executable).parent}{os.pathsep}{env['PATH']}"
    return subprocess.run(
        command(devices),
        shell=True,
        cwd=library,
        env=env,
        capture_output=True,
        text=True,
        timeout=200,
        check=False,
    )


def test_the_workflow_uses_every_driver():
    assert tuple(job()["strategy"]["matrix"]["driver"]) == pytest_openreg._DRIVERS


@pytest.mark.parametrize(
    ("devices", "outcome"), [(1, "2 passed, 1 skipped"), (2, "5 passed")]
)
def test_the_workflow_passes(library, devices, outcome):
    done = run(library, devices)
    assert done.returncode == 0, done.stdout + done.stderr
    assert outcome in done.stdout


def test_a_wait_in_the_library_is_found(library):
    source = library / "running_moments" / "__init__.py"
    text = source.read_text()
    count = "count = self.count + rows.shape[0]"
    assert count in text
    source.write_text(text.replace(count, "count = self.count.item() + rows.shape[0]"))
    done = run(library, 1)
    assert done.returncode == 1
    assert "the host waited for a device" in done.stdout


def test_a_tensor_on_the_wrong_device_is_found(library):
    source = library / "running_moments" / "__init__.py"
    text = source.read_text()
    assert "torch.zeros((), device=device)" in text
    source.write_text(
        text.replace("torch.zeros(features, device=device)", "torch.zeros(features)")
    )
    done = run(library, 2)
    assert done.returncode == 1
    assert "openreg" in done.stdout
