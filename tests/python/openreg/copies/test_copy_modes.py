"""Copies inside of PyTorch's modes: each sees one operator, none gets inside."""

import pytest
import torch
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.utils._python_dispatch import TorchDispatchMode

DIRECTIONS = [
    ("cpu", "openreg:0"),
    ("openreg:1", "cpu"),
    ("openreg:1", "openreg:1"),
    ("openreg:0", "openreg:1"),
]
directions = pytest.mark.parametrize(("source", "target"), DIRECTIONS)


def matrix(device):
    """One whose transposed copy makes the CPU allocate."""
    return torch.arange(10_000.0, device=device).view(100, 100)


def copied(source, target):
    """A copy that needs every step there is: other strides, another dtype."""
    return torch.zeros(100, 100, dtype=torch.float64, device=target).copy_(
        matrix(source).t()
    )


EXPECTED = matrix("cpu").t().double()


class Log(TorchDispatchMode):
    """Keeps the names of the operators that it sees."""

    def __init__(self):
        super().__init__()
        self.seen = []

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        self.seen.append(str(func))
        return func(*args, **(kwargs or {}))


@directions
def test_dispatch_mode_sees_one_copy(source, target):
    x, y = matrix(source).t(), torch.zeros(100, 100, device=target)
    with Log() as log:
        y.copy_(x)
    torch.openreg.synchronize(0)
    assert log.seen == ["aten.copy_.default"]
    assert torch.equal(y.cpu().double(), EXPECTED)


@directions
@pytest.mark.parametrize(
    "mode",
    [
        torch.no_grad,
        torch.inference_mode,
        lambda: torch.autocast("cpu", dtype=torch.bfloat16),
        lambda: torch.device("openreg:1"),
        lambda: torch.autograd.profiler.profile(use_kineto=False),
    ],
    ids=["no_grad", "inference", "autocast", "device", "profiler"],
)
def test_copy_is_the_same_in_every_mode(source, target, mode):
    with mode():
        found = copied(source, target)
    assert found.dtype == torch.float64
    assert torch.equal(found.cpu(), EXPECTED)


def test_profiler_sees_the_copy_and_nothing_inside():
    x, y = matrix("openreg").t(), torch.zeros(100, 100, device="openreg")
    with torch.autograd.profiler.profile(use_kineto=False) as profile:
        y.copy_(x)
    torch.openreg.synchronize()
    assert {event.name for event in profile.function_events} == {"aten::copy_"}


def test_default_dtype_does_not_change_a_copy():
    torch.set_default_dtype(torch.float64)
    try:
        assert torch.ones(2, dtype=torch.half).to("openreg").dtype == torch.half
    finally:
        torch.set_default_dtype(torch.float32)


@directions
def test_copy_is_mapped_by_vmap(source, target):
    x = matrix(source)
    found = torch.vmap(lambda row: row.to(target))(x)
    assert str(found.device) == target
    assert torch.equal(found.cpu(), x.cpu())


# PyTorch's own limit: its engine cannot follow such tensors from device to device.
@pytest.mark.parametrize(("source", "target"), DIRECTIONS[:3])
def test_copy_is_transformed_by_func_grad(source, target):
    x = torch.ones(3, device=source)
    gradient = torch.func.grad(lambda value: (value.to(target) * 2).sum())(x)
    assert str(gradient.device) == source
    assert gradient.tolist() == [2.0] * 3


@directions
def test_copy_keeps_forward_mode_tangents(source, target):
    with torch.autograd.forward_ad.dual_level():
        dual = torch.autograd.forward_ad.make_dual(
            torch.ones(3, device=source), torch.full((3,), 2.0, device=source)
        )
        primal, tangent = torch.autograd.forward_ad.unpack_dual(dual.to(target))
        assert primal.tolist() == [1.0] * 3
        assert tangent.tolist() == [2.0] * 3
        assert str(tangent.device) == target


@directions
def test_copy_is_functionalized(source, target):
    def write(x):
        y = torch.zeros(3, device=target)
        y.copy_(x)
        return y

    x = torch.arange(3.0, device=source)
    assert torch.func.functionalize(write)(x).tolist() == [0.0, 1.0, 2.0]


@directions
def test_fake_tensors_follow_the_copy(source, target):
    with FakeTensorMode():
        x = torch.empty(2, 3, device=source)
        moved = x.to(target)
        assert str(moved.device) == target
        assert moved.shape == (2, 3)
        y = torch.empty(2, 3, device=target).copy_(x)
        assert str(y.device) == target


def test_deterministic_mode_does_not_change_a_copy():
    torch.use_deterministic_algorithms(True)
    try:
        assert torch.equal(copied("openreg:0", "openreg:1").cpu(), EXPECTED)
    finally:
        torch.use_deterministic_algorithms(False)
