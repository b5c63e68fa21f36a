"""The examples in Python run, and show what they promise."""

import importlib
import re
from pathlib import Path
from types import ModuleType

import pytest

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"


@pytest.fixture
def train(monkeypatch) -> ModuleType:
    """The example that trains a network."""
    monkeypatch.syspath_prepend(EXAMPLES)
    return importlib.import_module("train")


def test_training_shows_devices_losses_memory_and_times(train, capsys):
    assert train.main(["--steps", "20"]) == 0
    printed = capsys.readouterr().out
    for shown in ("openreg:0", "openreg:1", "OpenReg Simulated Device", "MiB"):
        assert shown in printed
    losses = re.findall(r"│ +(\d+) │ +(\d\.\d{6}) │ +(\d\.\d{6}) │", printed)
    assert [int(step) for step, _, _ in losses] == list(range(2, 21, 2))
    assert all(ours == host for _, ours, host in losses)
    assert "Allocated memory" in printed
    assert re.search(r"openreg:0 took \d+\.\d\d times as long as the CPU", printed)


def test_training_learns_on_the_second_device(train, capsys):
    assert train.main(["--device", "openreg:1", "--steps", "300"]) == 0
    accuracies = re.findall(r"(\d+\.\d)%", capsys.readouterr().out)
    assert len(accuracies) == 2
    assert all(float(accuracy) > 90 for accuracy in accuracies)


def test_a_log_gets_no_progress_bar(train, capsys):
    train.main(["--device", "cpu", "--steps", "2"])
    assert "training on" not in capsys.readouterr().out


def test_help_names_the_options(train, capsys):
    with pytest.raises(SystemExit) as exit_:
        train.main(["--help"])
    assert exit_.value.code == 0
    printed = capsys.readouterr().out
    assert "--device" in printed
    assert "--steps" in printed


def test_an_unknown_device_is_refused(train, capsys):
    with pytest.raises(SystemExit) as exit_:
        train.main(["--device", "toaster"])
    assert exit_.value.code == 2
    assert "no device is named 'toaster'" in capsys.readouterr().err


def test_no_steps_are_refused(train, capsys):
    with pytest.raises(SystemExit) as exit_:
        train.main(["--steps", "0"])
    assert exit_.value.code == 2
    assert "at least 1" in capsys.readouterr().err
