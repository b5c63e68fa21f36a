#!/usr/bin/env python3
"""Train a network that is cut in two, each half on a device of its own.

    examples/pipeline.py [--kind openreg] [--steps 50] [--pieces 4]

A batch is cut into pieces. While the second device works on one, the first has begun
the next one, and a stream of its own carries what is between them: the streams are
ordered by events, and the host waits for nothing. The code knows nothing of OpenReg:
`--kind cuda` works on a machine with two GPUs.
"""

from __future__ import annotations

import argparse
import math
import sys
from collections.abc import Sequence

import torch
from torch import Tensor, nn
from torch.nn import functional

FEATURES = 32
WIDTH = 256
CLASSES = 10
BATCH = 128
TOLERANCE = 1e-4


def halves() -> tuple[nn.Module, nn.Module]:
    """Return the two halves of a network; the same every time."""
    torch.manual_seed(0)
    first = nn.Sequential(
        nn.Linear(FEATURES, WIDTH), nn.ReLU(), nn.Linear(WIDTH, WIDTH)
    )
    second = nn.Sequential(nn.ReLU(), nn.Linear(WIDTH, WIDTH), nn.ReLU())
    return first, second.append(nn.Linear(WIDTH, CLASSES))


def data(steps: int) -> list[tuple[Tensor, Tensor]]:
    """Return batches of points and their classes; the same every time."""
    generator = torch.Generator().manual_seed(0)
    sorting = torch.randn(FEATURES, CLASSES, generator=generator)
    points = torch.randn(steps, BATCH, FEATURES, generator=generator)
    return [(each, (each @ sorting).argmax(dim=1)) for each in points]


class Pipeline:
    """Two halves of a network on two devices, with a stream that copies between."""

    def __init__(self, kind: str) -> None:
        self.places = torch.device(kind, 0), torch.device(kind, 1)
        first, second = halves()
        self.first = first.to(self.places[0])
        self.second = second.to(self.places[1])
        self.copying = torch.Stream(self.places[1])

    def parameters(self) -> list[nn.Parameter]:
        """Return the parameters of both halves."""
        return [*self.first.parameters(), *self.second.parameters()]

    def carry(self, between: Tensor) -> Tensor:
        """Return `between` on the second device, copied beside what both compute."""
        computed = torch.Event(self.places[0])
        computed.record(torch.accelerator.current_stream(self.places[0]))
        self.copying.wait_event(computed)
        with self.copying:
            carried = between.to(self.places[1], non_blocking=True)
        copied = torch.Event(self.places[1])
        copied.record(self.copying)
        consumer = torch.accelerator.current_stream(self.places[1])
        consumer.wait_event(copied)
        # Its memory belongs to the stream that copies; another one reads it.
        carried.record_stream(consumer)
        return carried

    def loss(self, points: Tensor, classes: Tensor, pieces: int) -> Tensor:
        """Return the loss of a batch, on the second device; queues all, waits never."""
        losses = []
        for part, truth in zip(
            points.chunk(pieces), classes.chunk(pieces), strict=True
        ):
            between = self.first(
                part.pin_memory().to(self.places[0], non_blocking=True)
            )
            output = self.second(self.carry(between))
            target = truth.pin_memory().to(self.places[1], non_blocking=True)
            losses.append(functional.cross_entropy(output, target, reduction="sum"))
        return torch.stack(losses).sum() / len(points)


def train_in_pipeline(kind: str, steps: int, pieces: int) -> list[float]:
    """Return the loss of every step on two devices."""
    pipeline = Pipeline(kind)
    optimizer = torch.optim.SGD(pipeline.parameters(), lr=0.1, momentum=0.9)
    losses = []
    for points, classes in data(steps):
        optimizer.zero_grad()
        loss = pipeline.loss(points, classes, pieces)
        loss.backward()
        optimizer.step()
        losses.append(loss.detach())
    values: list[float] = torch.stack(losses).tolist()
    return values


def train_on_cpu(steps: int) -> list[float]:
    """Return the loss of every step of the same network in one piece."""
    model = nn.Sequential(*halves())
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    losses = []
    for points, classes in data(steps):
        optimizer.zero_grad()
        loss = functional.cross_entropy(model(points), classes)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


def parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--kind", default="openreg", help="default: openreg")
    parser.add_argument("--steps", type=int, default=50, help="default: 50")
    parser.add_argument("--pieces", type=int, default=4, help="of a batch; default: 4")
    options = parser.parse_args(arguments)
    if options.steps < 1:
        parser.error("--steps must be at least 1")
    if not 1 <= options.pieces <= BATCH or BATCH % options.pieces:
        parser.error(f"--pieces must divide a batch of {BATCH}")
    try:
        count = torch.get_device_module(options.kind).device_count()
    except (RuntimeError, AttributeError):
        parser.error(f"no kind of device is named {options.kind!r}")
    if count < 2:
        parser.error(f"two devices {options.kind!r} are needed, there are {count}")
    return options


def main(arguments: Sequence[str] | None = None) -> int:
    """Train in the pipeline and on the CPU; fail if they do not learn the same."""
    options = parse(arguments)
    ours = train_in_pipeline(options.kind, options.steps, options.pieces)
    host = train_on_cpu(options.steps)
    print(
        f"{options.kind}:0 and {options.kind}:1: loss {ours[0]:.4f} to {ours[-1]:.4f}"
    )
    print(f"cpu: loss {host[0]:.4f} to {host[-1]:.4f}")
    if not math.isclose(ours[-1], host[-1], rel_tol=TOLERANCE):
        print(f"The losses differ: {ours[-1]} and {host[-1]}", file=sys.stderr)
        return 1
    print("The devices and the CPU have learnt the same.")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
