"""What a program did on a device: results, exception, warnings."""

import random
import re
import warnings
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import torch

DEVICE = "openreg"
_SEED = 20
# What PyTorch says once in a process: while it compiles its decompositions, when the
# first tensor of complex32 is made, which a kernel's temporary may be, and about a
# library that it uses for the CPU.
_ONLY_ONCE = ("`torch.jit.", "ComplexHalf support is experimental", "with oneDNN")


@dataclass
class Observed:
    """What a program saw: its arguments after the call, and the results."""

    inputs: Any
    outputs: Any


Program = Callable[[str], Observed]


@dataclass
class Outcome:
    """``error`` is what was raised, and then there is no ``observed``."""

    observed: Observed | None = None
    error: Exception | None = None
    warnings: frozenset[str] = field(default_factory=frozenset)


def _text(warning: warnings.WarningMessage) -> str:
    """The warning, the same for all devices, without where it came from."""
    text = str(warning.message).replace("openreg:0", "cpu").replace(DEVICE, "cpu")
    text = re.sub(r"\(Triggered internally at .*?\)", "", text)
    text = re.sub(r"0x[0-9a-f]+", "0x", text)
    return f"{warning.category.__name__}: {text.strip()}"


def observe(program: Program, device: str) -> Outcome:
    """Run ``program`` to its end, with the seeds set."""
    random.seed(_SEED)
    torch.manual_seed(_SEED)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        outcome = _run(program, device)
    texts = map(_text, caught)
    outcome.warnings = frozenset(
        text for text in texts if not any(part in text for part in _ONLY_ONCE)
    )
    return outcome


def _run(program: Program, device: str) -> Outcome:
    try:
        observed = program(device)
        if device == DEVICE:
            torch.openreg.synchronize()
    except Exception as error:
        _forget_frames(error)
        if device == DEVICE:
            _clear_failures()
        return Outcome(error=error)
    return Outcome(observed=observed)


def _forget_frames(error: BaseException | None) -> None:
    """Frames hold tensors, which would look like a leak."""
    while error is not None:
        error.__traceback__ = None
        error = error.__cause__ or error.__context__


def _clear_failures() -> None:
    """Failures that are still to be reported belong to this program."""
    for _ in range(8):
        try:
            torch.openreg.synchronize()
        except Exception:
            continue
        return
