"""Work that is new to the process, and what it takes: processor time, host memory.

Nothing runs when this is imported. What counts is the processor time of all threads
and, where devices are isolated, of the device's process: what a device leaves to other
threads is not free. Everything operator-specific is cold, the start of the device is
not counted.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from itertools import count
from pathlib import Path

import torch
from first_operators import OPERATORS, Inputs, clip_grad_norm
from models import MODELS, TOKENS, Attention, Block, Gpt, adamw, cross_entropy
from models import Training as ModelTraining
from processor_time import Stopwatch, synchronize
from timing import Comparison, in_turns
from torch import Tensor
from torch.nn import functional

CPU = torch.device("cpu")
CALLS = 12  # of an operator, in a sample
PROMPT = 8
CHUNK = 16  # tokens that a sample generates
SHORTEST = 16  # length of a sequence
LONGEST = 192
GIB = 1 << 30


def cost_of(actions: Callable[[], object], device: torch.device) -> float:
    """Return the processor time of `actions`, in nanoseconds."""
    stopwatch = Stopwatch(device)
    actions()
    return stopwatch.stop()


def begin(device: torch.device) -> None:
    """Start both devices, so that no start is measured."""
    for each in (device, CPU):
        torch.ones(2, device=each).add(1)
        synchronize(each)


def first_step(name: str, device: torch.device) -> float:
    """Return what the first training step of a model takes in this process."""
    training = ModelTraining(MODELS[name], device)
    return cost_of(training.step, device)


def first_clip(device: torch.device) -> float:
    """Return what the first `clip_grad_norm_` takes in this process."""
    return cost_of(clip_grad_norm(Inputs(device), 0), device)


def compare_operator(name: str, device: torch.device, repetitions: int) -> Comparison:
    """Compare calls of an operator, each of a kind that was not seen before.

    Nor by the other side: oneDNN keeps what it has prepared for a shape.
    """
    ours = operator_sampler(name, device, count(0, 2))
    return in_turns(repetitions, ours, operator_sampler(name, CPU, count(1, 2)))


def operator_sampler(
    name: str, device: torch.device, kinds: Iterator[int]
) -> Callable[[], float]:
    """Return what measures the next `CALLS` kinds of an operator."""
    inputs = Inputs(device)

    def sample() -> float:
        calls = [OPERATORS[name](inputs, next(kinds)) for _ in range(CALLS)]

        def run() -> None:
            for call in calls:
                call()

        return cost_of(run, device) / CALLS

    return sample


class Generation:
    """Writes a text, a token at a time, with a cache that `torch.cat` makes longer."""

    def __init__(self, device: torch.device) -> None:
        torch.manual_seed(0)
        self.network = Gpt(time=LONGEST).to(device)
        self.device = device
        self.length = 0
        self.tokens = torch.randint(TOKENS, (1, PROMPT)).to(device)
        self._cache: dict[Attention, tuple[Tensor, Tensor]] = {}

    def sample(self) -> float:
        """Return what each of the next tokens takes."""
        return cost_of(self._write, self.device) / CHUNK

    @torch.inference_mode()
    def _write(self) -> None:
        for _ in range(CHUNK):
            logits = self._forward(self.tokens[:, self.length :])
            following = logits[:, -1].argmax(-1, keepdim=True)
            self.tokens = torch.cat([self.tokens, following], 1)

    def _forward(self, tokens: Tensor) -> Tensor:
        """Return the logits of tokens that come after those in the cache."""
        end = self.length + tokens.shape[1]
        positions = torch.arange(self.length, end, device=self.device)
        x = self.network.tokens(tokens) + self.network.positions(positions)
        for block in self.network.blocks:
            assert isinstance(block, Block)
            x = x + self._attend(block.attention, block.attention_norm(x))
            x = x + block.feed_forward(x)
        self.length = end
        logits: Tensor = self.network.head(self.network.norm(x))
        return logits

    def _attend(self, attention: Attention, x: Tensor) -> Tensor:
        """Mix new positions with all before them."""
        shape = (1, x.shape[1], attention.heads, -1)
        q, k, v = (
            part.view(shape).transpose(1, 2)
            for part in attention.inputs(x).chunk(3, -1)
        )
        if attention in self._cache:
            k, v = (
                torch.cat([old, new], 2)
                for old, new in zip(self._cache[attention], (k, v), strict=True)
            )
        self._cache[attention] = k, v
        mixed = functional.scaled_dot_product_attention(
            q, k, v, is_causal=x.shape[1] > 1
        )
        result: Tensor = attention.output(mixed.transpose(1, 2).reshape(x.shape))
        return result


def compare_generation(device: torch.device, repetitions: int) -> Comparison:
    """Compare tokens of a growing text; the first ones are not counted."""
    return in_turns(repetitions, Generation(device).sample, Generation(CPU).sample)


class Training:
    """Trains the small GPT with a batch of another length at every step."""

    def __init__(self, device: torch.device) -> None:
        torch.manual_seed(0)
        self.network = Gpt(time=LONGEST).to(device)
        self.optimizer = adamw(self.network.parameters())
        self.device = device
        self._lengths: Iterator[int] = iter(
            (SHORTEST + torch.randperm(LONGEST - SHORTEST)).tolist()
        )

    def sample(self) -> float:
        """Return what the next step takes."""
        tokens = torch.randint(TOKENS, (4, next(self._lengths) + 1)).to(self.device)
        return cost_of(partial(self._step, tokens[:, :-1], tokens[:, 1:]), self.device)

    def _step(self, inputs: Tensor, targets: Tensor) -> None:
        self.optimizer.zero_grad()
        cross_entropy(self.network(inputs), targets).backward()
        self.optimizer.step()


def compare_lengths(device: torch.device, repetitions: int) -> Comparison:
    """Compare training steps of new lengths; the first one is not counted."""
    return in_turns(repetitions, Training(device).sample, Training(CPU).sample)


def peak_of(action: Callable[[], object], device: torch.device) -> int:
    """Return the largest resident memory of this process while `action` runs.

    The kernel starts to look for the largest anew when 5 is written to `clear_refs`.
    """
    synchronize(device)
    Path("/proc/self/clear_refs").write_text("5", encoding="ascii")
    action()
    synchronize(device)
    status = Path("/proc/self/status").read_text(encoding="ascii")
    line = next(line for line in status.splitlines() if line.startswith("VmHWM:"))
    return int(line.split()[1]) << 10


def large_where(x: Tensor) -> Callable[[], object]:
    """Choose between a tensor and itself."""
    return partial(torch.where, x > 1, x, x)


def large_index_select(x: Tensor) -> Callable[[], object]:
    """Pick every row of 1024."""
    rows = x.view(-1, 1024)
    return partial(torch.index_select, rows, 0, torch.arange(len(rows)).to(x.device))


def large_conv(x: Tensor) -> Callable[[], object]:
    """Convolve images of 1024x1024 with 16 channels."""
    weight = torch.ones(16, 16, 1, 1).to(x.device)
    return partial(functional.conv2d, x.view(-1, 16, 1024, 1024), weight)


def large_norm(x: Tensor) -> Callable[[], object]:
    """Normalize rows of 1024."""
    return partial(functional.layer_norm, x.view(-1, 1024), (1024,))


def large_norm_backward(x: Tensor) -> Callable[[], object]:
    """Go back through that."""
    rows = x.view(-1, 1024).requires_grad_()
    output = functional.layer_norm(rows, (1024,))
    return partial(
        torch.autograd.grad, output, rows, torch.ones_like(output), retain_graph=True
    )


# What is called for a tensor of 1 GiB; everything that it needs exists before.
LARGE: dict[str, Callable[[Tensor], Callable[[], object]]] = {
    "add": lambda x: partial(torch.add, x, x),
    "relu": lambda x: partial(torch.relu, x),
    "softmax": lambda x: partial(torch.softmax, x.view(-1, 1024), -1),
    "where": large_where,
    "index_select": large_index_select,
    "layer_norm": large_norm,
    "layer_norm_backward": large_norm_backward,
    "conv2d": large_conv,
}


def peaks(name: str, device: torch.device, size: int = GIB) -> tuple[int, int]:
    """Return the peak of the host's memory during a first call and during a later one.

    The device's memory is in it, too, where the device is not isolated. Both calls find
    the same inputs, and the memory of their output in the device's cache: it is
    resident. What the host needs before the output is written would not show otherwise.
    """
    x = torch.full((size // 4,), 0.5, device=device)
    action = LARGE[name](x)
    torch.ones_like(x)
    first = peak_of(action, device)
    peak_of(action, device)
    return first, peak_of(action, device)
