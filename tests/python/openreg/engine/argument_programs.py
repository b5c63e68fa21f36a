"""Programs with arguments of every kind, for ``test_arguments.py``."""

from collections.abc import Callable
from functools import cache

import torch
from compare import numbers
from torch.nn import functional

Tensor = torch.Tensor
# By name, a program for a device that returns its results.
Programs = dict[str, Callable[[str], object]]


@cache
def constant(device: str, values: object) -> Tensor:
    """A tensor that no program changes; made once: copies from the host wait."""
    return torch.tensor(values, device=device)


@cache
def drawn(device: str, *shape: int) -> Tensor:
    return numbers(*shape).to(device)


def forget_tensors() -> None:
    """Free what the two above have made."""
    constant.cache_clear()
    drawn.cache_clear()


def floats(device: str, *shape: int) -> Tensor:
    return drawn(device, *(shape or (3, 4))).clone()


def integers(device: str, *shape: int) -> Tensor:
    return (floats(device, *shape) * 10).long()


def complexes(device: str, *shape: int) -> Tensor:
    return torch.view_as_complex(floats(device, *(shape or (3, 4)), 2))


def after(x: Tensor, change: Callable[[Tensor], object]) -> tuple[Tensor, object]:
    """``x`` after ``change``, and what that returned."""
    result = change(x)
    return x, result


IN_PLACE: Programs = {
    "add_": lambda d: after(floats(d), lambda x: x.add_(1)),
    "of a slice": lambda d: after(floats(d), lambda x: x[1:, ::2].mul_(3)),
    "of a transpose": lambda d: after(floats(d), lambda x: x.t().add_(floats(d, 4, 3))),
    "of itself": lambda d: after(floats(d), lambda x: x.add_(x)),
    "of its transpose": lambda d: after(floats(d, 3, 3), lambda x: x.mul_(x.t() + 0)),
    "index_put_": lambda d: after(
        floats(d),
        lambda x: x.index_put_(
            (
                constant(
                    d,
                    (
                        2,
                        0,
                    ),
                ),
            ),
            x[:2] + 1,
        ),
    ),
    "accumulating": lambda d: after(
        floats(d),
        lambda x: x.index_put_(
            (
                constant(
                    d,
                    (
                        1,
                        1,
                    ),
                ),
            ),
            torch.ones(4, device=d),
            accumulate=True,
        ),
    ),
    "setitem": lambda d: after(floats(d), lambda x: x.__setitem__(1, 5.0)),
    "setitem by a mask": lambda d: after(
        floats(d), lambda x: x.__setitem__(x > 0, 5.0)
    ),
    "masked_fill_": lambda d: after(floats(d), lambda x: x.masked_fill_(x > 0, -1)),
    "scatter_": lambda d: after(
        floats(d),
        lambda x: x.scatter_(
            1,
            constant(
                d,
                (
                    (0,),
                    (1,),
                    (2,),
                ),
            ),
            9.0,
        ),
    ),
    "zero_": lambda d: after(floats(d), lambda x: x[:, 1].zero_()),
    "fill_ by a tensor": lambda d: after(
        floats(d), lambda x: x.fill_(constant(d, 2.5))
    ),
    "integers by a float": lambda d: after(integers(d), lambda x: x.mul_(2)),
    "transpose_": lambda d: after(floats(d), lambda x: x.transpose_(0, 1)),
    "resize_": lambda d: after(floats(d), lambda x: x.resize_(2, 2)),
    "unsqueeze_": lambda d: after(floats(d), lambda x: x.unsqueeze_(0)),
    "foreach": lambda d: after(
        floats(d), lambda x: torch._foreach_mul_([x[0], x[1]], [2.0, 3.0])
    ),
    "swap": lambda d: after(floats(d), lambda x: x[:2].copy_(x[1:].clone())),
    "triu_": lambda d: after(floats(d), lambda x: x.triu_()),
    "batch_norm": lambda d: after(
        torch.zeros(3, device=d),
        lambda mean: functional.batch_norm(
            floats(d, 5, 3), mean, torch.ones(3, device=d), training=True
        ),
    ),
}

LISTS: Programs = {
    "cat": lambda d: torch.cat([floats(d), floats(d, 2, 4), floats(d, 1, 4)]),
    "cat of two dtypes": lambda d: torch.cat([floats(d), integers(d)]),
    "cat with a legacy empty": lambda d: torch.cat(
        [torch.empty(0, device=d), floats(d)], 1
    ),
    "stack": lambda d: torch.stack([floats(d), floats(d).neg()], 1),
    "hstack": lambda d: torch.hstack([floats(d), floats(d)]),
    "block_diag": lambda d: torch.block_diag(floats(d), floats(d, 2, 2)),
    "meshgrid": lambda d: torch.meshgrid(
        torch.arange(3, device=d), torch.arange(2, device=d), indexing="ij"
    ),
    "split": lambda d: floats(d).split([1, 2]),
    "split of no row": lambda d: floats(d).split([0, 3]),
    "split_copy": lambda d: torch.split_copy(floats(d), 2),
    "unbind_copy": lambda d: torch.unbind_copy(floats(d), 1),
    "unsafe_chunk": lambda d: floats(d).unsafe_chunk(2, 1),
    "unbind": lambda d: floats(d).unbind(1),
    "tensor_split": lambda d: floats(d).tensor_split(3, 1),
    "foreach": lambda d: torch._foreach_add([floats(d), floats(d, 2)], 1.0),
    "foreach of lists": lambda d: torch._foreach_mul(
        [floats(d), floats(d, 2)], [floats(d), floats(d, 2)]
    ),
    "foreach of numbers": lambda d: torch._foreach_div(
        [floats(d), floats(d, 2)], [2.0, 3.0]
    ),
    "foreach of two dtypes": lambda d: torch._foreach_add(
        [floats(d), integers(d)], [integers(d), floats(d)]
    ),
    "foreach_norm": lambda d: torch._foreach_norm([floats(d), floats(d, 2)]),
    "foreach of a device number": lambda d: torch._foreach_mul(
        [floats(d), floats(d, 2)], constant(d, 2.0)
    ),
    "einsum": lambda d: torch.einsum("ij,kj->ik", floats(d), floats(d, 5, 4)),
    "indices": lambda d: floats(d, 3, 4, 5)[
        constant(
            d,
            (
                0,
                1,
            ),
        ),
        :,
        constant(
            d,
            (
                (1,),
                (2,),
            ),
        ),
    ],
    "indices of the host": lambda d: floats(d)[torch.tensor([2, 0])],
    "index by a list": lambda d: floats(d)[[2, 0], [1, 1]],
    "broadcast_tensors": lambda d: torch.broadcast_tensors(floats(d), floats(d, 4)),
    "align of rnn": lambda d: torch.nn.utils.rnn.pad_sequence(
        [floats(d, 2), floats(d, 3)]
    ),
}

OPTIONAL: Programs = {
    "conv2d without bias": lambda d: functional.conv2d(
        floats(d, 1, 2, 5, 5), floats(d, 3, 2, 3, 3)
    ),
    "conv backward of the input": lambda d: torch.ops.aten.convolution_backward(
        *(floats(d, 1, 3, 3, 3), floats(d, 1, 2, 5, 5), floats(d, 3, 2, 3, 3)),
        *([3], [1, 1], [0, 0], [1, 1], False, [0, 0], 1, [True, False, False]),
    )[0],
    "layer_norm without weights": lambda d: functional.layer_norm(floats(d), (4,)),
    "layer_norm backward of some": lambda d: torch.ops.aten.native_layer_norm_backward(
        floats(d),
        *(floats(d), [4], floats(d, 3, 1), floats(d, 3, 1), None, None),
        [True, False, False],
    )[0],
    "batch_norm without statistics": lambda d: functional.batch_norm(
        floats(d, 3, 4), None, None, training=True
    ),
    "clamp from below": lambda d: floats(d).clamp(min=0.0),
    "clamp by a tensor": lambda d: floats(d).clamp(max=floats(d, 4)),
    "sum to a dtype": lambda d: integers(d).sum(dtype=torch.float64),
    "bucketize without sorter": lambda d: torch.searchsorted(
        torch.arange(5.0, device=d), floats(d)
    ),
    "searchsorted with sorter": lambda d: torch.searchsorted(
        constant(
            d,
            (
                3.0,
                1.0,
            ),
        ),
        floats(d),
        sorter=constant(
            d,
            (
                1,
                0,
            ),
        ),
    ),
    "histc": lambda d: torch.histc(floats(d)),
    "embedding_bag": lambda d: functional.embedding_bag(
        constant(
            d,
            (
                0,
                2,
                1,
            ),
        ),
        floats(d),
        constant(
            d,
            (
                0,
                1,
            ),
        ),
    ),
    "ctc": lambda d: functional.ctc_loss(
        floats(d, 6, 1, 4).log_softmax(2),
        constant(
            d,
            (
                (
                    1,
                    2,
                ),
            ),
        ),
        torch.tensor([6]),
        torch.tensor([2]),
    ),
    "to_dtype with strings": lambda d: torch.div(floats(d), 0.3, rounding_mode="floor"),
    "scatter_reduce": lambda d: floats(d, 4).scatter_reduce(
        0,
        constant(
            d,
            (
                0,
                0,
                1,
                3,
            ),
        ),
        floats(d, 4),
        reduce="amax",
    ),
    "gelu by name": lambda d: functional.gelu(floats(d), approximate="tanh"),
    "quantile": lambda d: torch.quantile(floats(d), 0.3, dim=1),
    "nan_to_num": lambda d: torch.nan_to_num(floats(d) / 0, posinf=3.0),
    "std_mean": lambda d: torch.std_mean(floats(d), dim=1, correction=0),
}

LAZY: Programs = {
    "conj": lambda d: complexes(d).conj() * 2,
    "conj of a sum": lambda d: (complexes(d).conj() + complexes(d)).sum(),
    "conj matmul": lambda d: complexes(d).conj() @ complexes(d, 4, 2),
    "mH": lambda d: complexes(d).mH @ complexes(d),
    "imag of conj": lambda d: complexes(d).conj().imag + 1,
    "neg view": lambda d: floats(d)._neg_view() * 2,
    "neg view of conj": lambda d: complexes(d).conj()._neg_view() + 1,
    "conj in place": lambda d: after(complexes(d), lambda x: x.conj().add_(1j)),
    "imag of conj in place": lambda d: after(
        complexes(d), lambda x: x.conj().imag.add_(1)
    ),
    "neg in place": lambda d: after(floats(d), lambda x: x._neg_view().add_(1)),
    "conj with another": lambda d: after(
        complexes(d), lambda x: x.conj().mul_(complexes(d).conj())
    ),
    "fill of conj": lambda d: after(complexes(d), lambda x: x.conj().fill_(1 + 2j)),
    "conj out": lambda d: after(
        complexes(d), lambda x: torch.add(complexes(d), 1, out=x.conj())
    ),
    "cat of conj": lambda d: torch.cat([complexes(d).conj(), complexes(d)]),
    "index of conj": lambda d: complexes(d).conj()[
        constant(
            d,
            (
                1,
                0,
            ),
        )
    ],
    "index_put of conj": lambda d: after(
        complexes(d),
        lambda x: x.conj().__setitem__(constant(d, (1,)), 2 + 1j),
    ),
    "resolve_conj": lambda d: complexes(d).conj().resolve_conj(),
    "resolve_neg": lambda d: floats(d)._neg_view().resolve_neg(),
    "view_as_real": lambda d: torch.view_as_real(complexes(d)) * 2,
    "view_as_real in place": lambda d: after(
        complexes(d), lambda x: torch.view_as_real(x).add_(1)
    ),
    "view_as_complex": lambda d: torch.view_as_complex(floats(d, 3, 2)).exp(),
    "real": lambda d: complexes(d).real + complexes(d).imag,
    "conj_physical": lambda d: torch.conj_physical(complexes(d)),
    "where of conj": lambda d: torch.where(
        floats(d) > 0, complexes(d).conj(), complexes(d)
    ),
    "foreach of conj": lambda d: torch._foreach_mul([complexes(d).conj()], 2.0),
    "abs of conj": lambda d: complexes(d).conj().abs(),
}

GROUPS = {"in place": IN_PLACE, "lists": LISTS, "optional": OPTIONAL, "lazy": LAZY}
CASES = {
    f"{group}: {name}": program
    for group, programs in GROUPS.items()
    for name, program in programs.items()
}

# Each copies from the host, or the host reads data.
WAITING = {
    "lists: indices of the host",
    "lists: index by a list",
    "optional: ctc",
}
