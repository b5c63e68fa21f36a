"""Nested tensors, strided and jagged: the CPU's results, on the device."""

import io

import pytest
import torch
import torch.nn.functional as F  # noqa: N812
from same_layout import (
    DEVICE,
    assert_as_on_the_cpu,
    assert_refused_alike,
    assert_same,
    assert_same_tensor,
    numbers,
)

LENGTHS = (2, 3, 1)


def nested(layout: torch.layout = torch.strided) -> torch.Tensor:
    """Three matrices of four columns, on the host."""
    parts = [numbers(length, 4, seed=length) for length in LENGTHS]
    return torch.nested.nested_tensor(parts, layout=layout)


def test_there_and_back():
    there = nested().to(DEVICE)
    assert there.device == torch.device(DEVICE, 0)
    assert_same_tensor(there, nested())
    for ours, theirs in zip(there.cpu().unbind(), nested().unbind(), strict=True):
        assert torch.equal(ours, theirs)
    assert_same_tensor(there.to("openreg:1"), nested())
    assert there.to("openreg:1").device.index == 1


def test_a_tensor_is_made_on_the_device():
    parts = [numbers(length, 4, seed=length).to(DEVICE) for length in LENGTHS]
    for make in (torch.nested.nested_tensor, torch.nested.as_nested_tensor):
        assert_same_tensor(make(parts), nested())
    for parts in ([], [torch.tensor(1.0), torch.tensor(2.0)]):
        assert_as_on_the_cpu(
            lambda x, parts=parts: torch.nested.nested_tensor(parts, device=x.device),
            torch.ones(1),
        )


def test_a_view_of_a_buffer():
    buffer = numbers(24).to(DEVICE)
    there = nested().to(DEVICE)
    view = torch._nested_view_from_buffer(
        buffer,
        there._nested_tensor_size(),
        there._nested_tensor_strides(),
        there._nested_tensor_storage_offsets(),
    )
    buffer.fill_(7)
    assert all((part == 7).all() for part in view.unbind())


PROGRAMS = {
    "unbind": lambda x: list(x.unbind()),
    "select": lambda x: x[1],
    "relu": lambda x: x.relu(),
    "gelu": lambda x: F.gelu(x),
    "silu": lambda x: F.silu(x),
    "tanh": lambda x: x.tanh(),
    "neg": lambda x: -x,
    "add": lambda x: x + x,
    "add a number": lambda x: x + 1,
    "mul": lambda x: x * x,
    "mul by a number": lambda x: x * 2.5,
    "div": lambda x: x / 4,
    "padded": lambda x: x.to_padded_tensor(0.0),
    "padded to a size": lambda x: torch.nested.to_padded_tensor(x, -1.0, (4, 5, 6)),
    "linear": lambda x: F.linear(x, torch.ones(6, 4, device=x.device) / 3),
    "layer_norm": lambda x: F.layer_norm(
        x, (4,), torch.ones(4, device=x.device), torch.zeros(4, device=x.device)
    ),
    "softmax": lambda x: F.softmax(x, -1),
    "transpose": lambda x: x.transpose(1, 2).contiguous(),
    "matmul": lambda x: torch.matmul(x, x.transpose(1, 2)),
    "view": lambda x: x.view(3, -1, 2, 2),
    "chunk": lambda x: x.chunk(2, -1)[1],
    "sum": lambda x: x.sum(-1, keepdim=True),
    "clone": lambda x: x.clone(),
    "to float64": lambda x: x.to(torch.float64),
    "cat": lambda x: torch.cat([x, x]),
    "dropout in evaluation": lambda x: F.dropout(x, 0.5, training=False),
    "attention": lambda x: F.scaled_dot_product_attention(
        *[x.view(3, -1, 2, 2).transpose(1, 2).contiguous()] * 3
    ),
}
# Those of which the CPU can't compute the gradient.
ONLY_FORWARD = {"unbind", "cat", "chunk", "padded to a size", "tanh"}


@pytest.mark.parametrize("name", PROGRAMS)
def test_the_results_are_the_cpus(name):
    assert_as_on_the_cpu(PROGRAMS[name], nested())


@pytest.mark.parametrize("name", sorted(PROGRAMS.keys() - ONLY_FORWARD))
def test_the_gradients_are_the_cpus(name):
    assert_as_on_the_cpu(PROGRAMS[name], nested(), gradients=True)


WITHOUT_GRADIENTS = {
    "gt": lambda x: x > 0,
    "eq": lambda x: x == 0.0,
    "isnan": lambda x: x.isnan(),
    "masked_fill": lambda x: x.masked_fill(x > 0, 0.0),
    "logical_not": lambda x: (x > 0).logical_not(),
    "zeros_like": lambda x: torch.zeros_like(x),
    "ones_like": lambda x: torch.ones_like(x),
    "sizes": lambda x: [x.size(0), x.size(-1), x.dim(), x.is_contiguous()],
    "relu_": lambda x: x.relu_(),
    "add_": lambda x: x.add_(x.clone()),
    "fill_": lambda x: x.fill_(3),
    "copy_": lambda x: torch.empty_like(x).copy_(x),
    "from padded": lambda x: torch._nested_from_padded(
        x.to_padded_tensor(0.0), x._nested_tensor_size()
    ),
}


@pytest.mark.parametrize("name", WITHOUT_GRADIENTS)
def test_the_results_without_gradients_are_the_cpus(name):
    assert_as_on_the_cpu(WITHOUT_GRADIENTS[name], nested())


def test_from_a_mask():
    mask = torch.tensor([[True, True, False], [True, False, False]])
    assert_as_on_the_cpu(torch._nested_tensor_from_mask, numbers(2, 3, 4), mask)
    assert_as_on_the_cpu(
        torch._nested_tensor_from_mask_left_aligned, numbers(2, 3, 4), mask
    )


def test_dropout_draws_from_the_devices_generator():
    def program(x):
        seed = (
            torch.manual_seed if x.device.type == "cpu" else torch.openreg.manual_seed
        )
        seed(5)
        return F.dropout(x, 0.5)

    with torch.random.fork_rng(devices=range(1), device_type="openreg"):
        assert_as_on_the_cpu(program, nested(), gradients=True)


def test_a_layer_of_a_transformer():
    def program(x):
        torch.manual_seed(0)
        layer = torch.nn.TransformerEncoderLayer(4, 2, 8, batch_first=True)
        layer = layer.to(x.device).eval()
        with torch.no_grad():
            return layer(x)

    assert_as_on_the_cpu(program, nested())


def test_repr_is_the_cpus_but_for_the_device():
    ours = repr(nested().to(DEVICE)).replace(", device='openreg:0'", "")
    assert ours.split() == repr(nested()).split()


@pytest.mark.parametrize("layout", [torch.strided, torch.jagged], ids=str)
def test_saved_and_loaded(layout):
    file = io.BytesIO()
    torch.save(nested(layout).to(DEVICE), file)
    file.seek(0)
    loaded = torch.load(file, weights_only=False)
    assert loaded.device.type == DEVICE
    assert_same(list(loaded.unbind()), list(nested(layout).unbind()))


JAGGED = {
    "relu": lambda x: x.relu().values(),
    "arithmetic": lambda x: (x + x * 2).values(),
    "linear": lambda x: F.linear(x, torch.ones(6, 4, device=x.device) / 3).values(),
    "layer_norm": lambda x: F.layer_norm(x, (4,)).values(),
    "padded": lambda x: x.to_padded_tensor(0.0),
    "unbind": lambda x: torch.cat(x.unbind()),
    "sum": lambda x: x.sum(1),
    "mean": lambda x: x.mean(1),
    "softmax": lambda x: F.softmax(x, 1).values(),
    "matmul": lambda x: (x @ torch.ones(4, 3, device=x.device)).values(),
    "chunk": lambda x: x.chunk(2, -1)[1].values(),
    "select": lambda x: x[1],
    "attention": lambda x: (
        F.scaled_dot_product_attention(*[x.unflatten(-1, (2, 2)).transpose(1, 2)] * 3)
        .transpose(1, 2)
        .values()
    ),
}


@pytest.mark.parametrize("name", JAGGED)
def test_jagged_tensors(name):
    outcomes = []
    for device in (DEVICE, "cpu"):
        parts = [numbers(length, 4, seed=length).to(device) for length in LENGTHS]
        x = torch.nested.nested_tensor(parts, layout=torch.jagged, requires_grad=True)
        result = JAGGED[name](x)
        outcomes.append([result.detach(), x.offsets()])
        if name not in ("sum", "mean"):  # of which the CPU has no gradient
            result.square().sum().backward()
            outcomes[-1].append(x.grad.values())
    assert_same(*outcomes)


def test_jagged_tensors_there_and_back():
    there = nested(torch.jagged).to(DEVICE)
    assert there.device.type == there.offsets().device.type == DEVICE
    assert_same(there.values(), nested(torch.jagged).values())
    assert torch.equal(there.cpu().values(), nested(torch.jagged).values())


def test_other_devices_are_refused():
    with pytest.raises(RuntimeError, match="on the same device"):
        F.linear(nested().to(DEVICE), torch.ones(6, 4))
    with pytest.raises(RuntimeError, match="on the same device"):
        nested().to(DEVICE) + nested().to("openreg:1")


@pytest.mark.parametrize(
    "program",
    [
        lambda x: x + x.transpose(1, 2),
        lambda x: x.size(1),
        lambda x: x.view(24),
        lambda x: F.linear(x, torch.ones(6, 5, device=x.device)),
        lambda x: torch.bmm(x, x),
    ],
)
def test_what_the_cpu_refuses_is_refused_alike(program):
    assert_refused_alike(program, nested())
