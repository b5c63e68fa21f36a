"""Operators are queued and return; only what needs their results waits."""

from collections.abc import Callable

import pytest
import torch
from compare import DEVICE, assert_same, numbers, to_device
from network import make_network
from torch.nn import functional

Tensor = torch.Tensor


pytestmark = pytest.mark.usefixtures("one_thread")


def launches() -> int:
    return torch.openreg.engine_stats()["launches"]


def synchronous_runs() -> int:
    return torch.openreg.engine_stats()["synchronous_runs"]


# A call never seen before is queued as well: sizes that no other test has.

X = numbers(7, 13)
IMAGE = numbers(2, 3, 11, 13)
COLD: dict[str, tuple[Callable[..., object], tuple[object, ...]]] = {
    "add": (torch.add, (X, X)),
    "add a number": (torch.add, (X, 2.5)),
    "sub": (torch.sub, (X, X.flip(0))),
    "mul": (torch.mul, (X, X)),
    "div": (torch.div, (X, X)),
    "neg": (torch.neg, (X,)),
    "exp": (torch.exp, (X,)),
    "relu": (torch.relu, (X,)),
    "gelu": (functional.gelu, (X,)),
    "sigmoid": (torch.sigmoid, (X,)),
    "where": (torch.where, (X > 0, X, -X)),
    "comparison": (torch.lt, (X, 0.5)),
    "clamp": (torch.clamp, (X, -1.0, 1.0)),
    "matmul": (torch.matmul, (X, X.t())),
    "matmul of a batch": (torch.matmul, (numbers(3, 4, 5), numbers(3, 5, 6))),
    "linear": (functional.linear, (X, numbers(5, 13), numbers(5))),
    "addmm": (torch.addmm, (numbers(5), X, numbers(13, 5))),
    "softmax": (functional.softmax, (X, -1)),
    "log_softmax": (functional.log_softmax, (X, -1)),
    "layer_norm": (functional.layer_norm, (X, (13,), numbers(13), numbers(13))),
    "batch_norm": (
        functional.batch_norm,
        (IMAGE, numbers(3), numbers(3).abs(), numbers(3), numbers(3), True),
    ),
    "conv2d": (functional.conv2d, (IMAGE, numbers(4, 3, 3, 3), numbers(4))),
    "conv2d without bias": (functional.conv2d, (IMAGE, numbers(4, 3, 3, 3))),
    "conv_transpose2d": (functional.conv_transpose2d, (IMAGE, numbers(3, 4, 3, 3))),
    "max_pool2d": (functional.max_pool2d, (IMAGE, 2)),
    "avg_pool2d": (functional.avg_pool2d, (IMAGE, 2)),
    "adaptive_avg_pool2d": (functional.adaptive_avg_pool2d, (IMAGE, 2)),
    "interpolate": (functional.interpolate, (IMAGE, 19)),
    "sum": (torch.sum, (X,)),
    "mean of a dimension": (torch.mean, (X, 0)),
    "max of a dimension": (torch.max, (X, 1)),
    "argmax": (torch.argmax, (X, 1)),
    "cumsum": (torch.cumsum, (X, 1)),
    "sort": (torch.sort, (X,)),
    "topk": (torch.topk, (X, 3)),
    "cat": (torch.cat, ([X, X],)),
    "stack": (torch.stack, ([X, X],)),
    "gather": (torch.gather, (X, 1, torch.zeros(7, 2, dtype=torch.long))),
    "index_select": (torch.index_select, (X, 0, torch.tensor([1, 3]))),
    "index": (lambda x, index: x[index], (X, torch.tensor([1, 3]))),
    "embedding": (functional.embedding, (torch.tensor([[1, 2], [0, 1]]), X)),
    "cross_entropy": (functional.cross_entropy, (X, torch.arange(7))),
    "mse_loss": (functional.mse_loss, (X, X + 1)),
    "attention": (
        functional.scaled_dot_product_attention,
        (numbers(2, 2, 5, 8), numbers(2, 2, 5, 8), numbers(2, 2, 5, 8)),
    ),
    "tril": (torch.tril, (X,)),
    "roll": (torch.roll, (X, 2, 1)),
    "foreach": (torch._foreach_add, ([X, X.t()], 1.0)),
    "norm": (torch.linalg.vector_norm, (X,)),
    "clone": (torch.clone, (X,)),
    "conversion": (lambda x: x.to(torch.float64), (X,)),
}


@pytest.mark.parametrize("name", COLD)
def test_an_operator_behind_a_held_stream_returns_and_has_not_run(gate, watch, name):
    operator, arguments = COLD[name]
    # Clones: batch_norm writes to two of them.
    ours = to_device([x.clone() if isinstance(x, Tensor) else x for x in arguments])
    gate.hold()
    results: list[object] = []
    assert watch.returns(lambda: results.append(operator(*ours)))
    assert not torch.accelerator.current_stream().query()
    gate.open()
    assert_same(results[0], operator(*arguments))


@pytest.mark.parametrize("size", [1, 1000, 2_000_000])
def test_operators_on_tensors_of_every_size_are_queued(gate, watch, size):
    x = torch.ones(size, device=DEVICE)
    gate.hold()
    results: list[Tensor] = []

    def work() -> None:
        y = x
        for _ in range(20):
            y = y * 2 + 1
        results.append(y)

    assert watch.returns(work)
    assert not torch.accelerator.current_stream().query()
    gate.open()
    y = results[0]
    assert y.min().item() == y.max().item() == 2.0**21 - 1


def test_an_operator_behind_a_held_stream_does_not_write_yet(gate, second_gate):
    """Another stream reads what the held one is about to write."""
    x = torch.zeros(4, device=DEVICE)
    side = torch.Stream(DEVICE)
    gate.hold()
    for _ in range(10):
        x.add_(1)
    with torch.openreg.stream(side):
        assert x.tolist() == [0.0] * 4
    gate.open()
    assert x.tolist() == [10.0] * 4


# A thousand operators


class Trainer:
    """A network in training, the same on every device."""

    def __init__(self, device: str) -> None:
        self.network = make_network().to(device)
        self.optimizer = torch.optim.AdamW(self.network.parameters())
        self.inputs = numbers(6, 1, 8, 8).to(device)
        self.targets = torch.tensor([0, 1, 2, 3, 4, 0], device=device)

    def step(self) -> Tensor:
        """Train for one step; return the loss before it."""
        self.optimizer.zero_grad()
        loss = functional.cross_entropy(self.network(self.inputs), self.targets)
        loss.backward()
        self.optimizer.step()
        return loss.detach()


def test_a_thousand_operators_of_training_are_queued_and_none_has_run(gate, watch):
    ours, theirs = Trainer(DEVICE), Trainer("cpu")
    losses = [ours.step()]
    torch.openreg.synchronize()
    weight = ours.network[0].weight.detach()
    before = weight.cpu()
    side = torch.Stream(DEVICE)
    gate.hold()
    first, waited = launches(), synchronous_runs()

    def train() -> None:
        while launches() < first + 1000:
            losses.append(ours.step())

    assert watch.returns(train)
    assert synchronous_runs() == waited
    assert not torch.accelerator.current_stream().query()
    with torch.openreg.stream(side):
        assert torch.equal(weight.to("cpu"), before)
    gate.open()
    expected = [theirs.step().item() for _ in losses]
    assert [loss.item() for loss in losses] == expected
    assert_same(
        list(ours.network.state_dict().values()),
        list(theirs.network.state_dict().values()),
    )


def test_a_thousand_operators_without_a_gradient_are_queued_cold(gate, watch):
    """Each is of another size, so nothing is known from an earlier call."""
    rows = numbers(1200, 3)
    ours = rows.to(DEVICE)
    gate.hold()
    results: list[Tensor] = []

    def work() -> None:
        for size in range(100, 1100):
            results.append(torch.softmax(ours[:size], 0).sum())

    before = launches()
    assert watch.returns(work)
    assert launches() >= before + 2000
    assert not torch.accelerator.current_stream().query()
    gate.open()
    expected = [torch.softmax(rows[:n], 0).sum() for n in range(100, 1100)]
    assert torch.equal(torch.stack(results).cpu(), torch.stack(expected))
