"""``set_sync_debug_mode`` tells of operations that make the host wait."""

import warnings
from collections.abc import Callable, Iterator

import pytest
import torch
from compare import DEVICE
from torch import openreg

Tensor = torch.Tensor
MESSAGE = "called a synchronizing OpenReg operation"


@pytest.fixture(autouse=True)
def _default_mode() -> Iterator[None]:
    assert openreg.get_sync_debug_mode() == 0
    yield
    openreg.set_sync_debug_mode(0)


SYNCHRONIZING: dict[str, Callable[[Tensor], object]] = {
    "item": lambda x: x[0].item(),
    "float": lambda x: float(x[0]),
    "bool": lambda x: bool(x[0]),
    "tolist": lambda x: x.tolist(),
    "nonzero": lambda x: x.nonzero(),
    "mask": lambda x: x[x > 0],
    "masked_select": lambda x: x.masked_select(x > 0),
    "unique": lambda x: x.unique(),
    "equal": lambda x: torch.equal(x, x),
    "cpu": lambda x: x.cpu(),
    "copy to the host": lambda x: torch.empty(4).copy_(x),
    "copy from the host": lambda x: x.copy_(torch.ones(4)),
    "to": lambda x: torch.ones(4).to(DEVICE),
    "pinned but blocking": lambda x: x.copy_(torch.ones(4).pin_memory()),
    "Stream.synchronize": lambda x: openreg.current_stream().synchronize(),
    "torch.Stream.synchronize": lambda x: torch.Stream(DEVICE).synchronize(),
}
NOT: dict[str, Callable[[Tensor], object]] = {
    "add": lambda x: x + 1,
    "in place": lambda x: x.mul_(2),
    "view": lambda x: x.view(2, 2),
    "matmul": lambda x: x.view(2, 2) @ x.view(2, 2),
    "relu": lambda x: x.relu(),
    "an operator without Meta": lambda x: torch.nn.functional.layer_norm(
        x.view(2, 2), (2,)
    ),
    "index": lambda x: x[x.long()],
    "setitem": lambda x: x.__setitem__(0, 3.0),
    "random": lambda x: torch.randn(3, device=DEVICE),
    "empty": lambda x: torch.empty(3, device=DEVICE),
    "full": lambda x: torch.full((3,), 2.0, device=DEVICE),
    "clone": lambda x: x.clone(),
    "copy on the device": lambda x: x.copy_(x.clone()),
    "device synchronize": lambda x: openreg.synchronize(),
    "accelerator synchronize": lambda x: torch.accelerator.synchronize(),
    "event synchronize": lambda x: (
        openreg.current_stream().record_event().synchronize()
    ),
    "query": lambda x: openreg.current_stream().query(),
    "wait_stream": lambda x: openreg.Stream().wait_stream(openreg.current_stream()),
    "backward": lambda x: (x.clone().requires_grad_() * 2).sum().backward(),
}


@pytest.mark.parametrize("name", SYNCHRONIZING)
def test_what_waits_is_an_error_and_a_warning_and_allowed(name):
    x = torch.ones(4, device=DEVICE)
    call = SYNCHRONIZING[name]
    openreg.set_sync_debug_mode("error")
    with pytest.raises(RuntimeError, match=MESSAGE):
        call(x)
    openreg.set_sync_debug_mode("warn")
    with pytest.warns(UserWarning, match=MESSAGE):
        call(x)
    openreg.set_sync_debug_mode("default")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        call(x)
    assert x.sum().item() == 4.0


@pytest.mark.parametrize("name", NOT)
@pytest.mark.parametrize("mode", ["warn", "error"])
def test_what_does_not_wait_or_is_asked_for_by_name_is_allowed(name, mode):
    x = torch.ones(4, device=DEVICE)
    openreg.set_sync_debug_mode(mode)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        NOT[name](x)


def test_an_asynchronous_copy_with_pinned_memory_is_allowed():
    x = torch.ones(4, device=DEVICE)
    pinned = torch.zeros(4).pin_memory()
    openreg.set_sync_debug_mode("error")
    pinned.copy_(x, non_blocking=True)
    x.copy_(pinned, non_blocking=True)
    openreg.synchronize()
    assert pinned.sum().item() == 4.0


@pytest.mark.parametrize(
    ("mode", "number"),
    [(0, 0), (1, 1), (2, 2), ("default", 0), ("warn", 1), ("error", 2)],
)
def test_modes_have_numbers_and_names(mode, number):
    openreg.set_sync_debug_mode(mode)
    assert openreg.get_sync_debug_mode() == number


@pytest.mark.parametrize("mode", [-1, 3, 99, "", "Warn", "none"])
def test_another_mode_is_refused_and_changes_nothing(mode):
    openreg.set_sync_debug_mode(1)
    with pytest.raises(RuntimeError, match="invalid value of debug_mode"):
        openreg.set_sync_debug_mode(mode)
    assert openreg.get_sync_debug_mode() == 1


def test_an_error_leaves_the_device_as_it_was():
    x = torch.ones(4, device=DEVICE)
    openreg.set_sync_debug_mode("error")
    for _ in range(3):
        with pytest.raises(RuntimeError, match=MESSAGE):
            x.nonzero()
    x.add_(1)
    openreg.set_sync_debug_mode("default")
    assert x.tolist() == [2.0] * 4
