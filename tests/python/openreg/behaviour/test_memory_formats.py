"""Results have the CPU's strides, views are views, and nothing is copied in vain."""

import copy

import pytest
import torch
from observe import assert_same_behaviour
from torch.nn import functional as f


def channels_last(device: str) -> torch.Tensor:
    x = torch.arange(2.0 * 4 * 4 * 4, device=device).view(2, 4, 4, 4)
    return x.to(memory_format=torch.channels_last)


def permuted(device: str) -> torch.Tensor:
    return torch.arange(60.0, device=device).view(5, 4, 3).permute(1, 2, 0)[:, :2]


OPERATIONS = {
    "empty_like": lambda x: torch.empty_like(x).stride(),
    "zeros_like": torch.zeros_like,
    "full_like": lambda x: torch.full_like(x, 2),
    "rand_like": torch.rand_like,
    "randint_like": lambda x: torch.randint_like(x, 3),
    "clone": torch.clone,
    "clone contiguous": lambda x: x.clone(memory_format=torch.contiguous_format),
    "deepcopy": copy.deepcopy,
    "double": lambda x: x.double(),
    "contiguous": lambda x: x.contiguous(),
    "add": lambda x: x + 1,
    "add of two layouts": lambda x: x + x.contiguous(),
    "add of two layouts, swapped": lambda x: x.contiguous() + x,
    "compare": lambda x: x > 0,
    "where": lambda x: torch.where(x > 0, x, x),
    "relu": lambda x: x.relu(),
    "abs": lambda x: x.abs(),
    "softmax": lambda x: f.softmax(x, 1),
    "dropout": lambda x: f.dropout(x),
    "sum": lambda x: x.sum(1),
    "mean": lambda x: x.mean((1, 2), keepdim=True),
    "cumsum": lambda x: x.cumsum(1),
    "sort": lambda x: x.sort(1)[0],
    "flip": lambda x: x.flip(1),
    "roll": lambda x: x.roll(1, 1),
    "cat": lambda x: torch.cat([x, x], 1),
    "stack": lambda x: torch.stack([x, x]),
    "gather": lambda x: x.gather(1, torch.zeros_like(x, dtype=torch.long)),
    "index": lambda x: x[:, torch.tensor([0, 0], device=x.device)],
    "index_select": lambda x: x.index_select(1, torch.tensor([0], device=x.device)),
    "masked_fill": lambda x: x.masked_fill(x > 3, 0.0),
    "every second": lambda x: x[::2].clone(),
    "expanded": lambda x: x[None].expand(2, *x.shape).clone(),
    "repeat": lambda x: x.repeat(2, *([1] * (x.dim() - 1))),
    "into an empty output": lambda x: torch.add(
        x, 1, out=torch.empty(0, device=x.device)
    ),
    "into a strided output": lambda x: torch.add(
        x, 1, out=torch.empty_like(x.contiguous())
    ),
}
IMAGE_OPERATIONS = {
    "conv2d": lambda x: f.conv2d(x, torch.ones(3, 4, 2, 2, device=x.device)),
    "conv_transpose2d": lambda x: f.conv_transpose2d(
        x, torch.ones(4, 3, 2, 2, device=x.device)
    ),
    "max_pool2d": lambda x: f.max_pool2d(x, 2),
    "adaptive_avg_pool2d": lambda x: f.adaptive_avg_pool2d(x, 1),
    "batch_norm": lambda x: f.batch_norm(x, None, None, training=True),
    "group_norm": lambda x: f.group_norm(x, 2),
    "interpolate": lambda x: f.interpolate(x, scale_factor=2),
    "pad": lambda x: f.pad(x, (1, 1)),
    "pixel_shuffle": lambda x: f.pixel_shuffle(x, 2),
    "grid_sample": lambda x: f.grid_sample(
        x, torch.zeros(2, 2, 2, 2, device=x.device), align_corners=False
    ),
}


@pytest.mark.usefixtures("one_thread")
@pytest.mark.parametrize("name", OPERATIONS)
@pytest.mark.parametrize("make", [channels_last, permuted])
def test_results_have_the_cpus_strides(name, make):
    assert_same_behaviour(lambda device: OPERATIONS[name](make(device)))


@pytest.mark.usefixtures("one_thread")
@pytest.mark.parametrize("name", IMAGE_OPERATIONS)
def test_images_keep_their_channels_last_as_on_the_cpu(name):
    def program(device):
        x = channels_last(device).requires_grad_()
        y = IMAGE_OPERATIONS[name](x)
        y.sum().backward()
        return y, x.grad

    assert_same_behaviour(program)


VIEWS = {
    "view": lambda x: x.view(-1),
    "t": lambda x: x.t(),
    "row": lambda x: x[0],
    "columns": lambda x: x[:, 1:],
    "unsqueeze": lambda x: x.unsqueeze(0),
    "expand": lambda x: x.expand(2, 2, 2),
    "detach": lambda x: x.detach(),
    "another dtype": lambda x: x.view(torch.int),
    "bytes": lambda x: x.view(torch.uint8),
    "reshape": lambda x: x.reshape(4),
    "diagonal": lambda x: x.diagonal(),
    "unfold": lambda x: x.unfold(0, 1, 1),
    "as_strided": lambda x: x.as_strided((2,), (1,), 1),
    "chunk": lambda x: x.chunk(2)[1],
    "split": lambda x: x.split(1)[1],
    "unbind": lambda x: x.unbind()[1],
    "adjoint": lambda x: x.adjoint(),
    "unflatten": lambda x: x.unflatten(0, (1, 2)),
    "contiguous": lambda x: x.contiguous(),
    "same dtype": lambda x: x.float(),
    "same device": lambda x: x.to(x.device),
    "no view": lambda x: x.t().reshape(4),
    "copy": lambda x: x.to(x.device, copy=True),
}


@pytest.mark.parametrize("name", VIEWS)
def test_views_are_views_where_the_cpus_are(name):
    def program(device):
        base = torch.arange(4.0, device=device).view(2, 2).clone()
        view = VIEWS[name](base)
        start = base.untyped_storage().data_ptr()
        facts = (
            view is base,
            view._is_view(),
            view._base is base,
            view.untyped_storage().data_ptr() == start,
            view.storage_offset(),
            view.is_contiguous(),
        )
        base.zero_()
        return facts, view

    assert_same_behaviour(program)


COMPLEX_VIEWS = {
    "real": lambda x: x.real,
    "imag": lambda x: x.imag,
    "conj": lambda x: x.conj(),
    "conj imag": lambda x: x.conj().imag,
    "pairs": torch.view_as_real,
    "resolved": lambda x: x.conj().resolve_conj(),
}


@pytest.mark.parametrize("name", COMPLEX_VIEWS)
def test_views_of_complex_numbers_are_as_on_the_cpu(name):
    def program(device):
        base = torch.tensor([[1 + 2j, 3j], [4, 5 - 6j]], device=device)
        view = COMPLEX_VIEWS[name](base)
        facts = view._is_view(), view._base is base, view.is_conj(), view.is_neg()
        base.mul_(2)
        return facts, view

    assert_same_behaviour(program)


def test_a_view_that_cannot_be_is_refused():
    for program in (
        lambda device: torch.ones(3, device=device).view(torch.double),
        lambda device: torch.ones(2, 2, device=device).t().view(4),
        lambda device: torch.ones(3, device=device).as_strided((9,), (1,)),
    ):
        assert "error" in assert_same_behaviour(program)
