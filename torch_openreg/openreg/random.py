"""Random numbers: seeds and states of the devices' default generators.

A seed gives the numbers that it gives on the CPU. Seeds that are set before the
first use of a device are kept until then.
"""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import overload

import torch
from torch import Tensor

from torch_openreg import _C
from torch_openreg.openreg._lazy import (
    _lazy_call,
    _lazy_init,
    _put_queue,
    _take_queue,
    is_initialized,
)
from torch_openreg.openreg._utils import _get_device_index
from torch_openreg.openreg.devices import current_device, device_count

__all__ = [
    "default_generators",
    "get_rng_state",
    "get_rng_state_all",
    "initial_seed",
    "manual_seed",
    "manual_seed_all",
    "seed",
    "seed_all",
    "set_rng_state",
    "set_rng_state_all",
]

_SEED_ALL = "seed"
_SEED_ONE = "seed.one"


class _DefaultGenerators(Sequence[torch.Generator]):
    """The default generators by device; looking one up initialises."""

    def __len__(self) -> int:
        return device_count()

    @overload
    def __getitem__(self, index: int) -> torch.Generator: ...
    @overload
    def __getitem__(self, index: slice) -> tuple[torch.Generator, ...]: ...
    def __getitem__(
        self, index: int | slice
    ) -> torch.Generator | tuple[torch.Generator, ...]:
        try:
            devices = range(len(self))[index]
        except IndexError:
            raise IndexError(
                f"no default generator {index}: there are {len(self)} openreg devices"
            ) from None
        _lazy_init()
        if isinstance(devices, int):
            return _C._get_default_generator(devices)
        return tuple(_C._get_default_generator(device) for device in devices)

    def __iter__(self) -> Iterator[torch.Generator]:
        return iter(self[:])

    def __repr__(self) -> str:
        return f"<the default generators of {len(self)} openreg devices>"


default_generators: Sequence[torch.Generator] = _DefaultGenerators()


def _index(device: int | str | torch.device) -> int:
    index = _get_device_index(device, optional=True)
    if index < 0:
        raise RuntimeError(f"Device index must not be negative, got {index}")
    return index


def _get_generator(device: torch.device) -> torch.Generator:
    """Return the default generator of ``device``; compiled graphs ask for it."""
    return default_generators[_index(device)]


def get_rng_state(device: int | str | torch.device = "openreg") -> Tensor:
    """Return the state of the default generator of ``device``, a CPU tensor of bytes.

    Waits for the random operators before it. Initialises.
    """
    _lazy_init()
    return default_generators[_index(device)].get_state()


def get_rng_state_all() -> list[Tensor]:
    """Return the states of the default generators of all devices."""
    return [get_rng_state(index) for index in range(device_count())]


def set_rng_state(
    new_state: Tensor, device: int | str | torch.device = "openreg"
) -> None:
    """Set the state of the default generator of ``device``."""
    if not is_initialized():
        # The tensor may change before the initialisation uses it.
        with torch._C._DisableFuncTorch():
            new_state = new_state.clone(memory_format=torch.contiguous_format)
    _lazy_call(lambda: _set_state(new_state, device))


def _set_state(new_state: Tensor, device: int | str | torch.device) -> None:
    default_generators[_index(device)].set_state(new_state)


def set_rng_state_all(new_states: Iterable[Tensor]) -> None:
    """Set the states of the default generators of all devices."""
    for index, state in enumerate(new_states):
        set_rng_state(state, index)


def manual_seed(seed: int) -> None:
    """Seed the default generator of the current device."""
    seed = int(seed)

    def seed_current() -> None:
        default_generators[current_device()].manual_seed(seed)

    _lazy_call(seed_current, key=_SEED_ONE)


def manual_seed_all(seed: int) -> None:
    """Seed the default generators of all devices."""
    seed = int(seed)

    def seed_each() -> None:
        for generator in default_generators:
            generator.manual_seed(seed)

    _lazy_call(seed_each, key=_SEED_ALL)


def seed() -> None:
    """Seed the default generator of the current device with a random number."""

    def seed_current() -> None:
        default_generators[current_device()].seed()

    _lazy_call(seed_current, key=_SEED_ONE)


def seed_all() -> None:
    """Seed the default generators of all devices with one random number."""

    def seed_each() -> None:
        first, *others = default_generators
        chosen = first.seed()
        for generator in others:
            generator.manual_seed(chosen)

    _lazy_call(seed_each, key=_SEED_ALL)


def initial_seed() -> int:
    """Return the seed of the current device's default generator. Initialises."""
    return default_generators[current_device()].initial_seed()


@contextmanager
def _fork_before_first_use() -> Iterator[None]:
    """Fork the devices' random numbers without initialising them.

    What the block seeds is forgotten at its end. Where it is the first to use a
    device, the states of before are noted at that moment and come back.
    """
    waiting = _take_queue()
    states: list[Tensor] = []

    def begin() -> None:
        for call in waiting:
            call.function()
        states.extend(get_rng_state_all())

    _lazy_call(begin)
    try:
        yield
    finally:
        if states:
            set_rng_state_all(states)
        else:
            _put_queue(waiting)
