"""What a program does besides computing: warnings, errors, strides, identity.

A program takes the name of a device. It is run on the CPU and twice on ours: a first
call is rehearsed, a second one is known.
"""

import builtins
import re
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import torch
from compare import DEVICE
from promises import runs_at_the_call

Program = Callable[[str], object]


def _plain(value: object) -> object:
    """``value`` with tensors as what can be compared; a NaN equals a NaN."""
    if isinstance(value, torch.Tensor):
        host = value.detach().cpu()
        return (
            value.dtype,
            tuple(value.shape),
            value.stride(),
            value.requires_grad,
            repr(host.resolve_conj().resolve_neg().tolist()),
        )
    if isinstance(value, tuple | list):
        return [_plain(element) for element in value]
    if isinstance(value, dict):
        return {key: _plain(element) for key, element in value.items()}
    return value


def _without_device(text: str) -> str:
    """``text`` without what only says on which device it happened."""
    text = re.sub(r" \(Triggered internally.*", "", text, flags=re.DOTALL)
    return text.replace("openreg:0", "cpu").replace("openreg", "cpu")


@contextmanager
def all_warnings() -> Iterator[None]:
    """Within the block, PyTorch gives every warning every time."""
    before = torch.is_warn_always_enabled()
    torch.set_warn_always(True)
    try:
        yield
    finally:
        torch.set_warn_always(before)


def told_by(error: Exception) -> tuple[type, str]:
    """The type and the first line of an error.

    Where data has caused it and the device is a process of its own, it comes later than
    the call, as an AcceleratorError that tells of both.
    """
    late = re.search(r"failed on device \d: (\w+): (.*)", str(error))
    if late and isinstance(error, torch.AcceleratorError) and not runs_at_the_call():
        kind = getattr(builtins, late[1], None) or getattr(torch.linalg, late[1])
        return kind, _without_device(late[2])
    return type(error), _without_device(str(error).split("\n")[0])


def observe(program: Program, device: str) -> dict[str, object]:
    """The result or the error of ``program``, and its warnings in their order."""
    seen: dict[str, object] = {}
    torch.manual_seed(3)
    torch.storage._reset_warn_typed_storage_removal()
    with all_warnings(), warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            seen["result"] = _plain(program(device))
            torch.openreg.synchronize()
        except Exception as error:
            seen["error"] = told_by(error)
    seen["warnings"] = [
        (warning.category, _without_device(str(warning.message))) for warning in caught
    ]
    return seen


def assert_same_behaviour(program: Program) -> dict[str, object]:
    """The device does what the CPU does, at first and again; returns what that is."""
    expected = observe(program, "cpu")
    assert observe(program, DEVICE) == expected
    assert observe(program, DEVICE) == expected
    return expected
