"""The networks that the benchmarks and the tests train.

Small, without dropout, and the same for the same seed on every device: data and
weights are drawn on the CPU and moved. Every task is a classification that the
network can learn.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional

Batch = tuple[Tensor, Tensor]

CLASSES = 10
TOKENS = 128  # size of the vocabulary


class Lstm(nn.Module):
    """Reads tokens and classifies by its last state."""

    def __init__(self, hidden: int = 128) -> None:
        super().__init__()
        self.embedding = nn.Embedding(TOKENS, hidden)
        self.lstm = nn.LSTM(hidden, hidden, batch_first=True)
        self.head = nn.Linear(hidden, CLASSES)

    def forward(self, tokens: Tensor) -> Tensor:
        """Return the logits: (batch, time) to (batch, classes)."""
        states, _ = self.lstm(self.embedding(tokens))
        logits: Tensor = self.head(states[:, -1])
        return logits


class Attention(nn.Module):
    """Causal self-attention with several heads."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.inputs = nn.Linear(width, 3 * width)
        self.output = nn.Linear(width, width)

    def forward(self, x: Tensor) -> Tensor:
        """Mix each position with those before it."""
        batch, time, width = x.shape
        shape = (batch, time, self.heads, width // self.heads)
        q, k, v = (
            part.view(shape).transpose(1, 2) for part in self.inputs(x).chunk(3, -1)
        )
        mixed = functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        result: Tensor = self.output(mixed.transpose(1, 2).reshape(x.shape))
        return result


class Block(nn.Module):
    """A layer of a Transformer, with the norms in front."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.attention_norm = nn.LayerNorm(width)
        self.attention = Attention(width, heads)
        self.feed_forward = nn.Sequential(
            nn.LayerNorm(width),
            nn.Linear(width, 4 * width),
            nn.GELU(),
            nn.Linear(4 * width, width),
        )

    def forward(self, x: Tensor) -> Tensor:
        """Add what the attention and the feed-forward network find."""
        x = x + self.attention(self.attention_norm(x))
        result: Tensor = x + self.feed_forward(x)
        return result


class Gpt(nn.Module):
    """A small Transformer that predicts the next token."""

    def __init__(
        self, layers: int = 4, width: int = 128, heads: int = 4, time: int = 64
    ) -> None:
        super().__init__()
        self.tokens = nn.Embedding(TOKENS, width)
        self.positions = nn.Embedding(time, width)
        self.blocks = nn.Sequential(*(Block(width, heads) for _ in range(layers)))
        self.norm = nn.LayerNorm(width)
        self.head = nn.Linear(width, TOKENS, bias=False)

    def forward(self, tokens: Tensor) -> Tensor:
        """Return the logits: (batch, time) to (batch, time, vocabulary)."""
        positions = torch.arange(tokens.shape[1], device=tokens.device)
        x = self.tokens(tokens) + self.positions(positions)
        logits: Tensor = self.head(self.norm(self.blocks(x)))
        return logits


class Residual(nn.Module):
    """Two convolutions, and a way around them."""

    def __init__(self, inputs: int, outputs: int, stride: int) -> None:
        super().__init__()
        self.body = nn.Sequential(
            nn.Conv2d(inputs, outputs, 3, stride, padding=1, bias=False),
            nn.BatchNorm2d(outputs),
            nn.ReLU(),
            nn.Conv2d(outputs, outputs, 3, padding=1, bias=False),
            nn.BatchNorm2d(outputs),
        )
        self.around: nn.Module = nn.Identity()
        if stride != 1 or inputs != outputs:
            self.around = nn.Sequential(
                nn.Conv2d(inputs, outputs, 1, stride, bias=False),
                nn.BatchNorm2d(outputs),
            )

    def forward(self, x: Tensor) -> Tensor:
        """Add both ways."""
        return functional.relu(self.body(x) + self.around(x))


def mlp() -> nn.Module:
    """Return a network of linear layers."""
    return nn.Sequential(
        nn.Linear(784, 256),
        nn.ReLU(),
        nn.Linear(256, 256),
        nn.ReLU(),
        nn.Linear(256, CLASSES),
    )


def cnn() -> nn.Module:
    """Return convolutions and pooling, then linear layers."""
    return nn.Sequential(
        nn.Conv2d(3, 16, 3, padding=1),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Conv2d(16, 32, 3, padding=1),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Flatten(),
        nn.Linear(32 * 8 * 8, 128),
        nn.ReLU(),
        nn.Linear(128, CLASSES),
    )


def resnet() -> nn.Module:
    """Return a residual network with batch norms."""
    return nn.Sequential(
        nn.Conv2d(3, 16, 3, padding=1, bias=False),
        nn.BatchNorm2d(16),
        nn.ReLU(),
        Residual(16, 16, stride=1),
        Residual(16, 32, stride=2),
        Residual(32, 64, stride=2),
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
        nn.Linear(64, CLASSES),
    )


def vectors(generator: torch.Generator) -> Batch:
    """Return vectors; the class is the largest of the first numbers."""
    inputs = torch.randn(64, 784, generator=generator)
    return inputs, inputs[:, :CLASSES].argmax(dim=1)


def images(generator: torch.Generator) -> Batch:
    """Return noise in three colours; the class is the row that is bright."""
    targets = torch.randint(CLASSES, (16,), generator=generator)
    inputs = torch.randn(16, 3, 32, 32, generator=generator)
    inputs[torch.arange(16), :, targets] += 1.0
    return inputs, targets


def words(generator: torch.Generator) -> Batch:
    """Return tokens; the last one decides the class."""
    inputs = torch.randint(TOKENS, (32, 32), generator=generator)
    return inputs, inputs[:, -1] % CLASSES


def sentences(generator: torch.Generator) -> Batch:
    """Return tokens that count up in steps; each position predicts the next."""
    start = torch.randint(TOKENS, (8, 1), generator=generator)
    step = torch.randint(1, 5, (8, 1), generator=generator)
    tokens = (start + step * torch.arange(65)) % TOKENS
    return tokens[:, :-1].contiguous(), tokens[:, 1:].contiguous()


def cross_entropy(outputs: Tensor, targets: Tensor) -> Tensor:
    """Return the mean loss over everything that is predicted."""
    return functional.cross_entropy(outputs.flatten(0, -2), targets.flatten())


def adamw(parameters: Iterable[nn.Parameter]) -> torch.optim.Optimizer:
    """Return the optimizer with its default arguments."""
    return torch.optim.AdamW(parameters)


def sgd(parameters: Iterable[nn.Parameter]) -> torch.optim.Optimizer:
    """Return gradient descent with momentum."""
    return torch.optim.SGD(parameters, lr=0.02, momentum=0.9)


@dataclass(frozen=True)
class Model:
    """A network with its data and the way it is trained."""

    title: str
    make: Callable[[], nn.Module]
    batch: Callable[[torch.Generator], Batch]
    optimizer: Callable[[Iterable[nn.Parameter]], torch.optim.Optimizer]
    loss: Callable[[Tensor, Tensor], Tensor] = cross_entropy

    def build(self, seed: int = 0) -> nn.Module:
        """Return the network on the CPU; the generators are left as they were."""
        with torch.random.fork_rng(devices=[]):
            torch.default_generator.manual_seed(seed)
            return self.make()


MODELS = {
    "mlp": Model("MLP", mlp, vectors, adamw),
    "cnn": Model("CNN", cnn, images, sgd),
    "gpt": Model("small GPT", Gpt, sentences, adamw),
    "lstm": Model("LSTM", Lstm, words, adamw),
    "resnet": Model("ResNet-like", resnet, images, sgd),
}


class Training:
    """A model in training on a device, always with the batch it began with."""

    def __init__(self, model: Model, device: torch.device, seed: int = 0) -> None:
        generator = torch.Generator().manual_seed(seed)
        self.inputs, self.targets = (part.to(device) for part in model.batch(generator))
        self.network = model.build(seed).to(device)
        self.optimizer = model.optimizer(self.network.parameters())
        self._loss = model.loss

    def step(self) -> Tensor:
        """Train for one step; return the loss before it, still on the device."""
        self.optimizer.zero_grad()
        loss = self._loss(self.network(self.inputs), self.targets)
        loss.backward()
        self.optimizer.step()
        return loss.detach()
