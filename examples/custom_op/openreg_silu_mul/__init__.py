"""``silu(gate) * x`` as one operator, with a kernel of its own on ``openreg``."""

from pathlib import Path

import torch
from torch import Tensor
from torch.autograd.function import FunctionCtx

__all__ = ["silu_mul"]

torch.ops.load_library(str(Path(__file__).parent / "silu_mul_operators.so"))


def silu_mul(x: Tensor, gate: Tensor) -> Tensor:
    """Return ``silu(gate) * x``. Both are float32, of the same sizes."""
    result: Tensor = torch.ops.openreg_silu_mul.silu_mul(x, gate)
    return result


def _setup_context(
    ctx: FunctionCtx, inputs: tuple[Tensor, Tensor], output: Tensor
) -> None:
    ctx.save_for_backward(*inputs)


def _backward(ctx: FunctionCtx, grad: Tensor) -> tuple[Tensor, Tensor]:
    x, gate = ctx.saved_tensors  # type: ignore[attr-defined]
    result: tuple[Tensor, Tensor] = torch.ops.openreg_silu_mul.silu_mul_backward(
        grad, x, gate
    )
    return result


torch.library.register_autograd(
    "openreg_silu_mul::silu_mul", _backward, setup_context=_setup_context
)
