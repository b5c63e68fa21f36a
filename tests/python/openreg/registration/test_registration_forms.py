"""The forms of registering an operator, one example of each; see docs/operators.md."""

import warnings

import pytest
import torch
from torch._subclasses.fake_tensor import FakeTensorMode

import torch_openreg
from driver import Gate

DEVICE = "openreg"
OPERATORS = torch.ops.openreg

DTYPES = [torch.float32, torch.float16, torch.int64, torch.uint8, torch.complex64]
VIEWS = {
    "whole": lambda x: x,
    "transposed": lambda x: x.transpose(0, 2),
    "strided": lambda x: x[:, ::2],
    "expanded": lambda x: x[:1].expand(3, 4, 6),
    "one value": lambda x: x[1, 2, 3],
    "empty": lambda x: x[:0],
    "conjugate": torch.conj,
}


def numbers(dtype: torch.dtype = torch.float32) -> torch.Tensor:
    """Numbers of both signs where the dtype has them, the same every time."""
    generator = torch.Generator().manual_seed(5)
    values = torch.randn(3, 4, 6, dtype=torch.complex64, generator=generator) * 9
    return values.to(dtype) if dtype.is_complex else values.real.contiguous().to(dtype)


def assert_same(found: torch.Tensor, expected: torch.Tensor) -> None:
    assert found.device.type == DEVICE
    assert found.dtype == expected.dtype
    assert found.stride() == expected.stride()
    assert torch.equal(found.cpu(), expected)


# Nothing at all: the catch-all


def test_an_operator_with_a_kernel_for_the_cpu_needs_nothing():
    with torch.openreg.strict():
        found = torch.special.erfcx(numbers().to(DEVICE))
    assert_same(found, torch.special.erfcx(numbers()))


# TORCH_LIBRARY_IMPL: empty.memory_format


def test_empty_lays_its_memory_out_as_it_is_asked_to():
    formats = (torch.contiguous_format, torch.channels_last)
    for memory_format in formats:
        made = [
            torch.empty(2, 3, 4, 5, device=device, memory_format=memory_format)
            for device in (DEVICE, "cpu")
        ]
        assert made[0].stride() == made[1].stride()
        assert made[0].device == torch.device(DEVICE, 0)


# A stub: abs_stub


@pytest.mark.parametrize("view", VIEWS.values(), ids=VIEWS.keys())
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_abs_is_the_cpus(dtype: torch.dtype, view):
    x = numbers(dtype)
    assert_same(view(x.to(DEVICE)).abs(), view(x).abs())


def test_abs_is_reached_through_the_stub():
    """PyTorch's shared code has made the output, so a new size is nothing new."""
    torch.randn(2, 3, 5, device=DEVICE).abs()  # such a call is good
    x = torch.randn(7, 11, 13, device=DEVICE)
    before = torch.openreg.engine_stats()
    x.abs()
    after = torch.openreg.engine_stats()
    assert after["launches"] == before["launches"] + 1
    for counter in ("cache_misses", "cache_entries", "synchronous_runs", "fallbacks"):
        assert after[counter] == before[counter]
    x.neg()  # which the catch-all takes, with a size that it does not know
    assert torch.openreg.engine_stats()["cache_misses"] > after["cache_misses"]


def test_abs_of_a_shape_that_is_new_does_not_wait(gate: Gate, watch):
    x = torch.full((3, 7, 5, 2), -2.0, device=DEVICE)
    results: list[torch.Tensor] = []
    gate.hold(torch.accelerator.current_stream())
    assert watch.returns(lambda: results.append(x.abs()))
    assert not torch.accelerator.current_stream().query()
    gate.open()
    assert torch.equal(results[0].cpu(), torch.full((3, 7, 5, 2), 2.0))


def test_abs_in_place_keeps_the_memory():
    x = numbers().to(DEVICE)
    pointer = x.data_ptr()
    assert x[:, ::2].abs_() is not None
    expected = numbers()
    expected[:, ::2].abs_()
    assert x.data_ptr() == pointer
    assert torch.equal(x.cpu(), expected)


def test_abs_resizes_its_out():
    x = numbers().to(DEVICE)
    out = torch.empty(0, device=DEVICE)
    assert torch.abs(x, out=out) is out
    assert_same(out, numbers().abs())


@pytest.mark.parametrize(
    "out_of",
    [
        lambda x: torch.empty_like(x, dtype=torch.int32),
        lambda x: x.flatten()[:1].expand(72),
        lambda x: x.flatten()[1:],
    ],
    ids=["another dtype", "overlaps itself", "overlaps the input"],
)
def test_abs_refuses_an_out_as_on_the_cpu(out_of):
    messages = []
    for device in ("cpu", DEVICE):
        x = numbers().to(device).flatten()
        with pytest.raises(RuntimeError) as caught:
            torch.abs(x[: out_of(x).numel()], out=out_of(x))
        messages.append(str(caught.value))
        assert torch.equal(x.cpu(), numbers().flatten())
    assert messages[0] == messages[1]


def test_abs_has_a_gradient():
    x = torch.tensor([-2.0, 0.0, 3.0], device=DEVICE, requires_grad=True)
    x.abs().sum().backward()
    assert x.grad is not None
    assert x.grad.tolist() == [-1.0, 0.0, 1.0]


# An operator of our own: custom_abs


def test_schemas_are_those_that_programs_rely_on():
    schemas = [
        "openreg::custom_abs(Tensor input) -> Tensor",
        "openreg::custom_autograd_fn_returns_self(Tensor input) -> Tensor",
        "openreg::custom_autograd_fn_aliasing(Tensor(a) input) -> Tensor(a)",
    ]
    for schema in schemas:
        name = schema.removeprefix("openreg::").split("(")[0]
        assert str(getattr(OPERATORS, name).default._schema) == schema


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_custom_abs_computes_on_the_device(dtype: torch.dtype):
    with torch.openreg.strict():
        found = OPERATORS.custom_abs(numbers(dtype).to(DEVICE))
    assert_same(found, numbers(dtype).abs())


def test_custom_abs_has_a_kernel_for_its_device_only():
    with pytest.raises(NotImplementedError, match="'CPU' backend"):
        OPERATORS.custom_abs(numbers())


@pytest.mark.parametrize("view", VIEWS.values(), ids=VIEWS.keys())
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_meta_of_custom_abs_tells_what_the_kernel_gives(dtype: torch.dtype, view):
    x = view(numbers(dtype).to(DEVICE))
    real = OPERATORS.custom_abs(x)
    with FakeTensorMode() as mode:
        fake = OPERATORS.custom_abs(mode.from_tensor(x))
    assert fake.device == real.device
    assert (fake.dtype, fake.shape) == (real.dtype, real.shape)
    assert fake.stride() == real.stride()


def test_backward_through_custom_abs_is_an_error():
    x = numbers().to(DEVICE).requires_grad_()
    y = OPERATORS.custom_abs(x)
    assert y.requires_grad
    with pytest.raises(RuntimeError, match="openreg::custom_abs is not implemented"):
        y.sum().backward()


def test_pytorchs_own_checks_of_operators_pass():
    torch.library.opcheck(OPERATORS.custom_abs.default, (numbers().to(DEVICE),))


# torch::autograd::Function: custom_autograd_fn_...

FUNCTIONS = ["custom_autograd_fn_returns_self", "custom_autograd_fn_aliasing"]


def functions(name: str) -> list:
    """The operator, eager and compiled."""
    operator = getattr(OPERATORS, name)
    return [operator, torch.compile(operator, backend="aot_eager", fullgraph=True)]


@pytest.mark.parametrize("device", [DEVICE, "cpu"])
@pytest.mark.parametrize("name", FUNCTIONS)
def test_the_gradient_is_halved_eager_and_compiled(name: str, device: str):
    for function in functions(name):
        x = torch.arange(4.0, device=device, requires_grad=True)
        y = function(x)
        assert torch.equal(y, x)
        (y * 3).sum().backward()
        assert x.grad is not None
        assert x.grad.tolist() == [1.5] * 4


@pytest.mark.parametrize("name", FUNCTIONS)
def test_the_result_has_the_memory_of_the_input(name: str):
    x = torch.arange(4.0, device=DEVICE, requires_grad=True)
    y = getattr(OPERATORS, name)(x)
    assert y is not x
    assert y.data_ptr() == x.data_ptr()


@pytest.mark.parametrize("name", FUNCTIONS)
def test_without_autograd_the_operator_is_there_as_well(name: str):
    with torch.inference_mode():
        y = getattr(OPERATORS, name)(torch.arange(4.0, device=DEVICE))
    assert y.tolist() == [0.0, 1.0, 2.0, 3.0]


# A fallback for one operator: custom_sub


@pytest.fixture
def _no_report():
    torch.openreg.reset_fallback_report()
    yield
    torch.openreg.reset_fallback_report()


@pytest.mark.usefixtures("_no_report")
def test_custom_sub_falls_back_and_is_counted_with_its_reason():
    a, b = numbers().to(DEVICE), torch.ones(3, 4, 6, device=DEVICE)
    for _ in range(2):
        assert_same(OPERATORS.custom_sub(a, b), numbers() - 1)
    (use,) = torch.openreg.fallback_report()
    assert use.operator == "openreg::custom_sub"
    assert use.count == 2
    assert use.bytes == 2 * (a.nbytes + b.nbytes)
    assert use.reason == "the operator is registered to fall back"
    assert "test_registration_forms.py" in use.where


@pytest.mark.usefixtures("_no_report")
def test_custom_sub_is_refused_in_strict_mode_and_sub_is_not():
    a, b = numbers().to(DEVICE), torch.ones(3, 4, 6, device=DEVICE)
    with torch.openreg.strict():
        with pytest.raises(NotImplementedError, match="custom_sub would run on the C"):
            OPERATORS.custom_sub(a, b)
        assert_same(a - b, numbers() - 1)
    assert torch.openreg.fallback_report() == ()


# The global fallback


@pytest.mark.usefixtures("_no_report")
def test_an_operator_that_comes_later_reaches_the_global_fallback():
    torch_openreg._C._register_late_operators()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        y = torch.ops.openreg_late.double(numbers().to(DEVICE))
    assert_same(y, numbers() * 2)
    (use,) = torch.openreg.fallback_report()
    assert use.operator == "openreg_late::double"
    assert use.reason == "the operator was registered after the backend"
