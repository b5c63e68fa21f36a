"""Which cases there are, and how one is run."""

import gc
import time
import traceback
from collections.abc import Iterable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import torch

from tests.coverage.compare import compare, describe
from tests.coverage.databases import Entry, entries
from tests.coverage.module_checks import (
    module_checks,
    module_error_trials,
    module_trials,
)
from tests.coverage.operator_checks import (
    error_trials,
    operator_checks,
    operator_trials,
)
from tests.coverage.optimizer_checks import (
    optimizer_checks,
    optimizer_error_trials,
    optimizer_trials,
)
from tests.coverage.outcome import DEVICE, observe
from tests.coverage.same_choices import choose_as_for_the_cpu
from tests.coverage.trials import Trial

# Their results are whatever the memory held.
_UNINITIALISED = frozenset(
    {
        "op/empty",
        "op/empty_like",
        "op/empty_permuted",
        "op/empty_strided",
        "op/new_empty",
        "op/new_empty_strided",
        "op/resize_",
        "op/resize_as_",
    }
)

_NOT_SET = "the CPU does not set the result"
_ONE_GRADIENT = "a fused cell of an accelerator gives both biases one gradient"

# What the CPU itself gets wrong.
_WRONG_ON_CPU = {
    ("op/median", "expanded"): "the CPU reads beyond the memory of the tensor",
    ("op/nanmedian", "expanded"): "the CPU reads beyond the memory of the tensor",
    ("op/linalg.ldl_solve", "expanded"): "no pivots: the CPU writes beyond its memory",
    ("op/masked.median", "expanded"): "the CPU reads beyond the memory of the tensor",
    ("op/nn.functional.multi_margin_loss", "zero_size"): _NOT_SET,
    ("op/nn.functional.multilabel_margin_loss", "zero_size"): _NOT_SET,
    ("op/nn.functional.ctc_loss", "negative"): "the CPU reads the lengths unnegated",
    ("op/nn.functional.max_pool1d", "negative"): "the CPU reads the input unnegated",
}

# Trials, by a part of their names, that the CPU answers by writing beyond the memory
# of `out`: it takes no notice of the strides of a batch.
_NOT_TRIED = {
    ("op/tril", "out"): "reversed strides",
    ("op/triu", "out"): "reversed strides",
    ("op/lu_unpack", "out"): "reversed strides",
    ("op/linalg.lu", "out"): "reversed strides",
}

# Where PyTorch itself treats accelerators differently: what is found, and why.
_BY_DESIGN = {
    ("module/nn.LSTMCell", "backward"): _ONE_GRADIENT,
    ("module/nn.LSTMCell", "double_backward"): _ONE_GRADIENT,
}

# Its fused cells have gradients of another formula; where these nearly cancel out,
# what is left is rounded like the numbers that it was left of.
_CANCELLING = frozenset({("module/nn.GRU", "double_backward")})

# Their values are other ones from call to call on the CPU (one system of 9 equations,
# solved 400 times: 46 results), all within the tolerance of their own dtype.
_VARYING = frozenset({"op/linalg.lstsq", "op/linalg.lstsq.grad_oriented"})

# A thread that is about to drop a reference does so within this time.
_LEAK_SECONDS = 5

# So often the CPU is asked again, where the device gives other values.
_TIMES = 8

# No check needs more differences than these to be understood.
_MOST_TOLD = 3


def prepare() -> None:
    """Make this process ready to run cases."""
    # One thread: sums then have one order, and results are equal to the bit.
    torch.set_num_threads(1)
    torch.set_warn_always(True)
    choose_as_for_the_cpu()
    entries()


def case_ids() -> list[str]:
    """All cases, as ``database/entry/dtype/check``, in a fixed order."""
    found = []
    for entry in entries().values():
        found += [f"{entry.key}/{rest}" for rest in _checks(entry)]
    return found


def _checks(entry: Entry) -> Iterable[str]:
    yield "-/errors"
    for dtype in entry.dtypes():
        if entry.database == "module":
            checks = module_checks(entry)
        elif entry.database == "optim":
            checks = optimizer_checks()
        else:
            checks = operator_checks(entry, dtype)
        for check in checks:
            yield f"{str(dtype).removeprefix('torch.')}/{check}"


def _trials(entry: Entry, dtype_name: str, check: str, limit: int) -> Iterable[Trial]:
    left_out = _NOT_TRIED.get((entry.key, check))
    for trial in _all_trials(entry, dtype_name, check, limit):
        if left_out is None or left_out not in trial.label:
            yield trial


def _all_trials(
    entry: Entry, dtype_name: str, check: str, limit: int
) -> Iterable[Trial]:
    if check == "errors":
        if entry.database == "module":
            return module_error_trials(entry, limit)
        if entry.database == "optim":
            return optimizer_error_trials(entry, limit)
        return error_trials(entry, limit) if entry.info.error_inputs_func else ()
    dtype = getattr(torch, dtype_name)
    if entry.database == "module":
        return module_trials(entry, dtype, check, limit)
    if entry.database == "optim":
        return optimizer_trials(entry, dtype, check, limit)
    return operator_trials(entry, dtype, check, limit)


@dataclass
class Result:
    """What became of a case.

    ``verdict``: "same", as on the CPU to the bit; "close", within PyTorch's
    tolerance; "different"; "excluded", since it fails on the CPU; "leak"; and from
    the parent process "crash" and "hang".
    """

    case: str
    verdict: str = "same"
    reason: str = ""
    trials: int = 0
    refused: int = 0
    """Trials that raise on the CPU."""
    fallbacks: dict[str, int] = field(default_factory=dict)

    def as_json(self) -> dict[str, Any]:
        """For the file of results."""
        return asdict(self)


class _Summary:
    """Collects what the trials of a case gave."""

    def __init__(self) -> None:
        self.trials = 0
        self.refused: list[str] = []
        self.different: list[str] = []
        self.close: list[str] = []
        self.varying = 0

    def result(self, case: str) -> Result:
        verdict, reason = self._verdict(case.endswith("/errors"))
        return Result(case, verdict, reason, self.trials, len(self.refused))

    def _verdict(self, errors_wanted: bool) -> tuple[str, str]:
        if self.different:
            more = len(self.different) - _MOST_TOLD
            told = self.different[:_MOST_TOLD]
            return "different", " | ".join([*told, *([f"{more} more"] * (more > 0))])
        if self.trials == 0:
            return "excluded", "the database has no samples"
        if len(self.refused) == self.trials and not errors_wanted:
            return "excluded", f"the CPU raises {self.refused[0]}"
        if self.close:
            return "close", self.close[0]
        if self.varying:
            return "same", "values vary on the CPU too"
        return "same", ""


def _try(trial: Trial, entry: Entry, check: str, summary: _Summary) -> None:
    """Run a trial on the CPU and on the device, there twice if it is of `forward`."""
    summary.trials += 1
    expected = observe(trial.program, "cpu")
    if expected.error is not None:
        summary.refused.append(describe(expected.error))
    # What was rehearsed the first time is known the second time.
    for _ in range(2 if check == "forward" else 1):
        found = observe(trial.program, DEVICE)
        comparison = compare(found, expected, (entry.key, check) in _CANCELLING)
        if entry.key in _UNINITIALISED:
            comparison.values, comparison.close = [], []
        if entry.key in _VARYING:
            summary.varying += 1
            comparison.close = []
            if "wider dtype" in trial.label:  # whose tolerance is smaller
                comparison.values = []
        differences = comparison.different
        if not comparison.values and not comparison.close:
            pass
        elif _varies(trial, expected):
            summary.varying += 1
        else:
            differences = differences + comparison.values
            summary.close += [f"{trial.label}: {each}" for each in comparison.close]
        summary.different += [f"{trial.label}: {each}" for each in differences]
        if differences:
            return


def _varies(trial: Trial, expected: Any) -> bool:
    """Whether the CPU itself gives other values another time."""
    for _ in range(_TIMES):
        again = compare(observe(trial.program, "cpu"), expected)
        if again.values or again.close:
            return True
    return False


def run_on_cpu(case: str, limit: int = 0) -> None:
    """Run a case on the CPU alone, to see whether it comes back."""
    key, dtype, check = case.rsplit("/", 2)
    for trial in _trials(entries()[key], dtype, check, limit):
        observe(trial.program, "cpu")


def run_case(case: str, limit: int = 0) -> Result:
    """Run a case in this process; ``limit`` is the most samples, 0 for all."""
    key, dtype, check = case.rsplit("/", 2)
    if (key, check) in _WRONG_ON_CPU:
        return Result(case, "excluded", _WRONG_ON_CPU[key, check])
    entry = entries()[key]
    summary = _Summary()
    before = torch.openreg.memory_allocated()
    torch.openreg.reset_fallback_report()
    try:
        trials = list(_trials(entry, dtype, check, limit))
    except Exception as error:
        reason = f"the database's samples raise {describe(error)}"
        return Result(case, "excluded", reason)
    for trial in trials:
        try:
            _try(trial, entry, check, summary)
        except Exception as error:
            told = traceback.extract_tb(error.__traceback__)[-1]
            summary.different.append(
                f"{trial.label}: can't be compared, {describe(error)} "
                f"({Path(told.filename).name}:{told.lineno})"
            )
    result = summary.result(case)
    if result.verdict == "different" and (key, check) in _BY_DESIGN:
        result.verdict, result.reason = "close", _BY_DESIGN[key, check]
    for use in torch.openreg.fallback_report():
        name = f"{use.operator}: {use.reason}"
        result.fallbacks[name] = result.fallbacks.get(name, 0) + use.count
    _look_for_leak(result, before)
    return result


def _look_for_leak(result: Result, before: int) -> None:
    """Everything that a case allocates is free when it ends.

    The threads of autograd drop their last references after backward has returned,
    so a first look may come too early. A backward that has failed leaves its nodes in
    the thread's queue, on every device, until the next one.
    """
    if torch.openreg.memory_allocated() > before:
        torch.ones((), requires_grad=True).mul(1).backward()
    end = time.monotonic() + _LEAK_SECONDS
    while (left := torch.openreg.memory_allocated() - before) > 0:
        if time.monotonic() > end:
            break
        gc.collect()
    if left > 0:
        text = f"{left} bytes of device memory are left"
        result.verdict = "leak" if result.verdict != "different" else "different"
        result.reason = f"{text} | {result.reason}" if result.reason else text
