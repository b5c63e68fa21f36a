"""Operators whose shapes or numbers are new at every call.

Sizes are those of small models: most calls take the CPU between 10 and 60 us, and
convolutions more, because oneDNN prepares itself for each new shape. An index says
which kind of call is wanted: two shapes of different indices differ, and so do two
numbers. Most shapes are (4 to 11, 16 to 47, 256), or 64 wide for slower operators;
where only a number is new, they are (8, 24, 256) or 64 wide. Operators of a backward
pass are called by themselves: autograd gives those of a device to a thread of its own,
and what that costs has nothing to do with what is new.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

aten = torch.ops.aten
Call = Callable[[], object]
# Makes the call of that index: its inputs exist when it returns.
Prepare = Callable[["Inputs", int], Call]

KINDS = 256  # indices that give shapes and numbers of their own
WIDTH = 256
NARROW = 64


class Inputs:
    """Makes inputs on a device: the same ones on every device, drawn on the CPU."""

    def __init__(self, device: torch.device) -> None:
        self.device = device
        self._generator = torch.Generator().manual_seed(0)

    def floats(self, *shape: int) -> Tensor:
        """Return numbers between 0 and 1."""
        return torch.rand(shape, generator=self._generator).to(self.device)

    def integers(self, high: int, *shape: int) -> Tensor:
        """Return integers below `high`."""
        return torch.randint(high, shape, generator=self._generator).to(self.device)

    def mask(self, *shape: int) -> Tensor:
        """Return booleans, half of them true."""
        return self.floats(*shape) > 0.5


def pair(index: int, first: int = 4, second: int = 16) -> tuple[int, int]:
    """Return two sizes that no other index below `KINDS` has; their product varies."""
    return first + index % 8, second + index // 8


def number(index: int) -> float:
    """Return a number between 0 and 1/2 that no other index has."""
    return (index + 1) / (2 * KINDS + 2)


def unary(
    function: Callable[..., object], width: int = WIDTH, **options: Any
) -> Prepare:
    """Return calls of `function` for a tensor of a new shape."""

    def prepare(inputs: Inputs, index: int) -> Call:
        return partial(function, inputs.floats(*pair(index), width), **options)

    return prepare


def binary(function: Callable[..., object]) -> Prepare:
    """Return calls of `function` for two tensors of one new shape."""

    def prepare(inputs: Inputs, index: int) -> Call:
        shape = (*pair(index), WIDTH)
        return partial(function, inputs.floats(*shape), inputs.floats(*shape))

    return prepare


def planes(function: Callable[..., object], *arguments: Any) -> Prepare:
    """Return calls of `function` for images of (2, 8, 16 to 23, 16 to 47)."""

    def prepare(inputs: Inputs, index: int) -> Call:
        return partial(function, inputs.floats(2, 8, *pair(index, 16)), *arguments)

    return prepare


def made(
    function: Callable[..., object], *arguments: Any, width: int = NARROW
) -> Prepare:
    """Return calls that make a tensor of a new shape on the device."""

    def prepare(inputs: Inputs, index: int) -> Call:
        shape = (*pair(index), width)
        return partial(function, *arguments, shape, device=inputs.device)

    return prepare


def numbered(call: Callable[[Tensor, float], object], width: int = WIDTH) -> Prepare:
    """Return calls for a tensor of one shape and a new number."""

    def prepare(inputs: Inputs, index: int) -> Call:
        return partial(call, inputs.floats(8, 24, width), number(index))

    return prepare


def where(inputs: Inputs, index: int) -> Call:
    """Choose between two tensors."""
    shape = (*pair(index), NARROW)
    choices = (inputs.floats(*shape), inputs.floats(*shape))
    return partial(torch.where, inputs.mask(*shape), *choices)


def norm_inputs(inputs: Inputs, index: int) -> tuple[Tensor, ...]:
    """Return tokens, weight and bias for `normalize`."""
    shapes = ((*pair(index), WIDTH), (WIDTH,), (WIDTH,))
    return tuple(inputs.floats(*shape) for shape in shapes)


def normalize(x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    """Normalize the last dimension."""
    return functional.layer_norm(x, (WIDTH,), weight, bias)


def layer_norm(inputs: Inputs, index: int) -> Call:
    """Normalize tokens."""
    return partial(normalize, *norm_inputs(inputs, index))


def layer_norm_backward(inputs: Inputs, index: int) -> Call:
    """Go back through the normalization of tokens."""
    x, weight, bias = norm_inputs(inputs, index)
    y, mean, rstd = torch.native_layer_norm(x, (WIDTH,), weight, bias, 1e-5)
    sides = (mean, rstd, weight, bias, [True] * 3)
    return partial(aten.native_layer_norm_backward, y, x, [WIDTH], *sides)


def embedding_inputs(inputs: Inputs, index: int) -> tuple[Tensor, Tensor]:
    """Return tokens and a table of 512 rows."""
    return inputs.integers(512, *pair(index)), inputs.floats(512, 128)


def embedding(inputs: Inputs, index: int) -> Call:
    """Look tokens up."""
    return partial(functional.embedding, *embedding_inputs(inputs, index))


def embedding_backward(inputs: Inputs, index: int) -> Call:
    """Go back to the table."""
    tokens, table = embedding_inputs(inputs, index)
    grad = functional.embedding(tokens, table)
    return partial(aten.embedding_dense_backward, grad, tokens, 512, -1, False)


def linear_inputs(inputs: Inputs, index: int) -> tuple[Tensor, ...]:
    """Return tokens, weight and bias."""
    shapes = ((*pair(index), 64), (64, 64), (64,))
    return tuple(inputs.floats(*shape) for shape in shapes)


def linear(inputs: Inputs, index: int) -> Call:
    """Multiply tokens by a weight."""
    return partial(functional.linear, *linear_inputs(inputs, index))


def linear_backward(inputs: Inputs, index: int) -> Call:
    """Go back through that."""
    x, weight, bias = linear_inputs(inputs, index)
    grad = functional.linear(x, weight, bias).flatten(0, 1)
    rows = x.flatten(0, 1)

    def call() -> object:
        return grad @ weight, grad.t() @ rows, grad.sum(0)

    return call


def softmax_backward(inputs: Inputs, index: int) -> Call:
    """Go back through the softmax of tokens."""
    y = inputs.floats(*pair(index), WIDTH).softmax(-1)
    return partial(aten._softmax_backward_data, y, y, -1, y.dtype)


def conv2d_inputs(inputs: Inputs, index: int) -> tuple[Tensor, ...]:
    """Return images, weight and bias."""
    shapes = ((2, 8, *pair(index, 8, 8)), (16, 8, 3, 3), (16,))
    return tuple(inputs.floats(*shape) for shape in shapes)


def conv2d(inputs: Inputs, index: int) -> Call:
    """Convolve images."""
    return partial(functional.conv2d, *conv2d_inputs(inputs, index), padding=1)


def conv2d_backward(inputs: Inputs, index: int) -> Call:
    """Go back through that."""
    x, weight, bias = conv2d_inputs(inputs, index)
    grad = functional.conv2d(x, weight, bias, padding=1)
    form = ([16], [1, 1], [1, 1], [1, 1], False, [0, 0], 1, [True] * 3)
    return partial(aten.convolution_backward, grad, x, weight, *form)


def conv1d(inputs: Inputs, index: int) -> Call:
    """Convolve signals."""
    shapes = ((4, 16, 32 + index), (16, 16, 3), (16,))
    return partial(functional.conv1d, *(inputs.floats(*shape) for shape in shapes))


def attention(inputs: Inputs, index: int) -> Call:
    """Attend with 4 heads of 32 to new numbers of tokens."""
    q, k, v = (inputs.floats(1, 4, 16 + index, 32) for _ in range(3))
    return partial(functional.scaled_dot_product_attention, q, k, v, is_causal=True)


def batch_norm(inputs: Inputs, index: int) -> Call:
    """Normalize images in training, with a new momentum."""
    x = inputs.floats(8, 16, 12, 12)
    mean, variance, weight, bias = (inputs.floats(16) for _ in range(4))
    return partial(
        functional.batch_norm, x, mean, variance, weight, bias, True, number(index)
    )


def group_norm(inputs: Inputs, index: int) -> Call:
    """Normalize groups of channels."""
    return partial(functional.group_norm, inputs.floats(4, 8, *pair(index, 16)), 4)


def cross_entropy(inputs: Inputs, index: int) -> Call:
    """Return the loss of new numbers of tokens."""
    count = 64 + index
    logits, targets = inputs.floats(count, 128), inputs.integers(128, count)
    return partial(functional.cross_entropy, logits, targets)


def matmul(inputs: Inputs, index: int) -> Call:
    """Multiply matrices in a batch by one matrix."""
    rows, columns = pair(index, 64, 64)
    return partial(torch.matmul, inputs.floats(2, rows, 64), inputs.floats(64, columns))


def bmm(inputs: Inputs, index: int) -> Call:
    """Multiply matrices in pairs."""
    rows, columns = pair(index, 32, 32)
    return partial(torch.bmm, inputs.floats(8, rows, 32), inputs.floats(8, 32, columns))


def addmm(inputs: Inputs, index: int) -> Call:
    """Multiply matrices and add a row."""
    rows, columns = pair(index, 128, 64)
    matrices = (inputs.floats(rows, 64), inputs.floats(64, columns))
    return partial(torch.addmm, inputs.floats(columns), *matrices)


def addmm_numbers(inputs: Inputs, index: int) -> Call:
    """Multiply matrices and add one, with a new alpha and beta."""
    operands = (inputs.floats(*shape) for shape in ((128, 64), (128, 64), (64, 64)))
    return partial(torch.addmm, *operands, alpha=number(index), beta=1 - number(index))


def gather(inputs: Inputs, index: int) -> Call:
    """Pick numbers along the last dimension."""
    shape = (*pair(index), 64)
    return partial(torch.gather, inputs.floats(*shape), -1, inputs.integers(64, *shape))


def scatter(inputs: Inputs, index: int) -> Call:
    """Put numbers along the last dimension."""
    shape = (*pair(index), 64)
    operands = (inputs.integers(64, *shape), inputs.floats(*shape))
    return partial(torch.scatter, inputs.floats(*shape), -1, *operands)


def index_select(inputs: Inputs, index: int) -> Call:
    """Pick new numbers of rows."""
    return partial(
        torch.index_select, inputs.floats(512, 128), 0, inputs.integers(512, 64 + index)
    )


def index_rows(inputs: Inputs, index: int) -> Call:
    """Index with a tensor of a new length."""
    ids = inputs.integers(512, 64 + index)
    return partial(torch.Tensor.__getitem__, inputs.floats(512, 128), ids)


def index_put(inputs: Inputs, index: int) -> Call:
    """Assign new numbers of rows."""
    rows = 64 + index
    assigned = (inputs.integers(512, rows), inputs.floats(rows, 128))
    return partial(torch.Tensor.__setitem__, inputs.floats(512, 128), *assigned)


def masked_fill(inputs: Inputs, index: int) -> Call:
    """Fill where a mask is set, with a new number."""
    shape = (8, 24, NARROW)
    operands = (inputs.floats(*shape), inputs.mask(*shape))
    return partial(torch.masked_fill, *operands, number(index))


def cat(inputs: Inputs, index: int) -> Call:
    """Join a cache of a new length and a token."""
    count, length = pair(index)
    parts = [inputs.floats(count, length, WIDTH), inputs.floats(count, 1, WIDTH)]
    return partial(torch.cat, parts, 1)


def stack(inputs: Inputs, index: int) -> Call:
    """Stack four tensors of a new shape."""
    return partial(torch.stack, [inputs.floats(*pair(index), 64) for _ in range(4)])


def interpolate(inputs: Inputs, index: int) -> Call:
    """Resize images to a new size."""
    images, size = inputs.floats(4, 8, 8, 8), pair(index, 8, 8)
    return partial(
        functional.interpolate, images, size, mode="bilinear", align_corners=False
    )


def adaptive_pool(inputs: Inputs, index: int) -> Call:
    """Average images of a new size to 4x4."""
    return partial(
        functional.adaptive_avg_pool2d, inputs.floats(4, 8, *pair(index, 16)), (4, 4)
    )


def topk(inputs: Inputs, index: int) -> Call:
    """Find the eight largest of new numbers of logits."""
    return partial(torch.topk, inputs.floats(4, 512 + index), 8)


def sort(inputs: Inputs, index: int) -> Call:
    """Sort rows of a new length."""
    return partial(torch.sort, inputs.floats(*pair(index, 4, 64)))


def arange(inputs: Inputs, index: int) -> Call:
    """Count between new bounds."""
    return partial(torch.arange, index, 16384 + 2 * index, device=inputs.device)


def linspace(inputs: Inputs, index: int) -> Call:
    """Divide new ranges into as many steps."""
    return partial(torch.linspace, 0, number(index), 8192, device=inputs.device)


def full(inputs: Inputs, index: int) -> Call:
    """Fill a new tensor with a new number."""
    return partial(torch.full, (8, 24, WIDTH), number(index), device=inputs.device)


def eye(inputs: Inputs, index: int) -> Call:
    """Make identities of new sizes."""
    return partial(torch.eye, 96 + index, device=inputs.device)


def randperm(inputs: Inputs, index: int) -> Call:
    """Shuffle new numbers of indices."""
    return partial(torch.randperm, 1024 + index, device=inputs.device)


def clone_strided(x: Tensor) -> Tensor:
    """Copy a transposed tensor."""
    return x.transpose(0, 1).clone(memory_format=torch.contiguous_format)


def parameters(inputs: Inputs, index: int) -> list[Tensor]:
    """Return 20 tensors of new shapes."""
    return [inputs.floats(8 + index, 32 + position) for position in range(20)]


def foreach_norm(inputs: Inputs, index: int) -> Call:
    """Return the norms of 20 tensors."""
    return partial(torch._foreach_norm, parameters(inputs, index), 2.0)


def foreach_add(inputs: Inputs, index: int) -> Call:
    """Add 20 tensors in pairs, in place, scaled by a new number."""
    ours, theirs = parameters(inputs, index), parameters(inputs, index)
    return partial(torch._foreach_add_, ours, theirs, alpha=number(index))


def clip_grad_norm(inputs: Inputs, index: int) -> Call:
    """Clip the gradients of 20 parameters of new shapes."""
    clipped = parameters(inputs, index)
    for parameter in clipped:
        parameter.grad = torch.ones_like(parameter)
    return partial(torch.nn.utils.clip_grad_norm_, clipped, 1.0)


OPERATORS: dict[str, Prepare] = {
    # A new shape at each call.
    "where": where,
    "layer_norm": layer_norm,
    "embedding": embedding,
    "interpolate": interpolate,
    "scatter": scatter,
    "gather": gather,
    "conv1d": conv1d,
    "conv2d": conv2d,
    "sdpa": attention,
    "group_norm": group_norm,
    "softmax": unary(torch.softmax, dim=-1),
    "log_softmax": unary(torch.log_softmax, dim=-1),
    "cross_entropy": cross_entropy,
    "gelu": unary(functional.gelu, width=NARROW),
    "relu": unary(torch.relu),
    "add": binary(torch.add),
    "mul": binary(torch.mul),
    "matmul": matmul,
    "linear": linear,
    "bmm": bmm,
    "addmm": addmm,
    "sum": unary(torch.sum, dim=-1),
    "mean": unary(torch.mean, dim=1),
    "var": unary(torch.var, width=NARROW, dim=-1),
    "std": unary(torch.std, width=NARROW, dim=-1),
    "max": unary(torch.max, width=NARROW, dim=-1),
    "argmax": unary(torch.argmax, width=NARROW, dim=-1),
    "cumsum": unary(torch.cumsum, width=NARROW, dim=-1),
    "topk": topk,
    "sort": sort,
    "index_select": index_select,
    "index": index_rows,
    "index_put": index_put,
    "cat": cat,
    "stack": stack,
    "pad": unary(functional.pad, pad=(1, 1)),
    "max_pool2d": planes(functional.max_pool2d, 2),
    "avg_pool2d": planes(functional.avg_pool2d, 2),
    "adaptive_avg_pool2d": adaptive_pool,
    "layer_norm_backward": layer_norm_backward,
    "embedding_backward": embedding_backward,
    "conv2d_backward": conv2d_backward,
    "linear_backward": linear_backward,
    "softmax_backward": softmax_backward,
    "zeros": made(torch.zeros, width=WIDTH),
    "ones": made(torch.ones, width=WIDTH),
    "rand": made(torch.rand),
    "randn": made(torch.randn),
    "randint": made(torch.randint, 100),
    "randperm": randperm,
    "eye": eye,
    "tril": unary(torch.tril),
    "roll": unary(torch.roll, shifts=3, dims=1),
    "flip": unary(torch.flip, dims=(1,)),
    "repeat": unary(torch.Tensor.repeat, width=NARROW, repeats=(2, 1, 2)),
    "clone_strided": unary(clone_strided),
    "to_dtype": unary(torch.Tensor.to, dtype=torch.float64),
    "foreach_norm": foreach_norm,
    "foreach_add": foreach_add,
    "clip_grad_norm_": clip_grad_norm,
    # A new number at each call.
    "clamp": numbered(lambda x, a: x.clamp(a, 1 - a)),
    "dropout": numbered(lambda x, a: functional.dropout(x, a), NARROW),
    "batch_norm": batch_norm,
    "add_scalar": numbered(lambda x, a: x + a),
    "mul_scalar": numbered(lambda x, a: x * a),
    "add_alpha": numbered(lambda x, a: torch.add(x, x, alpha=a)),
    "leaky_relu": numbered(functional.leaky_relu),
    "masked_fill": masked_fill,
    "normal_": numbered(lambda x, a: x.normal_(0, a), NARROW),
    "uniform_": numbered(lambda x, a: x.uniform_(0, a), NARROW),
    "lerp": numbered(lambda x, a: torch.lerp(x, x, a)),
    "addmm_numbers": addmm_numbers,
    "arange": arange,
    "linspace": linspace,
    "full": full,
}
