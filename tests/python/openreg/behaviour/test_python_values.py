"""Tensors as Python objects: numbers, text, copies, identity, attributes."""

import copy
import io
import operator
import pickle

import numpy
import pytest
import torch
from compare import DEVICE
from observe import assert_same_behaviour


def there(values: object, device: str, **options: object) -> torch.Tensor:
    return torch.tensor(values, device=device, **options)


NUMBERS = {
    "int": lambda d: int(there(3.7, d)),
    "float": lambda d: float(there(3, d)),
    "bool": lambda d: bool(there([[0.0]], d)),
    "bool of many": lambda d: bool(there([1, 2], d)),
    "bool of none": lambda d: bool(there([], d)),
    "int of many": lambda d: int(there([1, 2], d)),
    "float of complex": lambda d: float(there(1j, d)),
    "complex": lambda d: complex(there(1 + 2j, d)),
    "int of infinity": lambda d: int(there(float("inf"), d)),
    "large": lambda d: torch.full((), 2**64 - 1, dtype=torch.uint64, device=d).item(),
    "index": lambda d: [1, 2, 3][there(1, d)],
    "index of a float": lambda d: operator.index(there(1.0, d)),
    "range": lambda d: list(range(there(3, d))),
    "format": lambda d: f"{there(2.345, d):.2f}",
    "len": lambda d: len(there([1, 2], d)),
    "len of a number": lambda d: len(there(1, d)),
    "iteration": lambda d: [x + 1 for x in there([1, 2], d)],
    "contains": lambda d: (2 in there([1, 2], d), 3 in there([1, 2], d)),
    "reversed": lambda d: reversed(there([1, 2, 3], d)),
    "reflected": lambda d: (
        2 ** there([1.0, 2.0], d),
        1 - there([1, 2], d),
        5 // there([2, 3], d),
        7 % there([2, 3], d),
        True & there([True, False], d),
    ),
    "numpy number": lambda d: numpy.float64(2) * there([1.0, 2.0], d),
    "equal to none": lambda d: (there([1], d) == None, there([1], d) != None),  # noqa: E711
    "equal": lambda d: (
        torch.equal(there([1.0], d), there([1.0], d)),
        torch.equal(there([1.0], d), there([1.0, 2.0], d)),
        torch.equal(there([float("nan")], d), there([float("nan")], d)),
        torch.equal(there([1.0], d), there([1], d)),
    ),
    "sizes from tensors": lambda d: (
        torch.zeros(there(3, d), there(2, d), device=d),
        torch.zeros(6, device=d).view(there(2, d), 3).shape,
    ),
    "dimension from a tensor": lambda d: torch.ones(2, 2, device=d).sum(there(0, d)),
    "scalar of the host": lambda d: (
        there([1.0, 2.0], d) + torch.tensor(2.0),
        torch.tensor(2.0) * there([1.0, 2.0], d),
        torch.where(there([True, False], d), torch.tensor(1.0), torch.tensor(2.0)),
        there([1.0, 2.0], d).masked_fill(there([True, False], d), torch.tensor(5.0)),
    ),
    "promotion": lambda d: there([1], d, dtype=torch.half) + torch.tensor(2.0).double(),
    "attributes": lambda d: (lambda x: (x.ndim, x.itemsize, x.nbytes, x.is_leaf))(
        there([[1.0, 2.0]], d)
    ),
}


@pytest.mark.parametrize("name", NUMBERS)
def test_numbers_are_the_cpus(name):
    assert_same_behaviour(NUMBERS[name])


FACTORIES = {
    "new_zeros": lambda x: x.new_zeros(3),
    "new_full": lambda x: x.new_full((2,), 3),
    "new_tensor": lambda x: x.new_tensor([1, 2]),
    "new": lambda x: x.new([1.0, 2.0]),
    "new of sizes": lambda x: x.new(2, 3).shape,
    "new of a storage": lambda x: x.new(x.untyped_storage()),
    "as_tensor": lambda x: torch.as_tensor([x[0], x[1]]),
    "asarray": lambda x: torch.asarray(x).data_ptr() == x.data_ptr(),
    "asarray copy": lambda x: torch.asarray(x, copy=True).data_ptr() == x.data_ptr(),
    "type_as": lambda x: torch.ones(2).int().type_as(x),
    "type": lambda x: x.type(x.double().type()),
    "same type": lambda x: x.type(x.type()) is x,
    "numpy by force": lambda x: x.numpy(force=True).tolist(),
}


@pytest.mark.parametrize("name", FACTORIES)
def test_tensors_made_from_others_are_the_cpus(name):
    assert_same_behaviour(lambda device: FACTORIES[name](there([1.0, 2.0], device)))


def test_types_are_named_after_the_device():
    x = torch.ones(2, device=DEVICE)
    assert x.type() == "torch.openreg.FloatTensor"
    assert x.int().type() == "torch.openreg.IntTensor"
    assert torch.ones(2).type("torch.openreg.DoubleTensor").device == x.device
    assert x.type("torch.FloatTensor").device.type == "cpu"


TEXTS = {
    "small": lambda d: torch.ones(2, device=d),
    "number": lambda d: there(1.5, d),
    "empty": lambda d: torch.empty(0, 3, device=d),
    "long": lambda d: torch.arange(2000, device=d),
    "complex": lambda d: there([1 + 2j], d),
    "conjugate": lambda d: there([1 + 2j], d).conj(),
    "truth": lambda d: there([True], d),
    "half": lambda d: torch.ones(2, dtype=torch.half, device=d),
    "float8": lambda d: torch.ones(2, dtype=torch.float8_e5m2, device=d),
    "odd": lambda d: there([float("nan"), float("inf"), 1e10], d),
    "leaf": lambda d: torch.ones(2, device=d, requires_grad=True),
    "result": lambda d: torch.ones(2, device=d, requires_grad=True) * 2,
    "parameter": lambda d: torch.nn.Parameter(torch.ones(2, device=d)),
}


@pytest.mark.parametrize("name", TEXTS)
def test_the_text_is_the_cpus_with_the_device_named(name):
    found, expected = repr(TEXTS[name](DEVICE)), repr(TEXTS[name]("cpu"))
    assert "device='openreg:0'" in found
    assert "".join(found.replace("device='openreg:0', ", "").split()).replace(
        ",device='openreg:0'", ""
    ) == "".join(expected.split())


def through_a_file(x: object) -> object:
    file = io.BytesIO()
    torch.save(x, file)
    file.seek(0)
    return torch.load(file)


@pytest.mark.parametrize(
    "copied", [copy.deepcopy, through_a_file, lambda x: pickle.loads(pickle.dumps(x))]
)
def test_copies_keep_values_sharing_and_place(copied):
    def program(device):
        x = torch.arange(4.0, device=device)
        leaf = torch.ones(2, device=device, requires_grad=True)
        (a, b), other, conjugate = copied(
            [[x, x[1:]], leaf, there([1 + 2j], device).conj()]
        )
        a.zero_()
        return a, b, other, conjugate, conjugate.is_conj(), other.device.type == device

    assert_same_behaviour(program)


def test_a_deepcopy_keeps_gradients_and_attributes():
    def program(device):
        x = torch.ones(2, device=device, requires_grad=True)
        x.sum().backward()
        x.note = "kept"
        y = copy.deepcopy(x)
        return y, y.grad, y.note, y.grad.data_ptr() == x.grad.data_ptr()

    assert_same_behaviour(program)


def test_swapped_tensors_change_places():
    def program(device):
        x, y = torch.ones(2, device=device), torch.zeros(3)
        torch.utils.swap_tensors(x, y)
        return x, y, y.device.type == device

    assert_same_behaviour(program)


def test_what_only_the_host_can_do_says_so():
    x = torch.ones(2, device=DEVICE)
    for call in (x.numpy, lambda: numpy.asarray(x)):
        with pytest.raises(TypeError, match=r"Use Tensor.cpu\(\)"):
            call()
    assert not hasattr(x, "__cuda_array_interface__")
    with pytest.raises(RuntimeError, match="only dense CPU tensors can be pinned"):
        x.pin_memory()
    assert hash(x) == id(x)


def test_functions_of_python_are_called_for_each_element():
    """PyTorch's tests expect it of every device but CUDA."""

    def program(device):
        x = torch.zeros(2, 3, device=device)
        x.t().apply_(lambda v: v + 1)
        y = torch.arange(3.0, device=device)
        x.map_(y, lambda a, b: a + b)
        return x.map2_(y, y, lambda a, b, c: a + b * c), x._version

    def refused(device):
        return torch.ones(2, device=device, requires_grad=True).apply_(lambda v: v)

    assert_same_behaviour(lambda device: program(device)[0])
    assert "error" in assert_same_behaviour(refused)


def test_operators_that_read_memory_themselves_run_on_the_device():
    def program(device):
        image = torch.arange(4.0, device=device).view(1, 1, 2, 2)
        grid = torch.zeros(1, 2, 2, 2, device=device)
        return torch._grid_sampler_2d_cpu_fallback(image, grid, 0, 0, True)

    with torch.openreg.strict():
        assert_same_behaviour(program)


def test_unsigned_numbers_above_all_signed_ones_are_carried():
    def program(device):
        x = torch.zeros(2, dtype=torch.uint64, device=device)
        largest = 2**64 - 1
        return x.fill_(largest), x == largest, torch.full_like(x, 2**63)

    with torch.openreg.strict():
        assert_same_behaviour(program)
