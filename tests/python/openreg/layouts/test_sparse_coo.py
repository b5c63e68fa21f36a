"""Sparse tensors of coordinates: the CPU's results, on the device."""

import copy
import io

import pytest
import torch
from same_layout import (
    DEVICE,
    assert_as_on_the_cpu,
    assert_refused_alike,
    assert_same,
    assert_same_tensor,
    numbers,
    with_gaps,
)

INDICES = torch.tensor([[0, 2, 1, 2], [1, 0, 1, 0]])
VALUES = torch.tensor([1.0, 2.0, 3.0, 4.0])


def sparse(*shape: int, seed: int = 3) -> torch.Tensor:
    """A coalesced tensor on the host."""
    return with_gaps(*shape, seed=seed).to_sparse()


def uncoalesced() -> torch.Tensor:
    """A tensor on the host that has a place twice."""
    return torch.sparse_coo_tensor(INDICES, VALUES, (3, 2))


def hybrid() -> torch.Tensor:
    """A tensor on the host with dense dimensions."""
    return torch.sparse_coo_tensor(INDICES, numbers(4, 5), (3, 2, 5))


def test_a_tensor_is_made_of_parts_on_the_device():
    indices, values = INDICES.to(DEVICE), VALUES.to(DEVICE)
    tensor = torch.sparse_coo_tensor(indices, values, (3, 2))
    assert tensor.device == torch.device(DEVICE, 0)
    assert tensor._nnz() == 4
    assert not tensor.is_coalesced()
    assert tensor._values().data_ptr() == values.data_ptr()
    assert_same_tensor(tensor, uncoalesced())


@pytest.mark.parametrize(
    "make", [sparse, uncoalesced, hybrid], ids=lambda f: f.__name__
)
def test_there_and_back(make):
    tensor = make(4, 3) if make is sparse else make()
    there = tensor.to(DEVICE)
    assert_same_tensor(there, tensor)
    back = there.cpu()
    assert back.is_coalesced() == tensor.is_coalesced()
    assert torch.equal(back._indices(), tensor._indices())
    assert torch.equal(back._values(), tensor._values())
    between = there.to("openreg:1")
    assert between.device.index == between._values().device.index == 1
    assert_same_tensor(between, tensor)


@pytest.mark.parametrize("dtype", [torch.int64, torch.complex64, torch.bool], ids=str)
def test_there_and_back_of_any_dtype(dtype):
    tensor = with_gaps(3, 4).to(dtype).to_sparse()
    assert_same_tensor(tensor.to(DEVICE), tensor)
    assert_same_tensor(tensor.to_dense().to(DEVICE).to_sparse(), tensor)


PROGRAMS = {
    "coalesce": lambda a, b: a.coalesce(),
    "to_dense": lambda a, b: a.to_dense(),
    "add": lambda a, b: a + b,
    "sub with alpha": lambda a, b: torch.sub(a, b, alpha=2),
    "dense plus sparse": lambda a, b: a.to_dense() + b,
    "mul": lambda a, b: a * b,
    "mul by a number": lambda a, b: a * 2.5,
    "mul by a value": lambda a, b: a * torch.tensor(2.0, device=a.device),
    "div": lambda a, b: a / 4,
    "neg": lambda a, b: -a,
    "relu": lambda a, b: a.coalesce().relu(),
    "sum": lambda a, b: a.sum(),
    "sum of a dimension": lambda a, b: torch.sparse.sum(a, 0),
    "mm": lambda a, b: torch.sparse.mm(a, b.t().to_dense()),
    "sparse mm": lambda a, b: torch.sparse.mm(a, b.t()),
    "addmm": lambda a, b: torch.sparse.addmm(
        torch.ones(3, 3, device=a.device), a, b.t().to_dense()
    ),
    "softmax": lambda a, b: torch.sparse.softmax(a, 1),
    "log_softmax": lambda a, b: torch.sparse.log_softmax(a, 1),
    "t": lambda a, b: a.t(),
    "transpose": lambda a, b: a.transpose(0, 1),
    "index_select": lambda a, b: a.index_select(
        0, torch.tensor([2, 0], device=a.device)
    ),
    "select": lambda a, b: a[1],
    "narrow_copy": lambda a, b: a.narrow_copy(0, 1, 2),
    "cat": lambda a, b: torch.cat([a, b]),
    "stack": lambda a, b: torch.stack([a, b]),
    "unsqueeze": lambda a, b: a.unsqueeze(1),
    "mask": lambda a, b: a.to_dense().sparse_mask(b.coalesce()),
    "norm": lambda a, b: a.norm(),
    "clone": lambda a, b: a.clone(),
    "to float64": lambda a, b: a.to(torch.float64),
    "pow": lambda a, b: a.coalesce() ** 2,
    "zeros_like": lambda a, b: torch.zeros_like(a),
}


@pytest.mark.parametrize("name", PROGRAMS)
@pytest.mark.parametrize("is_coalesced", [True, False], ids=["coalesced", "not"])
def test_the_results_are_the_cpus(name, is_coalesced):
    a = sparse(3, 2) if is_coalesced else uncoalesced()
    assert_as_on_the_cpu(PROGRAMS[name], a, sparse(3, 2, seed=8))


GRADIENTS = (
    "to_dense",
    "add",
    "mul",
    "mul by a number",
    "neg",
    "sum",
    "sum of a dimension",
    "mm",
    "sparse mm",
    "addmm",
    "softmax",
    "t",
)


@pytest.mark.parametrize("name", GRADIENTS)
def test_the_gradients_are_the_cpus(name):
    arguments = sparse(3, 2), sparse(3, 2, seed=8)
    assert_as_on_the_cpu(PROGRAMS[name], *arguments, gradients=True)


def test_the_gradient_of_the_values():
    def program(values, indices):
        tensor = torch.sparse_coo_tensor(indices, values, (3, 2))
        return torch.sparse.mm(tensor, torch.ones(2, 4, device=values.device))

    assert_as_on_the_cpu(program, VALUES, INDICES, gradients=True)


IN_PLACE = {
    "add_": lambda a, b: a.add_(b),
    "mul_ by a number": lambda a, b: a.mul_(3),
    "mul_": lambda a, b: a.mul_(b),
    "div_": lambda a, b: a.div_(2),
    "neg_": lambda a, b: a.neg_(),
    "zero_": lambda a, b: a.zero_(),
    "copy_": lambda a, b: a.copy_(b),
    "ldexp_": lambda a, b: a.ldexp_(torch.tensor(2.0, device=a.device)),
    "sparse_resize_": lambda a, b: a.sparse_resize_((5, 4), 2, 0),
    "sparse_resize_and_clear_": lambda a, b: a.sparse_resize_and_clear_((5,), 1, 0),
    "dense add_": lambda a, b: torch.ones(3, 2, device=a.device).add_(b),
    "out": lambda a, b: torch.add(b, b, out=a),
    "out is an argument": lambda a, b: torch.mul(a, 2, out=a),
}


@pytest.mark.parametrize("name", IN_PLACE)
def test_what_is_changed_in_place(name):
    assert_as_on_the_cpu(IN_PLACE[name], sparse(3, 2), sparse(3, 2, seed=8))


def test_a_change_in_place_counts_as_one():
    tensor = sparse(3, 2).to(DEVICE)
    version = tensor._version
    tensor.add_(tensor.clone())
    assert tensor._version == version + 1


def test_hybrid_tensors():
    assert_as_on_the_cpu(lambda a: a.coalesce(), hybrid())
    assert_as_on_the_cpu(lambda a: a.to_dense(), hybrid(), gradients=True)
    assert_as_on_the_cpu(lambda a: torch.sparse.sum(a, 2), hybrid())


def test_tensors_without_elements():
    assert_as_on_the_cpu(
        lambda a: torch.zeros(3, 2, layout=torch.sparse_coo, device=a.device) + a,
        torch.zeros(3, 2).to_sparse(),
    )
    assert_as_on_the_cpu(lambda a: a.to_sparse().coalesce(), torch.zeros(0, 2))


@pytest.mark.parametrize("make", [uncoalesced, hybrid], ids=lambda f: f.__name__)
def test_repr_is_the_cpus_but_for_the_device(make):
    tensor = make()
    ours = repr(tensor.to(DEVICE)).replace("device='openreg:0', ", "")
    assert ours.split() == repr(tensor).split()


def test_saved_loaded_and_copied():
    tensor = uncoalesced()
    there = tensor.to(DEVICE)
    file = io.BytesIO()
    torch.save(there, file)
    file.seek(0)
    assert_same_tensor(torch.load(file, weights_only=True), tensor)
    file.seek(0)
    assert torch.load(file, map_location="cpu").device.type == "cpu"
    assert_same_tensor(copy.deepcopy(there), tensor)


@pytest.mark.parametrize("optimizer", [torch.optim.SGD, torch.optim.SparseAdam])
def test_an_embedding_with_sparse_gradients_is_trained(optimizer):
    def program(weight, indices):
        layer = torch.nn.Embedding.from_pretrained(weight, freeze=False, sparse=True)
        steps = optimizer(layer.parameters(), lr=0.1)
        gradients = []
        for _ in range(3):
            steps.zero_grad()
            layer(indices).square().sum().backward()
            gradients.append(layer.weight.grad.clone())
            steps.step()
        return [gradients, layer.weight]

    assert_as_on_the_cpu(program, numbers(10, 3), torch.tensor([1, 4, 4, 7]))


def test_other_devices_are_refused():
    tensor = sparse(3, 2).to(DEVICE)
    for other in (sparse(3, 2), tensor.to("openreg:1")):
        with pytest.raises(RuntimeError, match="on the same device"):
            tensor + other
    with pytest.raises(RuntimeError, match="on the same device"):
        torch.sparse.mm(tensor, torch.ones(2, 2))
    with pytest.raises(RuntimeError, match=r"backend of indices .* must match"):
        torch.sparse_coo_tensor(INDICES, VALUES.to(DEVICE), (3, 2))


def test_indices_are_checked_if_asked():
    for indices in ([[0, 3], [0, 0]], [[0, -1], [0, 0]]):
        for device in ("cpu", DEVICE):
            with pytest.raises(RuntimeError, match=r"size is inconsistent|negative"):
                torch.sparse_coo_tensor(
                    indices, [1.0, 2.0], (3, 2), device=device, check_invariants=True
                )


@pytest.mark.parametrize(
    "program",
    [
        lambda a: a + a[0],
        lambda a: torch.sparse.mm(a, a),
        lambda a: a.view(6),
        lambda a: a.indices(),
        lambda a: torch.sparse.softmax(a, 7),
        lambda a: a.index_select(0, torch.tensor([9], device=a.device)),
    ],
)
def test_what_the_cpu_refuses_is_refused_alike(program):
    assert_refused_alike(program, uncoalesced())


def test_work_goes_on_after_a_refusal():
    tensor = uncoalesced().to(DEVICE)
    with pytest.raises(IndexError):
        tensor.index_select(0, torch.tensor([9], device=DEVICE))
    assert_same(
        (tensor + tensor).coalesce(), (uncoalesced() + uncoalesced()).coalesce()
    )


def test_no_memory_stays():
    tensor = uncoalesced().to(DEVICE)
    (tensor + tensor).coalesce()
    torch.openreg.synchronize()
    before = torch.openreg.memory_allocated()
    for _ in range(5):
        (tensor + tensor).coalesce().to_dense()
        tensor.clone().mul_(2).add_(tensor)
    torch.openreg.synchronize()
    assert torch.openreg.memory_allocated() == before
