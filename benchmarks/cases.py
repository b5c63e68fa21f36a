"""What the report of the operators measures, on the device and on the CPU.

Nothing runs when this is imported; each case prepares its tensors when asked.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from itertools import repeat

import torch
from held_stream import held_stream
from models import MODELS, Training
from timing import Sampler

import torch_openreg  # noqa: F401 (where nothing is installed, torch finds no device)

Shape = tuple[int, ...]

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
    """Return 64 MiB of that kind; for the CPU, all kinds are pageable memory."""
    if kind == "device":
        return torch.ones(COPIED, dtype=torch.uint8, device=device)
    pinned = kind == "pinned" and device.type != "cpu"
    return torch.ones(COPIED, dtype=torch.uint8, pin_memory=pinned)


def copy(source: str, target: str, device: torch.device) -> Sampler:
    """Copy between two kinds of memory."""
    tensors = (memory(target, device), memory(source, device))
    return timed(partial(torch.Tensor.copy_, *tensors), device)


@dataclass(frozen=True)
class Case:
    """Something that may cost `target` times as much as on the CPU."""

    name: str
    title: str
    prepare: Callable[[torch.device], Sampler]
    target: float | None = None  # nothing is promised


def _step(name: str, target: float) -> Case:
    prepare = partial(training_step, name)
    return Case(name, f"{MODELS[name].title} step", prepare, target)


def _copy(source: str, target: str) -> Case:
    title = f"copy 64 MiB, {source} to {target}"
    return Case(f"copy_{source}_{target}", title, partial(copy, source, target))


CASES = (
    Case("tiny_add", "add 8x8", partial(add, (8, 8)), 1.7),
    Case("item", "item()", item, 2.0),
    Case("enqueue", "add 8x8, held stream", partial(enqueue, (8, 8)), 2.5),
    Case("large_add", "add 1024x1024", partial(add, (1024, 1024)), 1.02),
    Case("matmul", "matmul 1024x1024", matmul, 1.02),
    Case("softmax", "softmax 1024x1024", softmax, 1.02),
    _step("mlp", 1.2),
    _step("cnn", 1.0),
    _step("gpt", 1.0),
    _step("lstm", 1.0),
    _step("resnet", 1.0),
    Case("adamw", "AdamW.step(), small GPT", optimizer_step, 0.8),
    Case("clone", "clone 64 MiB", clone, 0.25),
    Case("empty", "empty 1 MiB, and free", empty, 1.0),
    _copy("pinned", "device"),
    _copy("pageable", "device"),
    _copy("device", "pinned"),
    _copy("device", "pageable"),
    _copy("device", "device"),
)
