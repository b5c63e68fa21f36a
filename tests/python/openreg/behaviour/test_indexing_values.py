"""Indexing reads and writes what it does on the CPU, with indices of either device."""

import numpy
import pytest
import torch
from compare import DEVICE
from observe import assert_same_behaviour


def cube(device: str) -> torch.Tensor:
    return torch.arange(24.0, device=device).view(2, 3, 4)


def at(values: object, x: torch.Tensor) -> torch.Tensor:
    return torch.tensor(values, device=x.device)


INDICES = {
    "number": lambda x: 1,
    "negative": lambda x: -1,
    "slice": lambda x: (slice(None), slice(0, 3, 2)),
    "slice of tensors": lambda x: slice(at(0, x), at(1, x)),
    "backwards": lambda x: slice(None, None, -1),
    "ellipsis": lambda x: (..., 0),
    "none": lambda x: (None, 1, None),
    "true": lambda x: True,
    "false": lambda x: False,
    "list": lambda x: [0, 1],
    "empty list": lambda x: [],
    "tensor": lambda x: at([1, 0, 1], x),
    "negative tensor": lambda x: at([-1, -2], x),
    "tensor of one": lambda x: at(1, x),
    "tensors": lambda x: (at([[0, 1]], x), slice(None), at([[2], [3]], x)),
    "apart": lambda x: (slice(None), at([0, 2], x), None, at([1, 1], x)),
    "mask": lambda x: x > 5,
    "mask of rows": lambda x: (at([True, False], x), at([0], x)),
    "host tensor": lambda x: torch.tensor([1, 0]),
    "host mask": lambda x: torch.tensor([False, True]),
    "array": lambda x: numpy.array([1, 0]),
    "array of truth": lambda x: numpy.array([True, False]),
    "range": lambda x: range(2),
    "too large": lambda x: 7,
    "tensor too large": lambda x: at([0, 7], x),
    "too many": lambda x: (0, 0, 0, 0),
    "wrong mask": lambda x: at([True, False, True], x),
    "floats": lambda x: at([0.5], x),
}


@pytest.mark.parametrize("name", INDICES)
def test_reading_is_as_on_the_cpu(name):
    def program(device):
        x = cube(device)
        return x[INDICES[name](x)]

    assert_same_behaviour(program)


VALUES = {
    "number": lambda x: 5,
    "host number": lambda x: torch.tensor(5.5),
    "number of its device": lambda x: at(5.5, x),
    "too many": lambda x: torch.ones(99, device=x.device),
}


@pytest.mark.parametrize("name", INDICES)
@pytest.mark.parametrize("value", VALUES)
def test_writing_is_as_on_the_cpu(name, value):
    def program(device):
        x = cube(device)
        x[INDICES[name](x)] = VALUES[value](x)
        return x, x._version

    assert_same_behaviour(program)


def test_values_of_another_dtype_are_converted():
    def program(device):
        x = torch.zeros(3, dtype=torch.int, device=device)
        x[0] = 2.7
        x[1] = torch.tensor(3.9)
        return x

    assert_same_behaviour(program)


def test_adding_at_an_index_adds_as_often_as_it_is_named():
    def program(device):
        x = torch.zeros(3, device=device)
        where = (torch.tensor([0, 0, 1], device=device),)
        return x.index_put_(where, torch.tensor(1.0, device=device), accumulate=True)

    assert_same_behaviour(program)


def test_values_of_another_device_are_refused():
    x = cube(DEVICE)
    with pytest.raises(RuntimeError, match="device"):
        x[torch.tensor([0], device=DEVICE)] = torch.ones(1, 3, 4)
