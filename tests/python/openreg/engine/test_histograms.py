"""Integers are counted, as other accelerators do; the CPU counts floats alone."""

import pytest
import torch
from compare import DEVICE, assert_as_on_the_cpu, numbers

INTEGERS = (torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64)
VALUES = [3, 0, 1, 3, 9, 7, 0, 2]


@pytest.mark.parametrize("dtype", INTEGERS)
@pytest.mark.parametrize(("low", "high"), [(0, 9), (1, 7), (0, 0)])
def test_integers_are_counted_as_floats_are(dtype, low, high):
    counted = torch.histc(
        torch.tensor(VALUES, dtype=dtype, device=DEVICE), 5, low, high
    )
    expected = torch.histc(torch.tensor(VALUES, dtype=torch.double), 5, low, high)
    assert counted.dtype == dtype
    assert counted.tolist() == expected.tolist()


def test_counts_of_integers_fill_an_output_and_resize_it():
    out = torch.empty(0, dtype=torch.int32, device=DEVICE)
    values = torch.tensor(VALUES, dtype=torch.int32, device=DEVICE)
    assert torch.histc(values, bins=3, min=0, max=9, out=out) is out
    assert out.tolist() == [4, 2, 2]


def test_an_output_of_another_dtype_is_refused():
    out = torch.empty(3, device=DEVICE)
    values = torch.tensor(VALUES, dtype=torch.int32, device=DEVICE)
    with pytest.raises(RuntimeError, match="same dtype"):
        torch.histc(values, bins=3, min=0, max=9, out=out)


def test_floats_are_counted_as_on_the_cpu():
    values = numbers(100)
    assert_as_on_the_cpu(lambda device: torch.histc(values.to(device), bins=7))
    assert_as_on_the_cpu(
        lambda device: torch.histc(
            values.to(device), bins=7, out=torch.empty(7, device=device)
        )
    )


def test_truth_values_are_refused():
    with pytest.raises(NotImplementedError):
        torch.histc(torch.tensor([True, False], device=DEVICE), bins=2, min=0, max=1)
