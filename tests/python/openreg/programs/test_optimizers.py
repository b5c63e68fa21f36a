"""Optimizers in all their forms: for each parameter, on lists, fused."""

import pytest
import torch
from compare import DEVICE, assert_as_on_the_cpu
from torch.utils._python_dispatch import TorchDispatchMode

OPTIMIZERS = ("SGD", "Adam", "AdamW", "Adagrad", "RMSprop")
FUSED = ("SGD", "Adam", "AdamW", "Adagrad")


def trained(name: str, device: str, **options: bool) -> list[torch.Tensor]:
    """Parameters after a few steps."""
    leaves = [
        torch.linspace(-1, 1, n, device=device).requires_grad_() for n in (3, 5, 1)
    ]
    optimizer = getattr(torch.optim, name)(leaves, lr=0.1, **options)
    for _ in range(3):
        optimizer.zero_grad()
        torch.stack([leaf.square().sum() for leaf in leaves]).sum().backward()
        optimizer.step()
    return [leaf.detach() for leaf in leaves]


@pytest.mark.parametrize(
    ("name", "form"),
    [(name, {"foreach": foreach}) for name in OPTIMIZERS for foreach in (False, True)]
    + [(name, {"fused": True}) for name in FUSED],
    ids=str,
)
def test_a_step_of_every_form_is_the_cpus(name: str, form: dict[str, bool]):
    assert_as_on_the_cpu(lambda device: trained(name, device, **form))


class Names(TorchDispatchMode):
    """Collects the names of the operators that are called."""

    def __init__(self) -> None:
        super().__init__()
        self.seen: set[str] = set()

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        self.seen.add(str(func))
        return func(*args, **(kwargs or {}))


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_lists_are_what_is_taken_by_itself(name: str):
    with Names() as names:
        trained(name, DEVICE)
    assert any("_foreach_" in operator for operator in names.seen)


@pytest.mark.parametrize(
    ("options", "place"),
    [({}, "cpu"), ({"capturable": True}, "openreg:0"), ({"fused": True}, "openreg:0")],
    ids=str,
)
def test_adam_counts_its_steps_where_cuda_does(options: dict[str, bool], place: str):
    leaf = torch.ones(2, device=DEVICE, requires_grad=True)
    leaf.grad = torch.ones_like(leaf)
    optimizer = torch.optim.Adam([leaf], **options)
    optimizer.step()
    step = optimizer.state[leaf]["step"]
    assert str(step.device) == place
    assert step.item() == 1


def test_a_fused_step_with_a_gradient_on_the_host_is_refused_and_changes_nothing():
    leaf = torch.ones(2, device=DEVICE, requires_grad=True)
    with pytest.raises(RuntimeError, match="device"):
        leaf.grad = torch.ones(2)
    assert leaf.grad is None
    torch.optim.Adam([leaf], fused=True).step()
    assert leaf.tolist() == [1.0, 1.0]
