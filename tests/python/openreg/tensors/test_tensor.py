"""Tensors on the device: identity, text, the host's view of them, mixed devices."""

import signal

import numpy as np
import pytest
import torch
from process import run_script

MIXED = "(?s)(same device|at least two devices|indices should be)"


def ones(*shape, device="openreg:0", **options):
    return torch.ones(shape, device=device, **options)


# Moving


def test_move_to_where_it_is_gives_the_same_object():
    x = ones(2)
    assert x.to("openreg") is x
    assert x.to("openreg:0") is x
    assert x.to(torch.float32) is x
    assert x.openreg() is x
    assert x.openreg(0) is x
    assert x.to(x) is x


def test_move_with_copy_gives_another_memory():
    x = ones(2)
    moved = x.to("openreg", copy=True)
    assert moved is not x
    assert moved.data_ptr() != x.data_ptr()


def test_move_keeps_dtype_requires_grad_and_the_leaf():
    leaf = torch.ones(2, dtype=torch.float64, requires_grad=True)
    moved = leaf.to("openreg")
    assert moved.dtype == torch.float64
    assert moved.requires_grad
    assert not moved.is_leaf
    assert leaf.detach().to("openreg").is_leaf


def test_tensor_of_no_data_cannot_be_moved_to_the_device():
    meta = torch.ones(2, device="meta")
    with pytest.raises(NotImplementedError, match="Cannot copy out of meta tensor"):
        meta.to("openreg")
    with pytest.raises(NotImplementedError, match="Cannot copy out of meta tensor"):
        ones(2).copy_(meta)


def test_module_of_no_data_can_be_made_on_the_device():
    with torch.device("meta"):
        module = torch.nn.Linear(2, 2)
    assert str(module.to_empty(device="openreg").weight.device) == "openreg:0"


def test_device_tensor_becomes_a_tensor_of_no_data():
    moved = ones(2, 3).to("meta")
    assert moved.is_meta
    assert moved.shape == (2, 3)


# Text and values


@pytest.mark.parametrize(
    ("make", "text"),
    [
        (lambda: ones(2), "tensor([1., 1.], device='openreg:0')"),
        (
            lambda: torch.tensor(1.5, device="openreg:1"),
            "tensor(1.5000, device='openreg:1')",
        ),
        (
            lambda: torch.empty(0, device="openreg"),
            "tensor([], device='openreg:0')",
        ),
        (
            lambda: ones(2, dtype=torch.half),
            "tensor([1., 1.], device='openreg:0', dtype=torch.float16)",
        ),
        (
            lambda: ones(1001),
            "tensor([1., 1., 1.,  ..., 1., 1., 1.], device='openreg:0')",
        ),
        (
            lambda: ones(1, requires_grad=True),
            "tensor([1.], device='openreg:0', requires_grad=True)",
        ),
        (
            lambda: torch.tensor([1 + 2j], device="openreg").conj(),
            "tensor([1.-2.j], device='openreg:0')",
        ),
    ],
    ids=["small", "scalar", "empty", "half", "large", "with gradient", "conjugated"],
)
def test_text_of_a_tensor_names_its_device(make, text):
    assert repr(make()) == text


def test_host_reads_values_as_of_any_tensor():
    x = torch.arange(3.0, device="openreg")
    assert [float(value) for value in x] == [0.0, 1.0, 2.0]
    assert len(x) == 3
    assert 2.0 in x
    assert f"{torch.tensor(1.5, device='openreg'):.3f}" == "1.500"
    assert ["a", "b"][torch.tensor(1, device="openreg")] == "b"
    with pytest.raises(RuntimeError, match="ambiguous"):
        bool(x)
    with pytest.raises(RuntimeError, match="3 elements cannot be converted"):
        x.item()


@pytest.mark.parametrize(
    "dtype",
    [
        torch.bool,
        torch.uint8,
        torch.int8,
        torch.int64,
        torch.uint64,
        torch.float16,
        torch.bfloat16,
        torch.float64,
        torch.float8_e4m3fn,
        torch.complex64,
    ],
)
def test_item_reads_every_dtype(dtype):
    value = torch.tensor(1).to(dtype)
    item = value.to("openreg").item()
    assert item == value.item()
    assert type(item) is type(value.item())


@pytest.mark.parametrize(
    "dtype",
    [torch.float64, torch.half, torch.bfloat16, torch.int64, torch.uint8, torch.bool],
)
def test_arithmetic_and_conversion_of_every_common_dtype(dtype):
    x = ones(2, dtype=dtype)
    expected = (torch.ones(2, dtype=dtype) + torch.ones(2, dtype=dtype)).float()
    assert (x + x).float().tolist() == expected.tolist()


# NumPy


def test_numpy_refuses_device_tensors_and_says_what_to_do():
    x = ones(2)
    for convert in (lambda: x.numpy(), lambda: np.asarray(x)):
        with pytest.raises(TypeError, match=r"Use Tensor\.cpu\(\) to copy"):
            convert()


def test_numpy_with_force_copies_to_the_host():
    array = ones(2, requires_grad=True).numpy(force=True)
    assert array.tolist() == [1.0, 1.0]


def test_numpy_arrays_are_moved_to_the_device():
    array = np.arange(6, dtype=np.int16).reshape(2, 3)
    assert torch.tensor(array, device="openreg").tolist() == array.tolist()
    assert torch.asarray(array, device="openreg").dtype == torch.int16
    assert torch.as_tensor(array[:, ::2], device="openreg").tolist() == [[0, 2], [3, 5]]


# The host cannot touch device memory


def test_host_that_reads_device_memory_dies_with_a_report():
    script = """
        import ctypes, torch
        x = torch.ones(4, device="openreg")
        ctypes.string_at(x.data_ptr(), 4)
    """
    run_script(script, returncode=-signal.SIGSEGV)


def test_device_tensors_are_not_pinned():
    with pytest.raises(RuntimeError, match="Only dense CPU tensors can be pinned"):
        torch.empty(1, device="openreg", pin_memory=True)
    with pytest.raises(RuntimeError, match="only dense CPU tensors can be pinned"):
        ones(1).pin_memory()
    assert not ones(1).is_pinned()


# Memory of tensors


def test_pointers_are_stable_for_views_and_in_place_operators():
    x = torch.zeros(4, 4, device="openreg")
    place = x.data_ptr()
    x.add_(1)
    x.copy_(torch.ones(4, 4))
    assert x.data_ptr() == place
    for view in (
        x.t(),
        x.view(16),
        x[0],
        x.detach(),
        x.unsqueeze(0),
        x.expand(2, 4, 4),
    ):
        assert view.data_ptr() == place
    assert x[1].data_ptr() == place + 16


def test_pointers_are_aligned_and_differ_between_devices():
    x, y = ones(3), ones(3, device="openreg:1")
    assert x.data_ptr() != y.data_ptr()
    assert x.data_ptr() % 512 == 0
    assert torch.empty(0, device="openreg").data_ptr() == 0


# Tensors of two devices


@pytest.mark.parametrize("other", ["cpu", "openreg:1"])
@pytest.mark.parametrize(
    "call",
    [
        lambda x, y: x + y,
        lambda x, y: y + x,
        lambda x, y: torch.cat([x, y]),
        lambda x, y: torch.cat([y, x]),
        lambda x, y: torch._foreach_add([x], [y]),
        lambda x, y: x.gather(0, y.long()),
        lambda x, y: x.add_(y),
        lambda x, y: torch.add(x, x, out=y),
        lambda x, y: torch.where(x > 0, x, y),
        lambda x, y: x.view(1, 2) @ y.view(2, 1),
    ],
    ids=[
        "add",
        "add to",
        "cat",
        "cat to",
        "foreach",
        "gather",
        "add_",
        "out",
        "where",
        "matmul",
    ],
)
def test_operator_on_two_devices_is_an_error(call, other):
    with pytest.raises(RuntimeError, match=MIXED):
        call(ones(2), torch.ones(2, device=other))
    assert ones(2).tolist() == [1.0, 1.0]


def test_single_value_of_the_host_goes_with_device_tensors():
    x = ones(2)
    assert (x + torch.tensor(2.0)).tolist() == [3.0, 3.0]
    assert (torch.tensor(2.0) + x).device == x.device


def test_single_value_of_the_device_does_not_go_with_host_tensors():
    with pytest.raises(RuntimeError, match=MIXED):
        torch.ones(2) + torch.tensor(1.0, device="openreg")
    with pytest.raises(RuntimeError, match=MIXED):
        ones(2) + torch.tensor(1.0, device="openreg:1")


def test_indices_may_be_on_the_host_but_not_the_other_way_round():
    index = torch.tensor([0])
    assert str(ones(2)[index].device) == "openreg:0"
    with pytest.raises(RuntimeError, match=MIXED):
        torch.ones(2)[index.to("openreg")]


def test_values_that_are_put_by_index_are_on_the_device_or_single():
    x, index = ones(3), torch.tensor([0, 1], device="openreg")
    with pytest.raises(RuntimeError, match=MIXED):
        x[index] = torch.ones(2)
    x[index] = torch.tensor(5.0)
    assert x.tolist() == [5.0, 5.0, 1.0]


def test_slices_take_values_from_anywhere():
    """Not an index: a slice is a view, and the values are copied."""
    x = torch.zeros(4, device="openreg")
    x[:2] = torch.ones(2)
    x[2:] = torch.full((2,), 2.0, device="openreg:1")
    assert x.tolist() == [1.0, 1.0, 2.0, 2.0]
