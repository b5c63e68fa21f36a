"""What every driver promises about errors that data causes, and what one promises.

A device that lives in this process runs small work on an idle stream before its call
returns: the call raises what the CPU raises. A device in a process of its own tells of
it later, as every device does of work that was queued.
"""

from collections.abc import Callable

import torch
from compare import failure_of


def runs_at_the_call() -> bool:
    """Whether small work on an idle stream is done when its call returns."""
    return not torch.openreg.get_device_properties(0).isolated


def data_failure_of(program: Callable[[], object]) -> Exception:
    """What ``program`` raises, which it must, or the next synchronisation."""

    def whole() -> None:
        program()
        torch.openreg.synchronize()

    return failure_of(program if runs_at_the_call() else whole)


def assert_same_failure(found: Exception, expected: Exception) -> None:
    """``found`` tells what the CPU's ``expected`` tells.

    At the call it is of the same type; later it is an AcceleratorError that names it.
    """
    first_line = str(expected).splitlines()[0]
    if runs_at_the_call():
        assert type(found) is type(expected)
        assert str(found).splitlines()[0] == first_line
    else:
        assert isinstance(found, torch.AcceleratorError)
        assert f"{type(expected).__name__}: {first_line}" in str(found)
