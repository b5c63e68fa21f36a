"""Under autocast the numbers are those of the CPU, cast by hand before the call."""

from collections.abc import Callable

import pytest
import torch
from compare import DEVICE, assert_same, numbers, to_device
from torch.nn import functional
from torch.utils._pytree import tree_map_only

Operator = Callable[..., object]
pytestmark = pytest.mark.usefixtures("one_thread")

INDEX = torch.tensor([1, 0, 3])
IMAGE = numbers(2, 3, 6, 6)

LOW: dict[str, tuple[Operator, tuple[object, ...]]] = {
    "mm": (torch.mm, (numbers(4, 5), numbers(5, 6))),
    "matmul": (torch.matmul, (numbers(2, 4, 5), numbers(5, 6))),
    "mv": (torch.mv, (numbers(4, 5), numbers(5))),
    "bmm": (torch.bmm, (numbers(2, 4, 5), numbers(2, 5, 6))),
    "addmm": (torch.addmm, (numbers(4, 6), numbers(4, 5), numbers(5, 6))),
    "addmv": (torch.addmv, (numbers(4), numbers(4, 5), numbers(5))),
    "addr": (torch.addr, (numbers(4, 5), numbers(4), numbers(5))),
    "baddbmm": (
        torch.baddbmm,
        (numbers(2, 4, 6), numbers(2, 4, 5), numbers(2, 5, 6)),
    ),
    "linear": (functional.linear, (numbers(4, 5), numbers(6, 5), numbers(6))),
    "einsum": (torch.einsum, ("ij,jk->ik", numbers(4, 5), numbers(5, 6))),
    "conv1d": (functional.conv1d, (numbers(2, 3, 8), numbers(4, 3, 3), numbers(4))),
    "conv2d": (functional.conv2d, (IMAGE, numbers(4, 3, 3, 3), numbers(4))),
    "conv_transpose2d": (functional.conv_transpose2d, (IMAGE, numbers(3, 4, 3, 3))),
    "prelu": (functional.prelu, (numbers(4, 5), numbers(1))),
    "multi_dot": (
        torch.linalg.multi_dot,
        ([numbers(4, 5), numbers(5, 6), numbers(6, 3)],),
    ),
    "attention": (
        functional.scaled_dot_product_attention,
        (numbers(1, 2, 8, 16), numbers(1, 2, 8, 16), numbers(1, 2, 8, 16)),
    ),
}

WIDE: dict[str, tuple[Operator, tuple[object, ...]]] = {
    "exp": (torch.exp, (numbers(4, 5),)),
    "log1p": (torch.log1p, (numbers(4, 5).abs(),)),
    "reciprocal": (torch.reciprocal, (numbers(4, 5),)),
    "pow": (torch.pow, (numbers(4, 5).abs(), 1.5)),
    "pow of tensors": (torch.pow, (numbers(4, 5).abs(), numbers(4, 5))),
    "softplus": (functional.softplus, (numbers(4, 5),)),
    "layer_norm": (
        functional.layer_norm,
        (numbers(4, 5), (5,), numbers(5), numbers(5)),
    ),
    "group_norm": (functional.group_norm, (IMAGE, 3)),
    "cosine_similarity": (
        functional.cosine_similarity,
        (numbers(4, 5), numbers(4, 5) + 1),
    ),
    "nll_loss": (functional.nll_loss, (numbers(3, 5), INDEX)),
    "mse_loss": (functional.mse_loss, (numbers(4, 5), numbers(4, 5) + 1)),
    "kl_div": (
        lambda x, y: functional.kl_div(x, y, reduction="sum"),
        (numbers(4, 5), numbers(4, 5).abs()),
    ),
    "cdist": (torch.cdist, (numbers(4, 5), numbers(3, 5) + 1)),
    "logsumexp": (torch.logsumexp, (numbers(4, 5), 1)),
    "softmax": (torch.softmax, (numbers(4, 5), 1)),
    "cumsum": (torch.cumsum, (numbers(4, 5), 1)),
    "prod": (torch.prod, (numbers(4, 5),)),
    "sum": (torch.sum, (numbers(4, 5), 1)),
    "norm": (torch.norm, (numbers(4, 5),)),
    "norm of rows": (torch.norm, (numbers(4, 5), 2, 1)),
    "vector_norm": (torch.linalg.vector_norm, (numbers(4, 5),)),
    "upsample": (
        lambda x: functional.interpolate(x, scale_factor=2, mode="bilinear"),
        (IMAGE,),
    ),
}

PROMOTED: dict[str, tuple[Operator, tuple[object, ...]]] = {
    "addcmul": (torch.addcmul, (numbers(4, 5), numbers(4, 5), numbers(4, 5))),
    "atan2": (torch.atan2, (numbers(4, 5), numbers(4, 5) + 1)),
    "bilinear": (functional.bilinear, (numbers(4, 5), numbers(4, 6), numbers(3, 5, 6))),
    "cross": (torch.cross, (numbers(4, 3), numbers(4, 3) + 1, 1)),
    "dot": (torch.dot, (numbers(5), numbers(5) + 1)),
    "tensordot": (torch.tensordot, (numbers(4, 5), numbers(5, 6), 1)),
    "scatter_add": (
        torch.scatter_add,
        (numbers(4), 0, INDEX, numbers(3)),
    ),
    "index_put": (torch.index_put, (numbers(4), (INDEX,), numbers(3))),
}


def cast(values: object, dtype: torch.dtype) -> object:
    """The same with all floating tensors in ``dtype``."""
    return tree_map_only(
        torch.Tensor, lambda x: x.to(dtype) if x.is_floating_point() else x, values
    )


def in_autocast(
    operator: Operator, arguments: object, dtype: torch.dtype = torch.float16
) -> object:
    """What the device gives for the arguments under autocast."""
    with torch.autocast(DEVICE, dtype=dtype):
        return operator(*to_device(arguments))


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16], ids=str)
@pytest.mark.parametrize("name", LOW)
def test_products_run_in_the_low_type(name: str, dtype: torch.dtype):
    operator, arguments = LOW[name]
    expected = operator(*cast(arguments, dtype))
    assert_same(in_autocast(operator, arguments, dtype), expected)


@pytest.mark.parametrize("name", WIDE)
def test_sensitive_functions_run_in_float32(name: str):
    operator, arguments = WIDE[name]
    low = cast(arguments, torch.float16)
    expected = operator(*cast(low, torch.float32))
    assert_same(in_autocast(operator, low), expected)


@pytest.mark.parametrize("name", PROMOTED)
def test_several_arguments_are_brought_to_the_widest_of_their_types(name: str):
    operator, (first, *others) = PROMOTED[name]
    low = cast(first, torch.float16)
    mixed = in_autocast(operator, (low, *others))
    assert_same(mixed, operator(cast(low, torch.float32), *others))
    alike = cast((first, *others), torch.float16)
    assert_same(in_autocast(operator, alike), operator(*alike))


def test_other_operators_run_in_the_type_they_get():
    x = numbers(4, 5)
    assert_same(in_autocast(torch.add, (x, x)), x + x)
    assert_same(in_autocast(torch.relu, (x.half(),)), torch.relu(x.half()))


def test_a_type_that_was_asked_for_is_given():
    x = numbers(4, 5).half()
    with torch.autocast(DEVICE):
        found = torch.sum(x.to(DEVICE), dtype=torch.float64)
    assert_same(found, torch.sum(x, dtype=torch.float64))


@pytest.mark.parametrize("name", [*LOW, *WIDE])
def test_float64_and_integers_are_left_alone(name: str):
    operator, arguments = (LOW | WIDE)[name]
    doubles = cast(arguments, torch.float64)
    assert_same(in_autocast(operator, doubles), operator(*doubles))


def test_gradients_are_those_of_the_casts_by_hand():
    x, weight = numbers(4, 5), numbers(6, 5)

    def gradients(device: str, by_hand: bool) -> tuple[torch.Tensor, ...]:
        leaves = [t.to(device).requires_grad_() for t in (x, weight)]
        with torch.autocast(device, enabled=not by_hand):
            inputs = [t.half() for t in leaves] if by_hand else leaves
            loss = functional.linear(*inputs).float().square().mean()
        loss.backward()
        return tuple(t.grad for t in leaves)

    assert_same(gradients(DEVICE, by_hand=False), gradients("cpu", by_hand=True))
