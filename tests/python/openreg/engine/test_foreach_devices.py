"""Operators on lists whose tensors are on several devices, pair by pair."""

from collections.abc import Callable

import pytest
import torch
from compare import DEVICE, numbers

Lists = Callable[[list[torch.Tensor], list[torch.Tensor]], object]
PLACES = {
    "two devices": [f"{DEVICE}:0", f"{DEVICE}:1", f"{DEVICE}:0"],
    "the second first": [f"{DEVICE}:1", f"{DEVICE}:0"],
    "a device and the host": [f"{DEVICE}:0", "cpu"],
    "the host and a device": ["cpu", f"{DEVICE}:1"],
}


def make(places: list[str], offset: float = 0.0) -> list[torch.Tensor]:
    return [(numbers(3, i + 2) + offset).to(p) for i, p in enumerate(places)]


def assert_each_as_on_the_cpu(program: Lists, places: list[str]) -> None:
    """The same values in both lists and the results, each where its input was."""
    ours = make(places), make(places, 1.0)
    theirs = make(["cpu"] * len(places)), make(["cpu"] * len(places), 1.0)
    found, expected = program(*ours), program(*theirs)
    pairs = list(zip(ours[0], theirs[0], strict=True))
    if expected is not None:
        pairs += zip(found, expected, strict=True)
    for (a, b), place in zip(pairs, places * 2, strict=False):
        assert a.device == torch.device(place)
        assert torch.equal(a.cpu(), b)


NEW = {
    "add": lambda x, y: torch._foreach_add(x, 2.0),
    "add of lists": lambda x, y: torch._foreach_add(x, y, alpha=2),
    "mul of scalars": lambda x, y: torch._foreach_mul(x, [2.0] * len(x)),
    "exp": lambda x, y: torch._foreach_exp(x),
    "norm": lambda x, y: torch._foreach_norm(x),
    "lerp": lambda x, y: torch._foreach_lerp(x, y, 0.5),
    "addcmul": lambda x, y: torch._foreach_addcmul(x, y, y, value=2.0),
    "maximum": lambda x, y: torch._foreach_maximum(x, y),
}
IN_PLACE = {
    "add_": lambda x, y: torch._foreach_add_(x, 2.0),
    "add_ of lists": lambda x, y: torch._foreach_add_(x, y),
    "zero_": lambda x, y: torch._foreach_zero_(x),
    "copy_": lambda x, y: torch._foreach_copy_(x, y),
    "addcdiv_": lambda x, y: torch._foreach_addcdiv_(x, y, y, [1.0] * len(x)),
    "out": lambda x, y: torch.ops.aten._foreach_exp.out(y, out=x),
}


@pytest.mark.parametrize("places", PLACES.values(), ids=PLACES)
@pytest.mark.parametrize("program", (NEW | IN_PLACE).values(), ids=NEW | IN_PLACE)
def test_each_tensor_is_computed_where_it_is(program, places):
    assert_each_as_on_the_cpu(program, places)


@pytest.mark.parametrize("program", IN_PLACE.values(), ids=IN_PLACE)
def test_autograd_is_told_of_each_write_once(program):
    places = PLACES["two devices"]
    ours, theirs = make(places), make(["cpu"] * len(places))
    program(ours, make(places, 1.0))
    program(theirs, make(["cpu"] * len(places), 1.0))
    assert [x._version for x in ours] == [x._version for x in theirs]


def test_gradients_flow_through_lists_of_several_devices():
    x = [t.requires_grad_() for t in make(PLACES["two devices"])]
    sum(t.sum().cpu() for t in torch._foreach_mul(x, 3.0)).backward()
    assert [t.grad.unique().tolist() for t in x] == [[3.0]] * 3


def test_no_copy_goes_by_the_host():
    torch.openreg.reset_fallback_report()
    with torch.openreg.strict():
        torch._foreach_add_(make(PLACES["two devices"]), 1.0)
    assert not torch.openreg.fallback_report()


@pytest.mark.parametrize("other", ["cpu", f"{DEVICE}:1"])
def test_a_pair_of_two_devices_is_an_error(other):
    x = make([f"{DEVICE}:0", other])
    y = make([f"{DEVICE}:0", f"{DEVICE}:0"])
    for program in (torch._foreach_add, torch._foreach_mul_):
        with pytest.raises(
            RuntimeError, match="Expected all tensors to be on the same"
        ):
            program(x, y)


def test_copies_go_between_the_devices_of_a_pair():
    x = make([f"{DEVICE}:0", f"{DEVICE}:1", "cpu"])
    y = make([f"{DEVICE}:1", "cpu", f"{DEVICE}:0"], 1.0)
    torch._foreach_copy_(x, y)
    for found, expected in zip(x, y, strict=True):
        assert torch.equal(found.cpu(), expected.cpu())


def test_gradients_of_several_devices_are_clipped_together():
    def norm(places: list[str]) -> float:
        parameters = [t.requires_grad_() for t in make(places)]
        for each in parameters:
            each.grad = each.detach() * 10
        return torch.nn.utils.clip_grad_norm_(parameters, 1.0, foreach=True).item()

    places = PLACES["two devices"]
    assert norm(places) == pytest.approx(norm(["cpu"] * len(places)))
