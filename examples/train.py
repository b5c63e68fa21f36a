#!/usr/bin/env python3
"""Train a small network on the device `openreg` and on the CPU, and compare.

    examples/train.py [--device openreg:1] [--steps 1000]

Shows the devices, the loss on both, what the device's allocator did, and the time
that each took. The code knows nothing of OpenReg: `--device cuda` works as well.
"""

from __future__ import annotations

import argparse
import math
import time
from collections.abc import Sequence
from dataclasses import dataclass, field

import torch
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TimeElapsedColumn
from rich.table import Table
from torch import nn

ARMS = 3
TURNS = 1.5
POINTS_PER_ARM = 1000
HIDDEN = 128
BATCH = 256
REPORTS = 10


@dataclass
class Training:
    """What one training has shown."""

    device: torch.device
    losses: dict[int, float] = field(default_factory=dict)
    accuracy: float = 0.0
    seconds: float = 0.0
    memory: str = ""


def spiral(generator: torch.Generator) -> tuple[torch.Tensor, torch.Tensor]:
    """Return points on the arms of a spiral, and the arm that each belongs to."""
    radius = torch.linspace(0.05, 1.0, POINTS_PER_ARM).repeat(ARMS)
    arm = torch.arange(ARMS).repeat_interleave(POINTS_PER_ARM)
    noise = 0.15 * torch.randn(radius.numel(), generator=generator)
    angle = 2 * math.pi * (arm / ARMS + TURNS * radius) + noise
    return torch.stack([radius * angle.cos(), radius * angle.sin()], dim=1), arm


def network() -> nn.Module:
    """Return a fresh network; the same for the same seed."""
    torch.manual_seed(0)
    return nn.Sequential(
        nn.Linear(2, HIDDEN),
        nn.ReLU(),
        nn.Linear(HIDDEN, HIDDEN),
        nn.ReLU(),
        nn.Linear(HIDDEN, ARMS),
    )


def synchronize(device: torch.device) -> None:
    """Wait until the device has done everything that was asked of it."""
    if device.type != "cpu":
        torch.accelerator.synchronize(device)


def train(device: torch.device, steps: int, progress: Progress) -> Training:
    """Train on `device`; the same data and the same start on every device."""
    generator = torch.Generator().manual_seed(0)
    points, arms = (tensor.to(device) for tensor in spiral(generator))
    model = network().to(device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.003)
    result = Training(device)
    every = max(1, steps // REPORTS)
    task = progress.add_task(f"training on {device}", total=steps)

    start = time.perf_counter()
    for step in range(1, steps + 1):
        chosen = torch.randint(len(arms), (BATCH,), generator=generator).to(device)
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(points[chosen]), arms[chosen])
        loss.backward()
        optimizer.step()
        # Reading the loss waits for the device, so it is read now and then only.
        if step % every == 0 or step == steps:
            result.losses[step] = loss.item()
        progress.advance(task)
    synchronize(device)
    result.seconds = time.perf_counter() - start

    with torch.no_grad():
        right = model(points).argmax(dim=1) == arms
        result.accuracy = right.float().mean().item()
    if device.type != "cpu":
        module = torch.get_device_module(device)
        result.memory = module.memory_summary(device, abbreviated=True)
    return result


def show_devices(console: Console, kind: str) -> None:
    """Print a table of the devices of one kind."""
    module = torch.get_device_module(kind)
    table = Table(title=f"Devices of kind {kind}")
    for heading in ("device", "name", "memory", "free", "capability"):
        table.add_column(heading)
    for index in range(module.device_count()):
        free, total = module.mem_get_info(index)
        capability = module.get_device_capability(index)
        table.add_row(
            f"{kind}:{index}",
            module.get_device_name(index),
            f"{total >> 20} MiB",
            f"{free >> 20} MiB",
            ".".join(str(part) for part in capability),
        )
    console.print(table)


def show_losses(console: Console, trainings: Sequence[Training]) -> None:
    """Print the loss curves side by side, then the accuracy and the time."""
    table = Table(title="Loss")
    table.add_column("step", justify="right")
    for training in trainings:
        table.add_column(str(training.device), justify="right")
    for step in trainings[0].losses:
        table.add_row(str(step), *(f"{t.losses[step]:.6f}" for t in trainings))
    table.add_section()
    table.add_row("accuracy", *(f"{t.accuracy:.1%}" for t in trainings))
    table.add_row("time", *(f"{t.seconds:.2f} s" for t in trainings))
    console.print(table)


def device_named(text: str) -> torch.device:
    """Return the device that the command line names."""
    try:
        return torch.device(text)
    except RuntimeError as error:
        raise argparse.ArgumentTypeError(f"no device is named {text!r}") from error


def parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "--device", type=device_named, default="openreg:0", help="default: openreg:0"
    )
    parser.add_argument("--steps", type=int, default=1000, help="default: 1000")
    options = parser.parse_args(arguments)
    if options.steps < 1:
        parser.error("--steps must be at least 1")
    return options


def main(arguments: Sequence[str] | None = None) -> int:
    """Train on the device, then on the CPU, and show both."""
    options = parse(arguments)
    device: torch.device = options.device
    on_device = device.type != "cpu"
    console = Console()
    if on_device:
        show_devices(console, device.type)

    train(device, 1, Progress(disable=True))  # a device starts with its first use
    with Progress(
        "{task.description}",
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        console=console,
        disable=not console.is_terminal,  # a log wants no bar
    ) as progress:
        devices = [device, torch.device("cpu")] if on_device else [device]
        trainings = [train(each, options.steps, progress) for each in devices]

    show_losses(console, trainings)
    if on_device:
        print(trainings[0].memory)
        ratio = trainings[0].seconds / trainings[1].seconds
        print(f"{device} took {ratio:.2f} times as long as the CPU.")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
