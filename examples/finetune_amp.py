#!/usr/bin/env python3
"""Fine-tune a small network in mixed precision, on the device and on the CPU.

    examples/finetune_amp.py [--device openreg:1] [--steps 60] [--dtype float16]

A network that tells stripes apart is trained in float32, then gets a new head for two
more patterns and is fine-tuned under autocast, with a scaler of gradients. The first
scale is far too large: the scaler skips these steps and finds a better one. The code
knows nothing of OpenReg: `--device cuda` works as well.
"""

from __future__ import annotations

import argparse
import math
import sys
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional

SIZE = 16
BATCH = 32
STRIPES = 3
PATTERNS = 5
FIRST_SCALE = 2.0**24
# Half precision rounds at the third digit, and the CPU's autocast has other lists.
TOLERANCE = 0.02


def images(classes: Tensor, generator: torch.Generator) -> Tensor:
    """Return noisy pictures: stripes in three directions, a chessboard, a disc."""
    rows = torch.arange(SIZE, dtype=torch.float32).view(-1, 1)
    columns = rows.view(1, -1)
    centre = (SIZE - 1) / 2
    patterns = torch.stack(
        [
            (rows + 0 * columns).mul(1.6).sin(),
            (columns + 0 * rows).mul(1.6).sin(),
            (rows + columns).mul(1.1).sin(),
            rows.mul(1.6).sin() * columns.mul(1.6).sin(),
            ((rows - centre) ** 2 + (columns - centre) ** 2 < 25).float(),
        ]
    )
    chosen = patterns[classes].unsqueeze(1)
    return chosen + 2 * torch.randn(chosen.shape, generator=generator)


def network(outputs: int) -> nn.Sequential:
    """Return a network whose last layer has `outputs`; the same for the same seed."""
    return nn.Sequential(
        nn.Conv2d(1, 16, 3, stride=2, padding=1),
        nn.GroupNorm(4, 16),
        nn.ReLU(),
        nn.Conv2d(16, 32, 3, stride=2, padding=1),
        nn.GroupNorm(4, 32),
        nn.ReLU(),
        nn.AdaptiveAvgPool2d(2),
        nn.Flatten(),
        nn.Linear(128, outputs),
    )


@dataclass
class Result:
    """What a fine-tuning has shown."""

    losses: list[float]
    skipped: int
    scale: float


def pretrain() -> nn.Sequential:
    """Return a network that knows stripes, in float32, on the CPU."""
    torch.manual_seed(0)
    model = network(STRIPES)
    generator = torch.Generator().manual_seed(0)
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
    for _ in range(30):
        classes = torch.randint(STRIPES, (BATCH,), generator=generator)
        loss = functional.cross_entropy(model(images(classes, generator)), classes)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return model


def fine_tune(device: torch.device, steps: int, dtype: torch.dtype) -> Result:
    """Fine-tune on `device`; the same data and the same start on every device."""
    model = pretrain()
    model[-1] = nn.Linear(128, PATTERNS)
    model.to(device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
    scaler = torch.amp.GradScaler(device.type, init_scale=FIRST_SCALE)
    generator = torch.Generator().manual_seed(1)
    losses, skipped = [], 0
    for _ in range(steps):
        classes = torch.randint(PATTERNS, (BATCH,), generator=generator)
        inputs, targets = images(classes, generator).to(device), classes.to(device)
        with torch.autocast(device.type, dtype=dtype):
            loss = functional.cross_entropy(model(inputs), targets)
        optimizer.zero_grad()
        scaler.scale(loss).backward()
        scaler.unscale_(optimizer)
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        before = scaler.get_scale()
        scaler.step(optimizer)  # does nothing if a gradient is infinite
        scaler.update()
        skipped += scaler.get_scale() < before
        losses.append(loss.detach())
    return Result(torch.stack(losses).tolist(), skipped, scaler.get_scale())


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
    parser.add_argument("--steps", type=int, default=60, help="default: 60")
    parser.add_argument(
        "--dtype",
        choices=("float16", "bfloat16"),
        default="float16",
        help="default: float16",
    )
    options = parser.parse_args(arguments)
    if options.steps < 1:
        parser.error("--steps must be at least 1")
    return options


def main(arguments: Sequence[str] | None = None) -> int:
    """Fine-tune on both and compare; fail if they do not learn the same."""
    options = parse(arguments)
    dtype = getattr(torch, options.dtype)
    places = (options.device, torch.device("cpu"))
    ours, host = (fine_tune(place, options.steps, dtype) for place in places)
    for place, result in zip(places, (ours, host), strict=True):
        print(
            f"{place}: loss {result.losses[0]:.3f} to {result.losses[-1]:.3f}, "
            f"{result.skipped} steps skipped, scale {result.scale:g}"
        )
    if not math.isclose(ours.losses[-1], host.losses[-1], rel_tol=TOLERANCE):
        print("The losses differ.", file=sys.stderr)
        return 1
    print(f"The device and the CPU have learnt the same in {options.dtype}.")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
