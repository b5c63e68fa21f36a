#!/usr/bin/env python3
"""Train a small GPT on sonnets, on the device and on the CPU, and let it write.

    examples/gpt.py [--device openreg:1] [--steps 400] [--plot loss.png]

The code knows nothing of OpenReg: `--device cuda` works as well. There is no dropout,
so that both learn the same; `--no-compare` leaves the CPU out.
"""

from __future__ import annotations

import argparse
import math
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import torch
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TimeElapsedColumn
from torch import Tensor, nn
from torch.nn import functional

TEXT = Path(__file__).parent / "text" / "sonnets.txt"
CONTEXT = 64
WIDTH = 128
HEADS = 4
LAYERS = 4
BATCH = 16
RATE = 1e-3
WARM_UP = 20
TOLERANCE = 1e-3


class Block(nn.Module):
    """Attention to what came before, then an MLP; each adds to its input."""

    def __init__(self) -> None:
        super().__init__()
        self.norm1 = nn.LayerNorm(WIDTH)
        self.qkv = nn.Linear(WIDTH, 3 * WIDTH)
        self.out = nn.Linear(WIDTH, WIDTH)
        self.norm2 = nn.LayerNorm(WIDTH)
        self.up = nn.Linear(WIDTH, 4 * WIDTH)
        self.down = nn.Linear(4 * WIDTH, WIDTH)

    def forward(self, x: Tensor) -> Tensor:
        """Return `x` with what this block has to say added."""
        batch, length, _ = x.shape
        parts = self.qkv(self.norm1(x)).view(batch, length, 3, HEADS, WIDTH // HEADS)
        query, key, value = parts.permute(2, 0, 3, 1, 4)
        y: Tensor = functional.scaled_dot_product_attention(
            query, key, value, is_causal=True
        )
        x = x + self.out(y.transpose(1, 2).reshape(batch, length, WIDTH))
        y = self.down(functional.gelu(self.up(self.norm2(x))))
        return x + y


class GPT(nn.Module):
    """Predicts the next letter from up to CONTEXT letters."""

    def __init__(self, letters: int) -> None:
        super().__init__()
        self.letters = nn.Embedding(letters, WIDTH)
        self.places = nn.Embedding(CONTEXT, WIDTH)
        self.blocks = nn.Sequential(*(Block() for _ in range(LAYERS)))
        self.norm = nn.LayerNorm(WIDTH)
        self.head = nn.Linear(WIDTH, letters, bias=False)
        self.head.weight = self.letters.weight
        self.apply(self._initialise)

    @staticmethod
    def _initialise(module: nn.Module) -> None:
        if isinstance(module, nn.Linear | nn.Embedding):
            nn.init.normal_(module.weight, std=0.02)
        if isinstance(module, nn.Linear) and module.bias is not None:
            nn.init.zeros_(module.bias)

    def forward(self, tokens: Tensor) -> Tensor:
        """Return the logits of what follows each letter."""
        places = torch.arange(tokens.shape[1], device=tokens.device)
        x = self.letters(tokens) + self.places(places)
        logits: Tensor = self.head(self.norm(self.blocks(x)))
        return logits


class Alphabet:
    """The letters of a text, numbered."""

    def __init__(self, text: str) -> None:
        self.letters = sorted(set(text))
        self._numbers = {letter: n for n, letter in enumerate(self.letters)}

    def encode(self, text: str) -> Tensor:
        """Return the numbers of the letters."""
        return torch.tensor([self._numbers[letter] for letter in text])

    def decode(self, numbers: Tensor) -> str:
        """Return the letters of the numbers."""
        return "".join(self.letters[number] for number in numbers.tolist())


@dataclass
class Training:
    """What one training has shown."""

    device: torch.device
    losses: list[float] = field(default_factory=list)
    seconds: float = 0.0
    sample: str = ""


def batch(text: Tensor, generator: torch.Generator) -> tuple[Tensor, Tensor]:
    """Return pieces of the text, and the letters that follow each of theirs."""
    starts = torch.randint(len(text) - CONTEXT - 1, (BATCH, 1), generator=generator)
    pieces = text[starts + torch.arange(CONTEXT + 1)]
    return pieces[:, :-1], pieces[:, 1:]


def rate(step: int, steps: int) -> float:
    """Return the part of the learning rate: a warm-up, then a cosine to a tenth."""
    if step < WARM_UP:
        return (step + 1) / WARM_UP
    done = (step - WARM_UP) / max(1, steps - WARM_UP)
    return 0.1 + 0.45 * (1 + math.cos(math.pi * done))


@torch.no_grad()
def write(model: GPT, alphabet: Alphabet, device: torch.device, length: int) -> str:
    """Return a text that the model writes; the CPU draws, so all write alike."""
    generator = torch.Generator().manual_seed(1)
    tokens = alphabet.encode("\n").view(1, 1).to(device)
    for _ in range(length):
        logits = model(tokens[:, -CONTEXT:])[:, -1]
        chances = functional.softmax(logits / 0.8, dim=-1).cpu()
        drawn = torch.multinomial(chances, 1, generator=generator)
        tokens = torch.cat([tokens, drawn.to(device)], dim=1)
    return alphabet.decode(tokens[0]).strip()


def train(options: argparse.Namespace, device: torch.device, bar: Progress) -> Training:
    """Train on `device`; the same data and the same start on every device."""
    text = TEXT.read_text()
    alphabet = Alphabet(text)
    tokens = alphabet.encode(text)
    torch.manual_seed(0)
    model = GPT(len(alphabet.letters)).to(device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=RATE, betas=(0.9, 0.99))
    schedule = torch.optim.lr_scheduler.LambdaLR(
        optimizer, lambda step: rate(step, options.steps)
    )
    generator = torch.Generator().manual_seed(0)
    task = bar.add_task(f"training on {device}", total=options.steps)
    result = Training(device)
    losses = []
    start = time.perf_counter()
    for _ in range(options.steps):
        inputs, targets = (t.to(device) for t in batch(tokens, generator))
        logits = model(inputs)
        loss = functional.cross_entropy(logits.flatten(0, 1), targets.flatten())
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        schedule.step()
        losses.append(loss.detach())  # reading it would wait for the device
        bar.advance(task)
    result.losses = torch.stack(losses).tolist()
    result.seconds = time.perf_counter() - start
    result.sample = write(model, alphabet, device, options.sample)
    return result


def plot(trainings: Sequence[Training], path: Path) -> None:
    """Save the losses as a picture."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(7, 4), layout="constrained")
    axes = figure.add_subplot()
    styles = ("-", ":")
    for training, style in zip(trainings, styles, strict=False):
        axes.plot(training.losses, style, label=str(training.device))
    axes.set(xlabel="step", ylabel="loss", title="Sonnets, letter by letter")
    axes.legend()
    figure.savefig(path)


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
    parser.add_argument("--steps", type=int, default=400, help="default: 400")
    parser.add_argument(
        "--sample", type=int, default=300, help="letters to write; default: 300"
    )
    parser.add_argument(
        "--plot", type=Path, help="save the loss as this picture; needs matplotlib"
    )
    parser.add_argument(
        "--no-compare", action="store_true", help="do not train on the CPU as well"
    )
    options = parser.parse_args(arguments)
    if options.steps < 1:
        parser.error("--steps must be at least 1")
    if options.sample < 0:
        parser.error("--sample must not be negative")
    if options.plot is not None:
        try:
            import matplotlib  # noqa: F401
        except ImportError:
            parser.error("--plot needs matplotlib: pip install matplotlib")
    return options


def main(arguments: Sequence[str] | None = None) -> int:
    """Train, show the losses and a sample; fail if the CPU's loss is another one."""
    options = parse(arguments)
    console = Console()
    device: torch.device = options.device
    devices = [device]
    if device.type != "cpu" and not options.no_compare:
        devices.append(torch.device("cpu"))
    columns = ("{task.description}", BarColumn(), MofNCompleteColumn())
    with Progress(
        *columns, TimeElapsedColumn(), console=console, disable=not console.is_terminal
    ) as bar:
        trainings = [train(options, each, bar) for each in devices]

    for training in trainings:
        first, last = training.losses[0], training.losses[-1]
        print(
            f"{training.device}: loss {first:.4f} to {last:.4f} "
            f"in {training.seconds:.1f} s"
        )
    print(f"\n{trainings[0].sample}\n")
    if options.plot is not None:
        plot(trainings, options.plot)
        print(f"The loss is plotted in {options.plot}.")
    if len(trainings) == 1:
        return 0
    ours, host = (training.losses[-1] for training in trainings)
    if not math.isclose(ours, host, rel_tol=TOLERANCE):
        print(f"The losses differ: {ours} and {host}", file=sys.stderr)
        return 1
    print("The device and the CPU have learnt the same.")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
