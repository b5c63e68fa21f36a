"""Copies of lazily conjugated and negated tensors, and of overlapping ones."""

import pytest
import torch

DIRECTIONS = [
    ("cpu", "openreg:0"),
    ("openreg:1", "cpu"),
    ("openreg:1", "openreg:1"),
    ("openreg:0", "openreg:1"),
]
directions = pytest.mark.parametrize(("source", "target"), DIRECTIONS)

COMPLEX = [torch.complex32, torch.complex64, torch.complex128]
# What makes a tensor lazy; each keeps its memory.
VIEWS = {
    "plain": lambda x: x,
    "conjugated": lambda x: x.conj(),
    "negated": lambda x: x._neg_view(),
    "both": lambda x: x.conj()._neg_view(),
    "conjugated and transposed": lambda x: x.mH,
    "every second": lambda x: x.conj()[:, ::2],
}

pytestmark = pytest.mark.filterwarnings("ignore:ComplexHalf support:UserWarning")


def example(dtype=torch.complex128, device="cpu"):
    """A square matrix of complex numbers that every precision can hold."""
    real = torch.arange(16.0).view(4, 4)
    return torch.complex(real, real - 7.5).to(dtype).to(device)


@directions
@pytest.mark.parametrize("dtype", COMPLEX)
@pytest.mark.parametrize("view", VIEWS)
def test_lazy_source_arrives_resolved(source, target, dtype, view):
    lazy = VIEWS[view](example(dtype, source))
    expected = VIEWS[view](example())
    found = torch.zeros(lazy.shape, dtype=dtype, device=target).copy_(lazy)
    assert not found.is_conj()
    assert not found.is_neg()
    assert found.tolist() == expected.tolist()


@directions
@pytest.mark.parametrize("dtype", COMPLEX)
@pytest.mark.parametrize("target_view", VIEWS)
@pytest.mark.parametrize("source_view", VIEWS)
def test_lazy_destination_is_written_through(
    source, target, dtype, source_view, target_view
):
    """The memory below holds what resolves to the value that was written."""
    x, expected = VIEWS[source_view](example()), example()
    VIEWS[target_view](expected).copy_(x[0, 1])
    found = example(dtype, target)
    lazy = VIEWS[source_view](example(dtype, source))
    VIEWS[target_view](found).copy_(lazy[0, 1])
    assert found.tolist() == expected.tolist()


@directions
@pytest.mark.parametrize("view", VIEWS)
def test_lazy_source_is_converted(source, target, view):
    lazy = VIEWS[view](example(torch.complex128, source))
    expected = VIEWS[view](example(torch.complex128)).to(torch.complex64)
    assert lazy.to(target, torch.complex64).tolist() == expected.tolist()


@directions
def test_negated_real_view_arrives(source, target):
    """``imag`` of a conjugated tensor is real and lazily negated."""
    lazy = example(device=source).conj().imag
    assert lazy.is_neg()
    expected = example().conj().imag
    assert lazy.to(target).tolist() == expected.tolist()
    assert lazy.to(target, torch.int32).tolist() == expected.int().tolist()


@directions
@pytest.mark.parametrize(
    "dtypes", [(torch.half, torch.float), (torch.float, torch.half)]
)
def test_negated_destination_is_converted_to(source, target, dtypes):
    """The CPU's own conversion between these forgets the negation."""
    x = torch.arange(4.0).to(dtypes[0]).to(source)
    y = torch.zeros(4, dtype=dtypes[1], device=target)
    y._neg_view().copy_(x)
    assert y.tolist() == [-0.0, -1.0, -2.0, -3.0]


def test_moving_to_the_host_resolves_the_conjugation():
    x = torch.tensor(1 + 2j, device="openreg").conj()
    assert x.is_conj()
    moved = x.cpu()
    assert moved.item() == 1 - 2j
    assert not moved.is_conj()


@pytest.mark.parametrize("view", VIEWS)
def test_values_of_lazy_tensors_are_read(view):
    lazy, expected = VIEWS[view](example(device="openreg")), VIEWS[view](example())
    assert lazy.tolist() == expected.tolist()
    assert lazy[1, 0].item() == expected[1, 0].item()
    assert lazy.resolve_conj().resolve_neg().tolist() == expected.tolist()
    assert lazy.clone().tolist() == expected.tolist()
    assert lazy.contiguous().tolist() == expected.tolist()


@pytest.mark.parametrize("shape", [(2,), (3, 2)])
@directions
def test_zeros_without_memory_arrive_as_zeros(source, target, shape):
    """Forward-mode differentiation makes them."""
    zeros = torch._efficientzerotensor(shape, device=source)
    found = torch.ones(shape, device=target).copy_(zeros)
    assert found.count_nonzero().item() == 0
    assert zeros.to(target).count_nonzero().item() == 0
    assert zeros.clone().count_nonzero().item() == 0


@directions
def test_lazy_clone_is_copied_without_being_materialised(source, target):
    x = torch.ones(4, device=source)
    lazy = torch._lazy_clone(x)
    assert lazy.to(target, copy=True).tolist() == [1.0] * 4
    assert torch._C._is_cow_tensor(lazy)


@directions
def test_write_to_a_lazy_clone_leaves_the_original(source, target):
    x = torch.ones(4, device=target)
    lazy = torch._lazy_clone(x)
    lazy.copy_(torch.zeros(4, device=source))
    assert x.tolist() == [1.0] * 4
    assert lazy.tolist() == [0.0] * 4


# Overlap


def cpus_error(call):
    """What the CPU says to ``call``."""
    with pytest.raises(RuntimeError) as error:
        call("cpu")
    return str(error.value)


@pytest.mark.parametrize(
    "call",
    [
        lambda d: (x := torch.ones(4, device=d))[1:].copy_(x[:-1]),
        lambda d: (x := torch.ones(4, device=d))[:-1].copy_(x[1:]),
        lambda d: (x := torch.ones(3, 3, device=d)).copy_(x.t()),
        lambda d: (x := torch.ones(8, device=d))[::2].copy_(x[:4]),
    ],
    ids=["forward", "backward", "transposed", "every second"],
)
def test_partial_overlap_is_refused_as_on_the_cpu(call):
    try:
        call("cpu")
    except RuntimeError as error:
        expected = error
        with pytest.raises(RuntimeError) as found:
            call("openreg")
        assert str(found.value) == str(expected)
    else:
        call("openreg")


@pytest.mark.parametrize("source", ["cpu", "openreg:0", "openreg:1"])
def test_destination_with_shared_elements_is_refused(source):
    def call(device):
        there = source if device != "cpu" else "cpu"
        torch.ones(1, device=device).expand(3).copy_(torch.ones(3, device=there))

    expected = cpus_error(call)
    with pytest.raises(RuntimeError) as found:
        call("openreg:0")
    assert str(found.value) == expected


def test_expanded_destination_on_the_host_is_refused():
    with pytest.raises(RuntimeError, match="more than one element"):
        torch.ones(1).expand(3).copy_(torch.ones(3, device="openreg"))


def test_copy_of_a_tensor_to_itself_changes_nothing():
    x = torch.arange(6.0, device="openreg").view(2, 3)
    assert x.copy_(x) is x
    x.copy_(x.view(2, 3))
    x.t().copy_(x.t())
    x[:1].copy_(x[:1])
    assert x.tolist() == [[0.0, 1.0, 2.0], [3.0, 4.0, 5.0]]


def test_halves_of_one_tensor_may_be_copied_to_each_other():
    x = torch.arange(6.0, device="openreg")
    x[:3].copy_(x[3:])
    assert x.tolist() == [3.0, 4.0, 5.0] * 2
    y = torch.arange(6.0, device="openreg")
    y[::2].copy_(y[1::2])
    assert y.tolist() == [1.0, 1.0, 3.0, 3.0, 5.0, 5.0]
