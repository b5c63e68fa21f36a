"""What operators make of an `out` that is not as they want it; lazy results."""

from collections.abc import Callable

import pytest
import torch
from compare import assert_as_on_the_cpu, assert_refused_as_on_the_cpu, numbers

Tensor = torch.Tensor
pytestmark = [
    pytest.mark.filterwarnings("ignore:An output with one or more elements"),
    pytest.mark.filterwarnings("ignore:torch.triangular_solve is deprecated"),
    pytest.mark.filterwarnings("ignore:torch.cholesky is deprecated"),
]


def positive(device: str, *batch: int) -> Tensor:
    """Matrices that have a Cholesky factor; zeros and ones have none."""
    x = numbers(*batch, 3, 3)
    return (x @ x.mT + 3 * torch.eye(3)).to(device)


MAKE: dict[str, Callable[..., Tensor]] = {
    "right": lambda d, *shape: torch.ones(shape, device=d),
    "gaps": lambda d, *shape: torch.ones(*shape, 2, device=d)[..., 0],
    "reversed": lambda d, *shape: torch.ones(shape[::-1], device=d).permute(
        *reversed(range(len(shape)))
    ),
    "large": lambda d, *shape: torch.ones([n + 1 for n in shape], device=d),
    "empty": lambda d, *shape: torch.ones(0, device=d),
}


@pytest.mark.parametrize("kind", MAKE)
@pytest.mark.parametrize("batch", [(), (2,), (0,)])
def test_cholesky_into_any_tensor(kind, batch):
    """No rehearsal can tell whether `out` is resized: it refuses zeros and ones."""

    def program(device: str) -> Tensor:
        out = MAKE[kind](device, *batch, 3, 3)
        result = torch.cholesky(positive(device, *batch), out=out)
        assert result is out
        return out

    assert_as_on_the_cpu(program)


@pytest.mark.parametrize("kind", MAKE)
@pytest.mark.parametrize("batch", [(), (1,), (2,), (0,)])
def test_triangular_solve_into_any_tensors(kind, batch):
    """The CPU gives other strides to `out` without elements, or of one."""

    def program(device: str) -> list[Tensor]:
        out = (
            MAKE[kind](device, *batch, 3, 1),
            MAKE[kind](device, *batch, 3, 3),
        )
        b = numbers(*batch, 3, 1).to(device)
        torch.triangular_solve(b, positive(device, *batch), out=out)
        return list(out)

    # The first call makes the kind known, so that Meta might answer the next.
    assert_as_on_the_cpu(lambda d: list(torch.triangular_solve(*operands(d, batch))))
    assert_as_on_the_cpu(program)


def operands(device: str, batch: tuple[int, ...]) -> tuple[Tensor, Tensor]:
    return numbers(*batch, 3, 1).to(device), positive(device, *batch)


@pytest.mark.parametrize("kind", MAKE)
@pytest.mark.parametrize("shape", [(1, 1), (2, 3, 3), (0, 3, 3)])
def test_geqrf_into_any_tensors(kind, shape):
    def program(device: str) -> list[Tensor]:
        out = (MAKE[kind](device, *shape), MAKE[kind](device, *shape[:-1]))
        torch.geqrf(numbers(*shape).to(device), out=out)
        return list(out)

    assert_as_on_the_cpu(program)


@pytest.mark.parametrize("kind", MAKE)
def test_mode_into_any_tensors(kind):
    """PyTorch's own code for it knows the CPU's and CUDA's devices alone."""

    def program(device: str) -> list[Tensor]:
        values = MAKE[kind](device, 3)
        indices = MAKE[kind](device, 3).long()
        torch.mode(numbers(3, 4).to(device), out=(values, indices))
        return [values, indices]

    assert_as_on_the_cpu(program)


def test_normal_into_integers_raises_what_the_cpu_raises():
    """The C++ Meta kernel calls another one in Python, which raises something else."""

    def program(device: str) -> Tensor:
        out = torch.ones(3, dtype=torch.int64, device=device)
        return torch.normal(numbers(3).to(device), 2.0, out=out)

    error = assert_refused_as_on_the_cpu(program)
    assert isinstance(error, NotImplementedError)


@pytest.mark.parametrize("shape", [(0, 1), (1, 0), (1, 1)])
def test_strides_of_lists_with_tensors_of_no_or_one_element(shape):
    """Lists of the same kind are known; Meta would give these other strides."""

    def program(device: str, *odd: int) -> list[Tensor]:
        plain = numbers(3, 3).to(device)
        rest = numbers(*odd, 2)[..., 0].to(device)
        return torch._foreach_add([plain, rest], [plain, rest])

    assert_as_on_the_cpu(lambda d: program(d, 2, 2))
    assert_as_on_the_cpu(lambda d: program(d, *shape))


@pytest.mark.parametrize("kind", MAKE)
@pytest.mark.parametrize("size", [2, 3])
def test_lu_solve_leaves_its_output_conjugated_lazily(kind, size):
    """As the CPU does; without the flag the numbers would be wrong."""

    def program(device: str) -> Tensor:
        x = torch.view_as_complex(numbers(4, 4, 2)).to(device)
        b = torch.view_as_complex(numbers(size, 4, 2)).to(device)
        factors, pivots = torch.linalg.lu_factor(x)
        out = MAKE[kind](device, size, 4).to(x.dtype)
        torch.linalg.lu_solve(factors, pivots, b, left=False, adjoint=True, out=out)
        return out

    assert_as_on_the_cpu(program)


@pytest.mark.parametrize("count", [1, 2])
def test_a_result_that_the_cpu_conjugates_lazily_is_lazy_here_too(count):
    """The second call is the one whose result is known before it runs."""

    def program(device: str) -> Tensor:
        x = torch.view_as_complex(numbers(4, 2)).to(device).conj()
        for _ in range(count):
            result = torch.dot(x, x)
        assert result.is_conj()
        return result

    assert_as_on_the_cpu(program)
