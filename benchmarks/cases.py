"""What the report of the operators measures, on the device and on the CPU.

Nothing runs when this is imported; each case prepares its tensors when asked.
"""

from __future__ import annotations

import ctypes
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from itertools import repeat

import torch
from held_stream import held_stream
from models import MODELS, Training
from table import duration
from timing import Comparison, Sampler

import torch_openreg  # noqa: F401 (where nothing is installed, torch finds no device)

Shape = tuple[int, ...]

# The values of OPENREG_DRIVER.
INPROCESS, ISOLATED = DRIVERS = ("inprocess", "isolated")

MIB = 1 << 20
COPIED = 64 * MIB
# The first launches behind a gate find cold caches; they are not counted.
UNCOUNTED = 10


def timed(action: Callable[[], object], device: torch.device) -> Sampler:
    """Return a sampler of `action`, which ends when the device has done it all."""

    def sample(count: int) -> float:
        start = time.perf_counter_ns()
        for _ in repeat(None, count):
            action()
        if device.type != "cpu":
            torch.accelerator.synchronize(device)
        return (time.perf_counter_ns() - start) / count

    return sample


def timed_behind_gate(action: Callable[[], object]) -> Sampler:
    """Return a sampler of the host's time for `action` on a held stream.

    The first call comes before the gate: the device may have to look at the result.
    """

    def sample(count: int) -> float:
        action()
        with held_stream():
            for _ in repeat(None, UNCOUNTED):
                action()
            start = time.perf_counter_ns()
            for _ in repeat(None, count):
                action()
            return (time.perf_counter_ns() - start) / count

    return sample


def addition(shape: Shape, device: torch.device) -> Callable[[], object]:
    """Return the sum of two tensors of that shape, to be called."""
    return partial(torch.add, *(torch.rand(shape).to(device) for _ in range(2)))


def add(shape: Shape, device: torch.device) -> Sampler:
    """Add two tensors of that shape."""
    return timed(addition(shape, device), device)


def enqueue(shape: Shape, device: torch.device) -> Sampler:
    """Add on a stream that is held; on the CPU, where none is, just add."""
    if device.type == "cpu":
        return add(shape, device)
    return timed_behind_gate(addition(shape, device))


def item(device: torch.device) -> Sampler:
    """Read a number that is there."""
    return timed(torch.ones((), device=device).item, device)


def matmul(device: torch.device) -> Sampler:
    """Multiply two matrices."""
    left, right = (torch.rand(1024, 1024).to(device) for _ in range(2))
    return timed(partial(torch.matmul, left, right), device)


def softmax(device: torch.device) -> Sampler:
    """Take the softmax of each row."""
    rows = torch.randn(1024, 1024).to(device)
    return timed(partial(torch.softmax, rows, dim=-1), device)


def clone(device: torch.device) -> Sampler:
    """Clone a large tensor, and drop the clone."""
    return timed(torch.ones(COPIED // 4).to(device).clone, device)


def empty(device: torch.device) -> Sampler:
    """Make a tensor of 1 MiB, and drop it."""
    make = partial(torch.empty, MIB, dtype=torch.uint8, device=device)
    return timed(make, device)


def training_step(name: str, device: torch.device) -> Sampler:
    """Train a model for a step: forward, loss, backward, optimizer."""
    return timed(Training(MODELS[name], device).step, device)


def optimizer_step(device: torch.device) -> Sampler:
    """Step AdamW for the parameters of the small GPT."""
    training = Training(MODELS["gpt"], device)
    training.step()  # makes the gradients
    return timed(training.optimizer.step, device)


def memory(kind: str, device: torch.device) -> torch.Tensor:
    """Return 64 MiB of that kind that have been written."""
    if kind == "device":
        return torch.ones(COPIED, dtype=torch.uint8, device=device)
    return torch.ones(COPIED, dtype=torch.uint8, pin_memory=kind == "pinned")


def memcpy() -> Sampler:
    """Copy between two pageable tensors that have been written, by memcpy alone.

    The CPU's `copy_` is slower with one thread and has several with more.
    """
    tensors = [memory("pageable", torch.device("cpu")) for _ in range(2)]

    def copy_bytes() -> None:
        target, source = tensors
        ctypes.memmove(target.data_ptr(), source.data_ptr(), COPIED)

    return timed(copy_bytes, torch.device("cpu"))


def copy(source: str, target: str, device: torch.device) -> Sampler:
    """Copy between two kinds of memory; for the CPU, whichever they are, memcpy."""
    if device.type == "cpu":
        return memcpy()
    tensors = (memory(target, device), memory(source, device))
    return timed(partial(torch.Tensor.copy_, *tensors), device)


@dataclass(frozen=True)
class Target:
    """What is promised: so many times the CPU's time or, if given, so many ns.

    Either suffices.
    """

    ratio: float
    nanoseconds: float | None = None

    def is_reached(self, found: Comparison) -> bool:
        """Return whether the medians keep the promise."""
        absolute = (
            self.nanoseconds is not None and found.ours_median <= self.nanoseconds
        )
        return absolute or found.ratio <= self.ratio

    def __str__(self) -> str:
        """Write it for a table."""
        absolute = (
            "" if self.nanoseconds is None else f" or {duration(self.nanoseconds)}"
        )
        return f"<= {self.ratio}{absolute}"


@dataclass(frozen=True)
class Case:
    """Something that is measured, and what each of the drivers promises of it."""

    name: str
    title: str
    prepare: Callable[[torch.device], Sampler]
    inprocess: Target | None = None  # nothing is promised
    isolated: Target | None = None

    def target(self, driver: str) -> Target | None:
        """Return what one of `DRIVERS` promises."""
        return {INPROCESS: self.inprocess, ISOLATED: self.isolated}[driver]


def _step(name: str, inprocess: float, isolated: float | None = None) -> Case:
    prepare = partial(training_step, name)
    target = Target(isolated) if isolated is not None else None
    return Case(name, f"{MODELS[name].title} step", prepare, Target(inprocess), target)


def _copy(source: str, target: str, isolated: float | None = None) -> Case:
    title = f"copy 64 MiB, {source} to {target}"
    promise = Target(isolated) if isolated is not None else None
    prepare = partial(copy, source, target)
    return Case(f"copy_{source}_{target}", title, prepare, None, promise)


CASES = (
    Case("tiny_add", "add 8x8", partial(add, (8, 8)), Target(1.7), Target(4.0)),
    Case("item", "item()", item, Target(2.0), Target(20.0, nanoseconds=30e3)),
    Case("enqueue", "add 8x8, held stream", partial(enqueue, (8, 8)), Target(2.5)),
    Case("large_add", "add 1024x1024", partial(add, (1024, 1024)), Target(1.02)),
    Case("matmul", "matmul 1024x1024", matmul, Target(1.02)),
    Case("softmax", "softmax 1024x1024", softmax, Target(1.02)),
    _step("mlp", 1.2, isolated=2.5),
    _step("cnn", 1.0, isolated=1.3),
    _step("gpt", 1.0, isolated=1.3),
    _step("lstm", 1.0),
    _step("resnet", 1.0),
    Case("adamw", "AdamW.step(), small GPT", optimizer_step, Target(0.8)),
    Case("clone", "clone 64 MiB", clone, Target(0.25)),
    Case("empty", "empty 1 MiB, and free", empty, Target(1.0)),
    _copy("pinned", "device", isolated=1.5),
    _copy("pageable", "device", isolated=2.5),
    _copy("device", "pinned", isolated=1.5),
    _copy("device", "pageable", isolated=2.5),
    _copy("device", "device"),
)
