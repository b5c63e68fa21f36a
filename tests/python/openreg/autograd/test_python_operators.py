"""Operators that are written in Python: where they run, and where they don't."""

from collections.abc import Iterator

import pytest
import torch
from compare import DEVICE, assert_same, numbers

Tensor = torch.Tensor
OPS = torch.ops.openreg_python_test


@pytest.fixture(scope="module", autouse=True)
def _operators() -> Iterator[None]:
    """Operators for every device, for the CPU, for ours, and one with a gradient."""
    library = torch.library.Library("openreg_python_test", "FRAGMENT")

    @torch.library.custom_op("openreg_python_test::anywhere", mutates_args=())
    def anywhere(x: Tensor, factor: float) -> Tensor:
        return x.sin() * factor

    anywhere.register_fake(lambda x, factor: torch.empty_like(x))
    anywhere.register_autograd(
        lambda ctx, g: (g * ctx.saved_tensors[0].cos() * ctx.factor, None),
        setup_context=keep,
    )
    anywhere.register_vmap(lambda info, dims, x, factor: (anywhere(x, factor), dims[0]))

    @torch.library.custom_op(
        "openreg_python_test::on_cpu", mutates_args=(), device_types="cpu"
    )
    def on_cpu(x: Tensor) -> Tensor:
        return torch.from_numpy(x.numpy() * 2)

    @torch.library.custom_op(
        "openreg_python_test::on_device", mutates_args=(), device_types=DEVICE
    )
    def on_device(x: Tensor) -> Tensor:
        return x * 3

    @torch.library.custom_op("openreg_python_test::add_one_", mutates_args={"x"})
    def add_one_(x: Tensor) -> None:
        x.add_(1)

    library.define("plain(Tensor x) -> Tensor")
    library.impl("plain", lambda x: x * 2, "CPU")
    library.define("nowhere(Tensor x) -> Tensor")
    yield
    library._destroy()


def keep(ctx, inputs, output) -> None:
    ctx.save_for_backward(inputs[0])
    ctx.factor = inputs[1]


def test_an_operator_for_every_device_runs_its_parts_on_this_one():
    x = numbers(3, 4)
    with torch.openreg.strict():
        found = OPS.anywhere(x.to(DEVICE), 2.0)
    assert_same(found, OPS.anywhere(x, 2.0))


def test_its_gradient_its_meta_kernel_and_its_rule_for_vmap_are_used():
    x = numbers(3, 4).double()
    leaf = x.to(DEVICE).requires_grad_()
    assert torch.autograd.gradcheck(lambda t: OPS.anywhere(t, 2.0), leaf)
    torch.library.opcheck(OPS.anywhere.default, (leaf.detach(), 2.0))
    batched = torch.func.vmap(lambda t: OPS.anywhere(t, 2.0))(leaf)
    assert_same(batched.detach(), OPS.anywhere(x, 2.0))
    compiled = torch.compile(lambda t: OPS.anywhere(t, 2.0) + 1, backend="aot_eager")
    assert_same(compiled(leaf).detach(), OPS.anywhere(x, 2.0) + 1)


def test_an_operator_that_writes_its_argument_tells_autograd():
    x, there = torch.zeros(3), torch.zeros(3, device=DEVICE)
    OPS.add_one_(x)
    OPS.add_one_(there)
    assert_same(there, x)
    assert there._version == x._version > 0


def test_a_kernel_for_this_device_serves_this_device_only():
    assert OPS.on_device(torch.ones(2, device=DEVICE)).tolist() == [3.0, 3.0]
    with pytest.raises(NotImplementedError, match="'CPU' backend"):
        OPS.on_device(torch.ones(2))


@pytest.mark.parametrize("name", ["on_cpu", "plain"])
def test_a_kernel_of_python_for_the_cpu_does_not_run_on_the_device(name: str):
    operator = getattr(OPS, name)
    assert operator(torch.ones(2)).tolist() == [2.0, 2.0]
    torch.openreg.reset_fallback_report()
    with pytest.raises(
        NotImplementedError,
        match=f"Could not run 'openreg_python_test::{name}' with arguments from the "
        "'openreg' backend.*written in Python",
    ):
        operator(torch.ones(2, device=DEVICE))
    assert torch.openreg.fallback_report() == ()


def test_a_kernel_that_is_registered_for_the_device_then_runs():
    @torch.library.custom_op(
        "openreg_python_test::later", mutates_args=(), device_types="cpu"
    )
    def later(x: Tensor) -> Tensor:
        return x + 1

    x = torch.ones(2, device=DEVICE)
    with pytest.raises(NotImplementedError):
        later(x)
    later.register_kernel(DEVICE)(lambda x: x + 2)
    assert later(x).tolist() == [3.0, 3.0]
    assert later(x.cpu()).tolist() == [2.0, 2.0]


def test_an_operator_without_any_kernel_says_so_for_the_device():
    with pytest.raises(NotImplementedError, match=r"'openreg' backend.*for the CPU"):
        OPS.nowhere(torch.ones(2, device=DEVICE))


def test_torch_library_autocast_rules_hold_for_the_device():
    torch.library.register_autocast(
        "openreg_python_test::anywhere", DEVICE, torch.float16
    )
    with torch.autocast(DEVICE):
        assert OPS.anywhere(torch.ones(2, device=DEVICE), 2.0).dtype == torch.float16
    assert OPS.anywhere(torch.ones(2, device=DEVICE), 2.0).dtype == torch.float32
