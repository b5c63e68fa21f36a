"""What needs data waits for it; what needs shapes alone does not."""

from collections.abc import Callable

import pytest
import torch
from compare import DEVICE, assert_same, numbers

Tensor = torch.Tensor


# Shapes need no data


SHAPE_ONLY: dict[str, Callable[[Tensor], object]] = {
    "view": lambda x: x.view(-1),
    "reshape": lambda x: x.reshape(4, 3),
    "transpose": lambda x: x.t(),
    "permute": lambda x: x.permute(1, 0),
    "slice": lambda x: x[1:, ::2],
    "select": lambda x: x[1],
    "expand": lambda x: x[:1].expand(5, 4),
    "split": lambda x: x.split(2),
    "chunk": lambda x: x.chunk(2, 1),
    "unbind": lambda x: x.unbind(),
    "unfold": lambda x: x.unfold(0, 2, 1),
    "diagonal": lambda x: x.diagonal(),
    "squeeze": lambda x: x[None].squeeze(0),
    "as_strided": lambda x: x.as_strided((2, 2), (1, 2)),
    "view as integers": lambda x: x.view(torch.int32),
    "detach": lambda x: x.detach(),
    "alias": lambda x: x.view_as(x),
    "size": lambda x: (x.shape, x.stride(), x.numel(), x.is_contiguous()),
    "empty_like": torch.empty_like,
    "new_empty": lambda x: x.new_empty(3),
    "broadcast": lambda x: torch.broadcast_tensors(x, x[:1]),
}


@pytest.mark.parametrize("name", SHAPE_ONLY)
def test_shape_only_operations_neither_wait_nor_launch(gate, watch, name):
    x = numbers(3, 4).to(DEVICE)
    gate.hold()
    before = torch.openreg.engine_stats()
    assert watch.returns(lambda: SHAPE_ONLY[name](x))
    after = torch.openreg.engine_stats()
    assert after["launches"] == before["launches"]
    assert after["synchronous_runs"] == before["synchronous_runs"]


# What needs data waits

NEEDS_DATA: dict[str, Callable[[Tensor], object]] = {
    "item": lambda x: x[0, 0].item(),
    "float": lambda x: float(x[0, 0]),
    "int": lambda x: int(x[0, 0]),
    "bool": lambda x: bool(x[0, 0]),
    "tolist": lambda x: x.tolist(),
    "cpu": lambda x: x.cpu(),
    "nonzero": lambda x: x.nonzero(),
    "where": lambda x: torch.where(x > 0),
    "mask": lambda x: x[x > 0],
    "masked_select": lambda x: x.masked_select(x > 0),
    "unique": lambda x: x.unique(),
    "unique_consecutive": lambda x: x.unique_consecutive(),
    "bincount": lambda x: x.flatten().long().abs().bincount(),
    "equal": lambda x: torch.equal(x, x.clone()),
    "allclose": lambda x: torch.allclose(x, x.clone()),
    "repr": lambda x: repr(x).replace(", device='openreg:0'", ""),
    "repeat_interleave": lambda x: x[0].repeat_interleave(x[0].long().abs()),
    "is_nonzero": lambda x: x[0, 0].is_nonzero(),
}


@pytest.mark.parametrize("name", NEEDS_DATA)
def test_what_needs_data_waits_for_it_and_gives_the_cpus(gate, watch, name):
    x = numbers(3, 4)
    ours = x.to(DEVICE)
    gate.hold()
    ours.mul_(2)
    results: list[object] = []
    assert watch.waits(lambda: results.append(NEEDS_DATA[name](ours)))
    gate.open()
    watch.finish()
    assert_same_or_equal(results[0], NEEDS_DATA[name](x * 2))


def assert_same_or_equal(found: object, expected: object) -> None:
    if isinstance(found, Tensor) and found.device.type == "cpu":
        found = found.to(DEVICE)
    assert_same(found, expected)
