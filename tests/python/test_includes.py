"""The rules of who includes what, which ``make lint`` checks."""

import importlib.util
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
TOOL = ROOT / "tools" / "check_includes.py"
spec = importlib.util.spec_from_file_location("check_includes", TOOL)
assert spec is not None
assert spec.loader is not None
rules = importlib.util.module_from_spec(spec)
spec.loader.exec_module(rules)

ENGINE = "backend/simulation/host/engine.h"
READER = "backend/simulation/record/reader.h"
DECODE = "backend/simulation/device/decode.h"


@pytest.mark.parametrize(
    ("source", "header"),
    [
        ("backend/ops/copy.cpp", ENGINE),
        ("backend/runtime/reset.cpp", "backend/simulation/host/executor.h"),
        ("backend/ops/copy.cpp", "../simulation/host/engine.h"),
        ("driver/core/stream.cpp", "./../execution/worker_queue.h"),
        ("backend/fallback/fallback.cpp", READER),
        ("backend/amp/autocast.cpp", "backend/simulation/common/settings.h"),
        ("backend/registration.cpp", "backend/simulation/host/catch_all.h"),
        ("bindings/engine.cpp", ENGINE),
        ("backend/simulation/host/engine.cpp", DECODE),
        ("backend/simulation/device/operators.cpp", ENGINE),
        ("backend/simulation/common/composites.cpp", DECODE),
        ("backend/simulation/record/writer.cpp", "backend/pytorch/schema.h"),
        ("driver/core/stream.cpp", "execution/worker_queue.h"),
        ("driver/execution/execute.cpp", "isolated/ring.h"),
        ("backend/ops/copy.cpp", "torch/extension.h"),
    ],
)
def test_it_is_refused(source, header, monkeypatch):
    monkeypatch.chdir(ROOT)
    assert header in rules.wrong_include(Path(source), header)


@pytest.mark.parametrize(
    ("source", "header"),
    [
        ("backend/ops/copy.cpp", "backend/seam.h"),
        ("backend/simulation/host/engine.cpp", READER),
        ("backend/simulation/device/operators.cpp", READER),
        ("driver/isolated/device/dispatcher.cpp", "execution/worker_queue.h"),
    ],
)
def test_it_is_allowed(source, header, monkeypatch):
    monkeypatch.chdir(ROOT)
    assert rules.wrong_include(Path(source), header) is None


def test_every_folder_with_a_rule_exists(monkeypatch):
    """Those that a vendor has deleted need not."""
    monkeypatch.chdir(ROOT)
    assert rules.missing_folders() == []


@pytest.mark.parametrize("name", ["backend/opps", "backend/simulation/hosts"])
def test_a_misspelled_folder_is_found(name, tmp_path, monkeypatch):
    """Also in one that a vendor deletes, as long as that is there."""
    for folder in rules.ALLOWED:
        (tmp_path / folder).mkdir(parents=True, exist_ok=True)
    monkeypatch.chdir(tmp_path)
    assert rules.missing_folders() == []
    monkeypatch.setitem(rules.ALLOWED, "backend/bare", ("backend", name))
    assert rules.missing_folders() == [name]


def test_a_file_that_a_vendor_keeps_does_not_name_the_executor(tmp_path, monkeypatch):
    source = tmp_path / "backend" / "ops" / "new.cpp"
    source.parent.mkdir(parents=True)
    source.write_text("// The executor runs it.\n")
    monkeypatch.chdir(tmp_path)
    (finding,) = rules.findings(Path("backend/ops/new.cpp"))
    assert finding.startswith("backend/ops/new.cpp:1: names the executor")


def test_the_tree_keeps_the_rules():
    done = subprocess.run(
        [sys.executable, TOOL], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
