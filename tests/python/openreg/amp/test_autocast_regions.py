"""Regions of autocast: nested, switched off, of threads; and what is refused."""

import threading
from collections.abc import Callable

import pytest
import torch
from compare import DEVICE


def low(x: torch.Tensor) -> torch.dtype:
    """The type that a product of matrices runs in now."""
    return torch.mm(x, x).dtype


@pytest.fixture
def x() -> torch.Tensor:
    return torch.ones(3, 3, device=DEVICE)


def test_the_default_type_is_half_and_nothing_is_cast_outside(x: torch.Tensor):
    assert torch.amp.is_autocast_available(DEVICE)
    assert torch.get_autocast_dtype(DEVICE) == torch.float16
    assert not torch.is_autocast_enabled(DEVICE)
    assert low(x) == torch.float32
    with torch.autocast(DEVICE):
        assert torch.is_autocast_enabled(DEVICE)
        assert low(x) == torch.float16
        assert torch.asin(x.half()).dtype == torch.float32
        assert torch.add(x, x).dtype == torch.float32
    assert low(x) == torch.float32


def test_both_low_types_can_be_computed_in():
    assert torch.openreg.get_amp_supported_dtype() == [torch.float16, torch.bfloat16]


def test_regions_nest(x: torch.Tensor):
    with torch.autocast(DEVICE):
        with torch.autocast(DEVICE, dtype=torch.bfloat16):
            assert low(x) == torch.bfloat16
            with torch.autocast(DEVICE, enabled=False):
                assert low(x) == torch.float32
            assert low(x) == torch.bfloat16
        assert low(x) == torch.float16


def test_a_region_ends_with_an_exception(x: torch.Tensor):
    with pytest.raises(ZeroDivisionError), torch.autocast(DEVICE):
        raise ZeroDivisionError
    assert low(x) == torch.float32


def test_the_modules_own_class_and_decorator(x: torch.Tensor):
    with torch.openreg.amp.autocast(dtype=torch.bfloat16):
        assert low(x) == torch.bfloat16
    with torch.openreg.amp.autocast(enabled=False):
        assert low(x) == torch.float32
    assert torch.autocast(DEVICE)(low)(x) == torch.float16


def test_autocast_of_another_device_changes_nothing_here(x: torch.Tensor):
    with torch.autocast("cpu"):
        assert low(x) == torch.float32
    with torch.autocast(DEVICE):
        assert low(x.cpu()) == torch.float32


def test_a_region_is_its_threads_own(x: torch.Tensor):
    found: list[torch.dtype] = []
    with torch.autocast(DEVICE):
        thread = threading.Thread(target=lambda: found.append(low(x)))
        thread.start()
        thread.join()
    assert found == [torch.float32]


def test_a_weight_is_cast_once_a_region(x: torch.Tensor):
    weight = torch.nn.Parameter(x.clone())

    def casts(cache: bool) -> int:
        with (
            torch.autocast(DEVICE, cache_enabled=cache),
            torch.profiler.profile() as profile,
        ):
            torch.mm(x, weight)
            torch.mm(x, weight)
        return sum(e.count for e in profile.key_averages() if e.key == "aten::_to_copy")

    assert casts(cache=True) == 3  # of x twice: only leaves are kept
    assert casts(cache=False) == 4


def test_a_cached_cast_is_forgotten_with_the_region(x: torch.Tensor):
    weight = torch.nn.Parameter(x.clone())
    with torch.autocast(DEVICE):
        before = torch.mm(x, weight)
    with torch.no_grad():
        weight.mul_(2)
    with torch.autocast(DEVICE):
        after = torch.mm(x, weight)
    assert torch.equal(after, before * 2)


def test_in_place_and_out_are_left_alone(x: torch.Tensor):
    with torch.autocast(DEVICE):
        out = torch.empty_like(x)
        assert torch.mm(x, x, out=out).dtype == torch.float32
        assert torch.ones_like(x).addmm_(x, x).dtype == torch.float32


def test_backward_runs_in_the_types_of_the_forward(x: torch.Tensor):
    seen: list[torch.dtype] = []
    leaf = x.clone().requires_grad_()
    with torch.autocast(DEVICE):
        product = torch.mm(leaf, x)
    product.register_hook(lambda gradient: seen.append(gradient.dtype))
    product.float().sum().backward()
    assert seen == [torch.float16]
    assert leaf.grad is not None
    assert leaf.grad.dtype == torch.float32


class InSixteenBits(torch.autograd.Function):
    """Notes the types that it runs in; under autocast it takes float32."""

    seen: list[object]

    @staticmethod
    @torch.amp.custom_fwd(device_type=DEVICE, cast_inputs=torch.float32)
    def forward(ctx, x: torch.Tensor) -> torch.Tensor:  # noqa: D102
        InSixteenBits.seen += [x.dtype, torch.is_autocast_enabled(DEVICE)]
        ctx.save_for_backward(x)
        return x * x

    @staticmethod
    @torch.amp.custom_bwd(device_type=DEVICE)
    def backward(ctx, gradient: torch.Tensor) -> torch.Tensor:  # noqa: D102
        InSixteenBits.seen += [gradient.dtype, torch.is_autocast_enabled(DEVICE)]
        (x,) = ctx.saved_tensors
        return 2 * x * gradient


def test_custom_fwd_casts_and_switches_off_for_forward_and_backward(x: torch.Tensor):
    InSixteenBits.seen = []
    leaf = x.half().requires_grad_()
    with torch.autocast(DEVICE):
        InSixteenBits.apply(leaf).sum().backward()
    assert InSixteenBits.seen == [torch.float32, False, torch.float32, False]
    assert leaf.grad is not None
    assert leaf.grad.tolist() == [[2.0] * 3] * 3


class AsTheForward(torch.autograd.Function):
    """Without a type to cast to: the backward has the forward's autocast."""

    @staticmethod
    @torch.openreg.amp.custom_fwd
    def forward(ctx, x: torch.Tensor) -> torch.Tensor:  # noqa: D102
        ctx.save_for_backward(x)
        return torch.mm(x, x)

    @staticmethod
    @torch.openreg.amp.custom_bwd
    def backward(ctx, gradient: torch.Tensor) -> torch.Tensor:  # noqa: D102
        (x,) = ctx.saved_tensors
        product = torch.mm(gradient, x.t())
        assert product.dtype == torch.bfloat16
        return product.float() * 2


def test_custom_bwd_has_the_state_of_the_forward(x: torch.Tensor):
    leaf = x.clone().requires_grad_()
    with torch.autocast(DEVICE, dtype=torch.bfloat16):
        result = AsTheForward.apply(leaf)
    assert result.dtype == torch.bfloat16
    result.float().sum().backward()
    assert leaf.grad is not None


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.int32], ids=str)
def test_another_type_warns_and_switches_autocast_off(
    dtype: torch.dtype, x: torch.Tensor
):
    text = "In openreg autocast, but the target dtype is not supported. Disabling"
    with pytest.warns(UserWarning, match=text) as record:
        region = torch.autocast(DEVICE, dtype=dtype)
    assert "dtypes of torch.float16, torch.bfloat16 currently" in str(record[0].message)
    with region:
        assert not torch.is_autocast_enabled(DEVICE)
        assert low(x) == torch.float32
    assert torch.get_autocast_dtype(DEVICE) == torch.float16
    with torch.autocast(DEVICE):
        assert low(x) == torch.float16


NO_KERNEL: dict[str, tuple[Callable[[torch.Tensor], torch.Tensor], str]] = {
    "pool": (
        lambda half: torch.nn.functional.avg_pool3d(half.view(1, 1, 3, 3), 1),
        "not implemented for 'Half'",
    ),
    "transform": (torch.fft.fft, "Unsupported dtype Half"),
    "factor": (torch.linalg.cholesky, "not implemented for 'Half'"),
}


@pytest.mark.parametrize("name", NO_KERNEL)
def test_an_operator_without_a_kernel_for_half_is_refused(name: str, x: torch.Tensor):
    operator, message = NO_KERNEL[name]
    with torch.autocast(DEVICE):
        half = torch.mm(x, x)
        with pytest.raises(RuntimeError, match=message):
            operator(half)
        assert torch.isfinite(half).all()
        assert low(x) == torch.float16
        with torch.autocast(DEVICE, enabled=False):
            operator(torch.eye(3, device=DEVICE))
    assert low(x) == torch.float32


def test_binary_cross_entropy_is_refused_and_its_safe_form_is_not(x: torch.Tensor):
    with torch.autocast(DEVICE):
        with pytest.raises(RuntimeError, match="are unsafe to autocast"):
            torch.nn.functional.binary_cross_entropy(x, x)
        safe = torch.nn.functional.binary_cross_entropy_with_logits(x.half(), x)
    assert safe.dtype == torch.float32


def test_bad_arguments_are_refused(x: torch.Tensor):
    with pytest.raises(RuntimeError, match="unsupported"):
        torch.autocast("meta", dtype=torch.float16)
    with pytest.raises(RuntimeError, match="device type at start of device string"):
        torch.autocast("opnreg")
    with pytest.raises(ValueError, match="Expected `device_type` of type `str`"):
        torch.autocast(torch.device(DEVICE))
    with torch.autocast(DEVICE), pytest.raises(RuntimeError, match="shapes cannot be"):
        torch.mm(x, x[:2])
    with (
        torch.autocast(DEVICE),
        pytest.raises(RuntimeError, match="all tensors to be on the same device"),
    ):
        torch.mm(x, x.cpu())
