"""The report of what is new: each case runs, and every call is of a new kind."""

import json
import os
import subprocess
import sys
from pathlib import Path

import first_work
import pytest
import torch
from cases import DRIVERS, INPROCESS, ISOLATED
from first_operators import KINDS, OPERATORS, Inputs, number, pair
from first_time import CLIP_LIMIT, FULL, MEDIAN, OPERATOR_LIMIT, Finding, Run

CPU = torch.device("cpu")
DEVICE = torch.device("openreg:0")
REPORT = Path(__file__).parents[2] / "benchmarks" / "first_time.py"


def results(name: str, device: torch.device) -> list[object]:
    """What the first two kinds of an operator return."""
    inputs = Inputs(device)
    torch.manual_seed(0)
    return [OPERATORS[name](inputs, index)() for index in range(2)]


@pytest.mark.parametrize("name", OPERATORS)
def test_an_operator_gives_the_cpus_results(name):
    ours, theirs = results(name, DEVICE), results(name, CPU)
    torch.testing.assert_close(ours, theirs, check_device=False)


def test_every_index_has_a_kind_of_its_own():
    assert len({pair(index) for index in range(KINDS)}) == KINDS
    assert len({number(index) for index in range(KINDS)}) == KINDS
    warm_up = 1
    assert 2 * (FULL.samples + warm_up) * first_work.CALLS <= KINDS
    tokens = first_work.PROMPT + (FULL.samples + warm_up) * first_work.CHUNK
    assert tokens <= first_work.LONGEST
    lengths = first_work.LONGEST - first_work.SHORTEST
    assert FULL.steps + warm_up <= lengths


def test_there_are_sixty_operators():
    assert len(OPERATORS) >= 60


@pytest.mark.parametrize("device", [CPU, DEVICE], ids=str)
@pytest.mark.parametrize("name", ["gpt", "cnn", "lstm"])
def test_a_step_takes_processor_time(name, device):
    assert first_work.first_step(name, device) > 0


@pytest.mark.parametrize("device", [CPU, DEVICE], ids=str)
def test_other_work_takes_processor_time(device):
    assert first_work.first_clip(device) > 0
    assert first_work.Training(device).sample() > 0


def test_the_device_generates_the_cpus_text():
    ours, theirs = (first_work.Generation(device) for device in (DEVICE, CPU))
    for generation in (ours, theirs):
        assert generation.sample() > 0
        assert generation.length == first_work.PROMPT + first_work.CHUNK - 1
    assert ours.tokens.tolist() == theirs.tokens.tolist()


@pytest.mark.parametrize("name", first_work.LARGE)
def test_a_large_call_has_inputs_and_outputs_of_that_size(name):
    size = 64 << 20
    torch.openreg.reset_peak_memory_stats()
    before = torch.openreg.memory_allocated()
    first, later = first_work.peaks(name, DEVICE, size)
    assert torch.openreg.max_memory_allocated() - before >= 2 * size
    if torch.openreg.process_info(0).driver == INPROCESS:
        assert min(first, later) >= 2 * size


def test_the_peak_starts_anew():
    size = 256 << 20
    held = first_work.peak_of(lambda: torch.ones(size // 4), CPU)
    assert first_work.peak_of(lambda: None, CPU) < held - size // 2


def test_only_the_driver_in_the_process_has_limits():
    missed = Finding("add", "add", OPERATOR_LIMIT + 0.1, OPERATOR_LIMIT)
    assert not Run(INPROCESS, 1, DEVICE, FULL, [missed]).kept
    assert Run(ISOLATED, 1, DEVICE, FULL, [missed]).kept
    assert not Run(ISOLATED, 1, DEVICE, FULL, failures={"add": "died"}).kept
    assert Finding("first_clip", "", CLIP_LIMIT, CLIP_LIMIT).kept


def test_the_report_measures_an_operator_on_each_driver(tmp_path):
    found = tmp_path / "found.json"
    command = [sys.executable, REPORT, "--quick", "--only", "add", "--threads", "1"]
    done = subprocess.run(
        [*command, "--json", found],
        env=os.environ,
        stdout=subprocess.PIPE,
        text=True,
        timeout=300,
    )
    assert done.returncode in (0, 1)  # how fast it is, is not the question
    runs = json.loads(found.read_text(encoding="utf-8"))["runs"]
    assert [run["driver"] for run in runs] == list(DRIVERS)
    for run in runs:
        assert not run["failures"]
        (add,) = run["findings"]  # the median is that of all operators
        assert add["name"] == "add" != MEDIAN
        assert add["kept"] == (add["value"] <= add["limit"])
        assert add["value"] > 0
