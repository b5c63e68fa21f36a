"""Subclasses of tensors, modules that move, and the old classes of tensors."""

from collections.abc import Iterator

import pytest
import torch
from compare import DEVICE, assert_same, numbers
from torch.utils._python_dispatch import TorchDispatchMode, return_and_correct_aliasing
from torch.utils._pytree import tree_map_only

Tensor = torch.Tensor


class Noting(Tensor):
    """A subclass that holds another tensor and notes the operators on it."""

    seen: list[str]

    @staticmethod
    def __new__(cls, inner: Tensor):  # noqa: D102
        return Tensor._make_wrapper_subclass(
            cls,
            inner.shape,
            strides=inner.stride(),
            storage_offset=inner.storage_offset(),
            dtype=inner.dtype,
            device=inner.device,
            requires_grad=inner.requires_grad,
        )

    def __init__(self, inner: Tensor) -> None:
        self.inner = inner

    @classmethod
    def __torch_dispatch__(cls, function, types, args=(), kwargs=None):
        Noting.seen.append(str(function))
        plain = tree_map_only(Noting, lambda x: x.inner, (args, kwargs or {}))
        result = function(*plain[0], **plain[1])
        wrapped = tree_map_only(Tensor, Noting, result)
        return return_and_correct_aliasing(function, args, kwargs or {}, wrapped)


class NotingMode(TorchDispatchMode):
    """Notes what reaches the backend."""

    def __init__(self) -> None:
        super().__init__()
        self.seen: list[str] = []

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        self.seen.append(str(function))
        return function(*args, **(kwargs or {}))


class Named(Tensor):
    """A subclass that only has a name; its operators are PyTorch's."""


@pytest.fixture(autouse=True)
def _nothing_seen() -> Iterator[None]:
    Noting.seen = []
    yield
    Noting.seen = []


def test_a_wrapper_runs_its_operators_on_the_device():
    x = numbers(3, 3)
    wrapped = Noting(x.to(DEVICE))
    assert str(wrapped.device) == f"{DEVICE}:0"
    result = (wrapped @ wrapped).relu()
    assert type(result) is Noting
    assert Noting.seen == ["aten.mm.default", "aten.relu.default"]
    assert_same(result.inner, (x @ x).relu())


def test_a_wrapper_learns():
    inner = numbers(3).to(DEVICE)
    wrapped = Noting(inner).requires_grad_()
    (wrapped * wrapped).sum().backward()
    assert type(wrapped.grad) is Noting
    assert_same(wrapped.grad.inner, 2 * numbers(3))


def test_a_wrapper_is_written_in_place_and_viewed():
    wrapped = Noting(torch.zeros(2, 2, device=DEVICE))
    wrapped[0].add_(1)
    assert wrapped.inner.tolist() == [[1.0, 1.0], [0.0, 0.0]]


def test_a_plain_subclass_stays_one():
    x = numbers(3).to(DEVICE).as_subclass(Named)
    assert type(x + 1) is Named
    assert type(x.cpu()) is Named
    assert_same((x + 1).as_subclass(Tensor), numbers(3) + 1)


def test_a_mode_sees_every_operator_once():
    x = torch.ones(3, device=DEVICE)
    with NotingMode() as mode:
        (x + 1).sum()
    assert mode.seen == ["aten.add.Tensor", "aten.sum.default"]


# Modules that move


@pytest.fixture(params=[False, True], ids=["set_data", "swap"])
def swap(request: pytest.FixtureRequest) -> Iterator[bool]:
    """Both ways in which a module changes its parameters."""
    future = torch.__future__
    before = future.get_swap_module_params_on_conversion()
    future.set_swap_module_params_on_conversion(request.param)
    yield request.param
    future.set_swap_module_params_on_conversion(before)


def test_a_module_keeps_its_parameters_when_it_moves(swap: bool):
    module = torch.nn.BatchNorm1d(3)
    weight, name = module.weight, id(module.weight)
    optimizer = torch.optim.SGD(module.parameters(), lr=1.0)
    module.to(DEVICE)
    assert id(module.weight) == name
    assert weight is module.weight
    assert {str(t.device) for t in module.state_dict().values()} == {f"{DEVICE}:0"}
    module(torch.ones(4, 3, device=DEVICE)).sum().backward()
    optimizer.step()
    module.to(f"{DEVICE}:1").half().cpu()
    assert weight is module.weight
    assert (weight.device.type, weight.dtype) == ("cpu", torch.float16)


def test_gradients_move_with_their_parameters(swap: bool):
    module = torch.nn.Linear(2, 2)
    module(torch.ones(1, 2)).sum().backward()
    module.to(DEVICE)
    assert module.weight.grad is not None
    assert_same(module.weight.grad, torch.ones(2, 2))


def test_a_module_with_shared_weights_moves(swap: bool):
    module = torch.nn.ModuleList([torch.nn.Linear(2, 2, bias=False) for _ in range(2)])
    module[1].weight = module[0].weight
    module.to(DEVICE)
    assert module[1].weight is module[0].weight
    assert module[0].weight.is_openreg


def test_a_module_loads_a_state_onto_the_device(swap: bool):
    state = torch.nn.Linear(2, 2).state_dict()
    module = torch.nn.Linear(2, 2).to(DEVICE)
    module.load_state_dict(state)
    assert_same(module.weight.detach(), state["weight"])
    with torch.device("meta"):
        module = torch.nn.Linear(2, 2)
    moved = {name: value.to(DEVICE) for name, value in state.items()}
    module.load_state_dict(moved, assign=True)
    assert_same(module.weight.detach(), state["weight"])


def test_a_gradient_of_another_device_is_refused():
    parameter = torch.nn.Parameter(torch.ones(2, device=DEVICE))
    with pytest.raises(RuntimeError, match="device"):
        parameter.grad = torch.ones(2)
    with pytest.raises(RuntimeError):
        torch.ones(2).set_(parameter.data.untyped_storage())


# The old classes


DTYPES = {
    "BFloat16Tensor": torch.bfloat16,
    "BoolTensor": torch.bool,
    "ByteTensor": torch.uint8,
    "CharTensor": torch.int8,
    "DoubleTensor": torch.float64,
    "FloatTensor": torch.float32,
    "HalfTensor": torch.float16,
    "IntTensor": torch.int32,
    "LongTensor": torch.int64,
    "ShortTensor": torch.int16,
}


@pytest.mark.parametrize("name", DTYPES)
def test_old_classes_make_tensors_and_know_them(name: str):
    type_ = getattr(torch.openreg, name)
    x = type_([1, 0])
    assert x.tolist() == [1, 0]
    assert x.type() == f"torch.openreg.{name}"
    assert x.dtype == DTYPES[name] == type_.dtype
    assert isinstance(x, type_)
    assert not isinstance(x.cpu(), type_)
    assert type_(2, 3).shape == (2, 3)
    assert torch.ones(2).type(type_).type() == x.type()
    assert torch.ones(2).type(x.type()).device.type == DEVICE


def test_old_classes_refuse_other_devices():
    assert str(torch.openreg.FloatTensor(2, device=f"{DEVICE}:1").device) == "openreg:1"
    with pytest.raises(RuntimeError, match="expects device type: openreg"):
        torch.openreg.FloatTensor(2, device="cpu")
    assert not isinstance(3, torch.openreg.FloatTensor)
