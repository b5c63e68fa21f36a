"""The examples in Python run, and show what they promise."""

import gc
import importlib
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest
import torch

from torch_openreg import testing

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"


def example(name: str, monkeypatch) -> ModuleType:
    """The module of an example."""
    monkeypatch.syspath_prepend(EXAMPLES)
    return importlib.import_module(name)


@pytest.fixture
def train(monkeypatch) -> ModuleType:
    """The example that trains a network."""
    return example("train", monkeypatch)


@pytest.fixture(autouse=True)
def _strict() -> Iterator[None]:
    """No example falls back to the CPU, nor leaves anything on the device."""
    with torch.openreg.strict():
        yield
    gc.collect()


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


@pytest.fixture
def gpt(monkeypatch) -> ModuleType:
    """The example that learns sonnets."""
    return example("gpt", monkeypatch)


@pytest.mark.parametrize("device", ["openreg:0", "openreg:1"])
def test_the_gpt_learns_what_it_learns_on_the_cpu_and_writes(gpt, capsys, device):
    steps = ["--steps", "12", "--sample", "20"]
    assert gpt.main(["--device", device, *steps]) == 0
    printed = capsys.readouterr().out
    rows = re.findall(r"^(\S+): loss (\d\.\d+) to (\d\.\d+) in", printed, re.M)
    (ours, *our_losses), (host, *host_losses) = rows
    assert (ours, host) == (device, "cpu")
    assert our_losses == host_losses
    assert float(our_losses[1]) < float(our_losses[0]) - 0.3
    assert "The device and the CPU have learnt the same." in printed


def test_the_gpt_writes_alike_on_both(gpt):
    options = gpt.parse(["--steps", "3", "--sample", "15"])
    quiet = gpt.Progress(disable=True)
    samples = {
        gpt.train(options, torch.device(place), quiet).sample
        for place in ("openreg:0", "cpu")
    }
    assert len(samples) == 1


def test_the_gpt_tells_when_it_has_not_learnt_the_same(gpt, capsys, monkeypatch):
    losses = iter([2.0, 2.1])
    monkeypatch.setattr(
        gpt,
        "train",
        lambda options, device, bar: gpt.Training(device, [4.0, next(losses)]),
    )
    assert gpt.main([]) == 1
    assert "The losses differ: 2.0 and 2.1" in capsys.readouterr().err


def test_a_plot_without_matplotlib_is_refused(gpt, capsys, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(SystemExit) as exit_:
        gpt.main(["--plot", "loss.png"])
    assert exit_.value.code == 2
    assert "--plot needs matplotlib" in capsys.readouterr().err


@pytest.fixture
def pipeline(monkeypatch) -> ModuleType:
    """The example with a network on two devices."""
    return example("pipeline", monkeypatch)


@pytest.mark.parametrize("pieces", ["1", "4"])
def test_a_pipeline_learns_what_the_cpu_learns(pipeline, capsys, pieces):
    assert pipeline.main(["--steps", "20", "--pieces", pieces]) == 0
    printed = capsys.readouterr().out
    ours, host = re.findall(r"loss (\S+) to (\S+)", printed)
    assert ours == host
    assert float(ours[1]) < float(ours[0])
    assert "The devices and the CPU have learnt the same." in printed


def test_a_pipeline_queues_a_whole_batch_without_waiting(pipeline):
    made = pipeline.Pipeline("openreg")
    ((points, classes),) = pipeline.data(1)
    made.loss(points, classes, 4)  # the first call of a kind may wait
    with testing.assert_no_sync():
        loss = made.loss(points, classes, 4)
    assert loss.device == torch.device("openreg:1")
    loss.backward()
    assert all(parameter.grad is not None for parameter in made.parameters())


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--kind", "toaster"], "no kind of device is named 'toaster'"),
        (["--kind", "cpu"], "two devices 'cpu' are needed, there are 1"),
        (["--pieces", "3"], "--pieces must divide a batch of 128"),
        (["--steps", "0"], "--steps must be at least 1"),
    ],
)
def test_a_pipeline_that_cannot_be_is_refused(pipeline, capsys, arguments, message):
    with pytest.raises(SystemExit) as exit_:
        pipeline.main(arguments)
    assert exit_.value.code == 2
    assert message in capsys.readouterr().err


@pytest.fixture
def finetune(monkeypatch) -> ModuleType:
    """The example in mixed precision."""
    return example("finetune_amp", monkeypatch)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_mixed_precision_learns_what_the_cpu_learns(finetune, capsys, dtype):
    assert finetune.main(["--steps", "40", "--dtype", dtype]) == 0
    printed = capsys.readouterr().out
    rows = re.findall(r"loss (\S+) to (\S+), (\d+) steps skipped", printed)
    assert len(rows) == 2
    for first, last, _ in rows:
        assert float(last) < float(first) / 2
    if dtype == "float16":  # of the range of bfloat16 the first scale is no part
        assert all(int(skipped) > 0 for _, _, skipped in rows)
    assert f"have learnt the same in {dtype}" in printed


@pytest.mark.parametrize("name", ["gpt", "finetune_amp"])
def test_a_device_that_is_none_is_refused(name, monkeypatch, capsys):
    with pytest.raises(SystemExit) as exit_:
        example(name, monkeypatch).main(["--device", "toaster"])
    assert exit_.value.code == 2
    assert "no device is named 'toaster'" in capsys.readouterr().err
