"""The module ``torch.acme``. Full form: torch_openreg/openreg/__init__.py.

PyTorch calls these by name. Programs find all else in ``torch.accelerator``.
"""

import atexit
from pathlib import Path

import torch
from torch import Tensor, accelerator

Device = int | str | torch.device
current_device = accelerator.current_device_index
set_device = accelerator.set_device_index
synchronize = accelerator.synchronize
device_count = torch._C._accelerator_hooks_device_count  # 0 without a driver


def is_available() -> bool:
    """Return whether there is a device."""
    return device_count() > 0


def _is_in_bad_fork() -> bool:
    """Return False: a forked child gets the driver's own error."""
    return False


def _index(device: Device) -> int:
    index = device if isinstance(device, int) else torch.device(device).index
    return current_device() if index is None else index


def device(device: Device) -> accelerator.device_index:
    """Return a context in which ``device`` is the current one."""
    return accelerator.device_index(_index(device))


def default_generator(device: Device = "acme") -> torch.Generator:
    """Return the generator that ``device`` draws from."""
    generator: torch.Generator = torch.ops.acme.default_generator(_index(device))
    return generator


def manual_seed(seed: int) -> None:
    """Seed the current device."""
    default_generator().manual_seed(seed)


def manual_seed_all(seed: int) -> None:
    """Seed every device; ``torch.manual_seed`` calls this."""
    for index in range(device_count()):
        default_generator(index).manual_seed(seed)


def get_rng_state(device: Device = "acme") -> Tensor:
    """Return the state of the generator of ``device``."""
    return default_generator(device).get_state()


def set_rng_state(state: Tensor, device: Device = "acme") -> None:
    """Set the state of the generator of ``device``."""
    default_generator(device).set_state(state)


@atexit.register
def _finish_autograd() -> None:
    """Let autograd's threads drop what is Python's, before Python ends."""
    threads = Path("/proc/self/task").glob("*/comm")
    if any(thread.read_text().startswith("pt_autograd") for thread in threads):
        engine = torch.autograd.Variable._execution_engine
        for index in range(device_count()):
            x = torch.empty(0, device=f"acme:{index}", requires_grad=True)
            engine.run_backward((x,), (x.detach(),), False, False, (), False, True)
