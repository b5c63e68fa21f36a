"""The reports of the operators: what they promise, and what they measure."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from cases import CASES, DRIVERS, Target
from sweep import CALLS, FAMILIES
from timing import Comparison

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"
REPORT = BENCHMARKS / "operators_report.py"
SWEEP = BENCHMARKS / "sweep_report.py"


@pytest.mark.parametrize(
    ("nanoseconds", "reached"), [(1000.0, True), (2900.0, True), (3100.0, False)]
)
def test_either_bound_suffices(nanoseconds, reached):
    found = Comparison(ours=[nanoseconds], other=[100.0])
    assert Target(20.0, nanoseconds=3000.0).is_reached(found) == reached
    assert Target(20.0).is_reached(found) == (nanoseconds <= 2000.0)


def test_a_target_says_its_bounds():
    assert str(Target(1.5)) == "<= 1.5"
    assert str(Target(20.0, nanoseconds=30e3)) == "<= 20.0 or 30.00 us"


def test_the_report_measures_each_driver_with_its_targets(tmp_path):
    found = tmp_path / "found.json"
    command = [sys.executable, REPORT, "--quick", "--only", "item", "--json", found]
    environment = os.environ | {
        "OMP_NUM_THREADS": "1"
    }  # one number of threads is enough
    done = subprocess.run(
        command, env=environment, stdout=subprocess.PIPE, text=True, timeout=300
    )
    assert done.returncode in (0, 1)  # how fast it is, is not the question
    assert "Operators on isolated devices, 1 thread\n" in done.stdout
    runs = json.loads(found.read_text(encoding="utf-8"))["runs"]
    assert {run["driver"] for run in runs} == set(DRIVERS)
    item = next(case for case in CASES if case.name == "item")
    for run in runs:
        assert not run["failures"]
        measured = run["cases"]["item"]
        target = item.target(run["driver"])
        assert measured["target"]["ratio"] == target.ratio
        good = measured["ratio"] <= target.ratio or (
            target.nanoseconds is not None and measured["openreg"] <= target.nanoseconds
        )
        assert measured["ok"] == good


def results_of(call, device):
    """Return what a call gives, twice, and the inputs that a call may have changed."""
    scope = call.inputs(torch.device(device))
    run = call.bind(scope)
    torch.manual_seed(0)
    results = [run(), run()]  # the second is of a known kind
    return copied([*results, scope["x"], scope["s"], scope["host"]])


def copied(value):
    """Return copies of the tensors, on the CPU, and tuples of every kind as tuples."""
    if isinstance(value, torch.Tensor):
        return value.cpu().clone()
    if isinstance(value, (tuple, list)):
        return tuple(copied(each) for each in value)
    return value


@pytest.mark.parametrize("call", CALLS, ids=lambda call: call.name)
def test_a_call_of_the_sweep_gives_what_the_cpu_gives(call):
    """With one thread: several sum in another order."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        found, expected = results_of(call, "openreg:0"), results_of(call, "cpu")
    finally:
        torch.set_num_threads(threads)
    torch.testing.assert_close(found, expected, rtol=0, atol=0, equal_nan=True)


def test_the_sweep_has_no_call_twice():
    assert len({call.name for call in CALLS}) == len(CALLS)
    assert all(FAMILIES.values())


def test_the_report_of_the_sweep_prints_the_slowest(tmp_path):
    found = tmp_path / "found.json"
    command = [sys.executable, SWEEP, "--quick", "--match", "x.exp()", "--json", found]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, timeout=300)
    assert done.returncode == 0
    assert "The slowest of 2 calls, 1 thread\n" in done.stdout
    report = json.loads(found.read_text(encoding="utf-8"))
    assert set(report) == set(DRIVERS)
    for calls in report.values():
        assert set(calls) == {"x.exp(), small", "x.exp(), medium"}
