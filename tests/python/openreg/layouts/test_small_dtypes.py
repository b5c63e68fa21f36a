"""Dtypes of few bits, unsigned integers and complex numbers of half precision."""

import io

import pytest
import torch
from same_layout import DEVICE, assert_same, on

FLOAT8 = [getattr(torch, name) for name in dir(torch) if name.startswith("float8_")]
UNSIGNED = [torch.uint16, torch.uint32, torch.uint64]
BITS = [getattr(torch, name) for name in dir(torch) if name.startswith("bits")]
DTYPES = [*FLOAT8, *UNSIGNED, *BITS, torch.complex32, torch.float4_e2m1fn_x2]
NARROW = [
    getattr(torch, f"{sign}int{width}") for sign in ("", "u") for width in range(1, 8)
]


def bytes_of(tensor: torch.Tensor) -> list[int]:
    """The memory of a dense tensor."""
    return tensor.cpu().contiguous().reshape(-1).view(torch.uint8).tolist()


def any_bits(dtype: torch.dtype) -> torch.Tensor:
    """Two rows of three, every byte another one, on the host."""
    size = torch.empty(0, dtype=dtype).element_size()
    return torch.arange(6 * size, dtype=torch.uint8).view(dtype).reshape(2, 3)


PROGRAMS = {
    "clone": lambda t: t.clone(),
    "transpose": lambda t: t.t().contiguous(),
    "row": lambda t: t[1],
    "indices": lambda t: t[torch.tensor([1, 0], device=t.device)],
    "mask": lambda t: t[torch.tensor([True, False], device=t.device)],
    "cat": lambda t: torch.cat([t, t]),
    "stack": lambda t: torch.stack([t, t]),
    "flip": lambda t: t.flip(0),
    "repeat": lambda t: t.repeat(2, 2),
    "expand": lambda t: t[0].expand(4, 3).clone(),
    "assignment": lambda t: t.clone().index_put_(
        (torch.tensor([0], device=t.device),), t[1]
    ),
    "zeros": lambda t: torch.zeros(3, dtype=t.dtype, device=t.device),
    "ones": lambda t: torch.ones(3, dtype=t.dtype, device=t.device),
    "full": lambda t: torch.full((3,), 2, dtype=t.dtype, device=t.device),
    "fill_": lambda t: t.clone().fill_(1),
    "to float": lambda t: t.to(torch.float32),
    "from float": lambda t: torch.linspace(0, 9, 5, device=t.device).to(t.dtype),
    "item": lambda t: t[1, 1].item(),
    "list": lambda t: t.tolist(),
    "eq": lambda t: t == t,
    "add": lambda t: t + t,
    "mul": lambda t: t * t,
    "sum": lambda t: t.sum(),
    "and": lambda t: t & t,
    "neg": lambda t: -t,
    "matmul": lambda t: t @ t.t(),
    "sort": lambda t: t.sort().values,
    "where": lambda t: torch.where(torch.ones(2, 3, device=t.device) > 0, t, t),
    "gather": lambda t: t.gather(
        1, torch.zeros(2, 1, dtype=torch.int64, device=t.device)
    ),
    "conj": lambda t: t.conj().resolve_conj(),
    "isnan": lambda t: t.isnan(),
    "nonzero": lambda t: t.nonzero(),
}


def outcome(name: str, tensor: torch.Tensor) -> object:
    """The result as plain values, or the type of what was raised."""
    try:
        result = PROGRAMS[name](tensor)
    except Exception as error:
        return type(error)
    if not isinstance(result, torch.Tensor):
        return repr(result)
    assert result.device.type == tensor.device.type
    return [result.dtype, result.shape, result.stride(), bytes_of(result)]


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_the_device_does_what_the_cpu_does(dtype):
    """The same bits, or the same refusal."""
    tensor = any_bits(dtype)
    found = {name: outcome(name, tensor.to(DEVICE)) for name in PROGRAMS}
    assert found == {name: outcome(name, tensor) for name in PROGRAMS}


@pytest.mark.parametrize("dtype", [*DTYPES, *NARROW], ids=str)
def test_there_and_back(dtype):
    tensor = any_bits(dtype)
    there = tensor.to(DEVICE)
    assert (there.dtype, there.shape) == (tensor.dtype, tensor.shape)
    assert bytes_of(there.view(torch.uint8)) == bytes_of(tensor)
    assert bytes_of(there.to("openreg:1").view(torch.uint8)) == bytes_of(tensor)


@pytest.mark.parametrize("dtype", [*FLOAT8, *UNSIGNED, torch.complex32], ids=str)
def test_saved_and_loaded(dtype):
    tensor = any_bits(dtype)
    file = io.BytesIO()
    torch.save(tensor.to(DEVICE), file)
    file.seek(0)
    loaded = torch.load(file, weights_only=True)
    assert loaded.device.type == DEVICE
    assert bytes_of(loaded) == bytes_of(tensor)


@pytest.mark.parametrize("dtype", [*FLOAT8, *UNSIGNED, torch.complex32], ids=str)
def test_repr_is_the_cpus_but_for_the_device(dtype):
    tensor = any_bits(dtype)
    ours = repr(tensor.to(DEVICE)).replace("device='openreg:0',", "")
    assert ours.split() == repr(tensor).split()


def test_gradients_in_complex_half():
    outcomes = []
    for device in (DEVICE, "cpu"):
        values = torch.tensor([1 + 2j, 3 - 1j], dtype=torch.complex32)
        x = on(device, values, requires_grad=True)
        (x * x).abs().sum().backward()
        outcomes.append(x.grad)
    assert_same(*outcomes)


@pytest.mark.parametrize("dtype", [torch.float8_e4m3fn, torch.float8_e5m2], ids=str)
def test_products_of_eight_bits(dtype):
    outcomes = []
    for device in (DEVICE, "cpu"):
        a = torch.linspace(-2, 2, 16 * 32).reshape(16, 32).to(device).to(dtype)
        one = torch.tensor(1.0, device=device)
        try:
            outcomes.append(
                torch._scaled_mm(a, a.t(), one, one, out_dtype=torch.float32)
            )
        except Exception as error:
            outcomes.append(type(error).__name__)
    assert_same(*outcomes)
