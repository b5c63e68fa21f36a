"""The coverage run survives what it has to find."""

import json
import signal
from pathlib import Path

import pytest
import torch

from tests.coverage.compare import compare
from tests.coverage.outcome import DEVICE, Observed, Program, observe
from tests.coverage.pool import Lane, Worker, WorkerDiedError
from tests.coverage.report import page
from tests.coverage.results import ResultFile
from tests.coverage.transplant import Transplant

SETTINGS = {"torch": "1"}


def _result(case: str, verdict: str = "same", **more: object) -> dict[str, object]:
    return {"case": case, "verdict": verdict, "reason": "", "trials": 1, **more}


def _differences(on_device: Program, on_cpu: Program) -> list[str]:
    found = compare(observe(on_device, DEVICE), observe(on_cpu, "cpu"))
    return found.different + found.values


def _gives(values: object) -> Program:
    return lambda device: Observed((), Transplant(device)(values))


def test_equal_results_do_not_differ() -> None:
    values = [torch.randn(3, 4).t(), torch.tensor([1, 2]), 3.5, "text"]
    assert _differences(_gives(values), _gives(values)) == []


@pytest.mark.parametrize(
    ("found", "expected"),
    [
        (torch.ones(3), torch.zeros(3)),
        (torch.ones(3), torch.ones(3, dtype=torch.float64)),
        (torch.ones(3), torch.ones(1, 3)),
        (torch.ones(3, 4), torch.ones(4, 3).t()),
        (torch.ones(3), torch.ones(3).requires_grad_()),
        (torch.ones(3, dtype=torch.cfloat), torch.ones(3, dtype=torch.cfloat).conj()),
        (1.5, 2.5),
        ([torch.ones(3)], [torch.ones(3), torch.ones(3)]),
        (float("nan"), 1.0),
    ],
)
def test_a_difference_is_found(found: object, expected: object) -> None:
    assert _differences(_gives(found), _gives(expected))


def test_another_type_of_exception_is_a_difference() -> None:
    def program(device: str) -> Observed:
        raise TypeError if device == DEVICE else ValueError

    assert _differences(program, program)


def test_memory_that_is_shared_on_one_device_alone_is_a_difference() -> None:
    def program(device: str) -> Observed:
        x = torch.ones(3, device=device)
        return Observed(x, x.view(3) if device == "cpu" else x.clone())

    assert any("aliasing" in text for text in _differences(program, program))


def test_a_version_counter_that_stands_still_is_a_difference() -> None:
    def program(device: str) -> Observed:
        x = torch.ones(3, device=device)
        if device == "cpu":
            x.add_(0)
        return Observed(x, ())

    assert any("version" in text for text in _differences(program, program))


def test_a_transplant_keeps_overlap_strides_and_lazy_views() -> None:
    base = torch.randn(4, 5, dtype=torch.cfloat)
    view = base[1:, ::2].t().conj()
    moved, moved_view, again = Transplant(DEVICE)((base, view, base))
    assert moved is again
    assert moved_view.stride() == view.stride()
    assert moved_view.is_conj()
    moved.zero_()
    assert moved_view.abs().sum().item() == 0


def test_a_crash_is_the_result_of_its_case_and_the_next_one_runs() -> None:
    lane = Lane(3, 60)
    assert lane.run("op/add/float32/forward")["verdict"] == "same"
    lane._worker._process.send_signal(signal.SIGSEGV)
    lane._worker._process.wait()
    crashed = lane.run("op/sub/float32/forward")
    assert crashed["verdict"] == "crash"
    assert "SIGSEGV" in crashed["reason"]
    assert lane.run("op/mul/float32/forward")["verdict"] == "same"
    assert lane.finish() == 0


def test_a_worker_that_takes_too_long_is_a_hang() -> None:
    worker = Worker()
    with pytest.raises(WorkerDiedError) as caught:
        worker.run("op/svd/complex64/out", 0, seconds=1e-6)
    worker.kill()
    assert caught.value.verdict == "hang"


def test_results_resume_after_half_a_line(tmp_path: Path) -> None:
    path = tmp_path / "results.jsonl"
    first = ResultFile(path, SETTINGS)
    first.add(_result("op/add/float32/forward"))
    first.close()
    with path.open("a") as stream:
        stream.write('{"case": "op/su')
    second = ResultFile(path, SETTINGS)
    assert set(second.results) == {"op/add/float32/forward"}
    second.add(_result("op/sub/float32/forward"))
    second.close()
    assert len([json.loads(line) for line in path.read_text().splitlines()]) == 3


def test_results_of_other_settings_are_not_resumed(tmp_path: Path) -> None:
    path = tmp_path / "results.jsonl"
    first = ResultFile(path, SETTINGS)
    first.add(_result("op/add/float32/forward"))
    first.close()
    assert not ResultFile(path, {"torch": "2"}).results


def test_the_page_names_what_is_different_and_what_fell_back() -> None:
    text = page(
        [
            _result("op/add/float32/forward"),
            _result("op/sub/float32/out", "different", reason="sample 0: strides"),
            _result("op/mul/float32/out", fallbacks={"aten::mul: a reason": 2}),
        ]
    )
    assert "| `op/add` | native |" in text
    assert "| `op/sub` | different |" in text
    assert "| `op/mul` | fallback |" in text
    assert "| aten::mul | a reason | 1 |" in text
