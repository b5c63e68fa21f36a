"""Operators that notice whether two arguments are one tensor."""

import pytest
import torch
from compare import assert_as_on_the_cpu, assert_refused_as_on_the_cpu, numbers

Tensor = torch.Tensor


@pytest.mark.parametrize(
    "name", ["logical_and_", "logical_or_", "logical_xor_", "ldexp_", "addr_"]
)
def test_an_operator_in_place_does_not_grow_its_tensor(name):
    """PyTorch takes these apart: the tensor is an input and `out` of another."""

    def program(device: str) -> Tensor:
        x = torch.ones(5, 1, device=device)
        others = [torch.ones(5, 5, device=device)]
        if name == "addr_":
            others = [torch.ones(5, device=device), torch.ones(5, device=device)]
        return getattr(x, name)(*others)

    assert_refused_as_on_the_cpu(program)


def test_an_output_that_is_an_input_does_not_grow():
    def program(device: str) -> Tensor:
        x = torch.ones(5, 1, device=device)
        return torch.add(x, torch.ones(5, 5, device=device), out=x)

    assert_refused_as_on_the_cpu(program)


def test_an_output_that_only_looks_like_an_input_grows():
    """A second tensor on the same memory is not the same tensor."""

    def program(device: str) -> list[Tensor]:
        x = torch.ones(5, 1, device=device)
        out = x.view_as(x)
        with pytest.warns(UserWarning, match="resized"):
            torch.add(x, torch.ones(5, 5, device=device), out=out)
        return [out, x]

    assert_as_on_the_cpu(program)


@pytest.mark.parametrize("beta", [1.0, 0.5])
@pytest.mark.parametrize("shape", [(), (1,), (5, 10)])
def test_addbmm_in_place_sees_its_old_values_when_it_grows(shape, beta):
    """It is read and resized: it must not be resized first."""

    def program(device: str) -> Tensor:
        x = numbers(*shape).to(device)
        return x.addbmm_(
            numbers(2, 5, 3).to(device), numbers(2, 3, 10).to(device), beta=beta
        )

    assert_as_on_the_cpu(program)


def test_lists_that_hold_one_tensor_twice():
    def program(device: str) -> list[Tensor]:
        x, y = numbers(3).to(device), numbers(4).to(device)
        torch._foreach_add_([x, y], [x, y])
        return [x, y, *torch._foreach_mul([x, x], [x, y[:3]])]

    assert_as_on_the_cpu(program)


def test_lists_that_hold_an_empty_tensor_twice():
    def program(device: str) -> list[Tensor]:
        x, nothing = numbers(3).to(device), torch.empty(0, 2, device=device)
        torch._foreach_add_([x, nothing], [x, nothing])
        return [x, nothing, *torch._foreach_mul([x, nothing], [x, nothing])]

    assert_as_on_the_cpu(program)


def test_conj_physical_in_place():
    """Its parts know the CPU's and CUDA's kernels alone."""

    def program(device: str) -> Tensor:
        return torch.view_as_complex(numbers(4, 2)).to(device).conj_physical_()

    assert_as_on_the_cpu(program)


def test_a_division_in_place_by_a_number_refuses_integers():
    assert_refused_as_on_the_cpu(lambda d: torch.ones(3, device=d, dtype=int).div_(2))
