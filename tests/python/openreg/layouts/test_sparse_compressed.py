"""Compressed sparse tensors, CSR, CSC, BSR and BSC, as the CPU has them."""

import copy
import io

import pytest
import torch
from same_layout import (
    COMPRESSED,
    DEVICE,
    assert_as_on_the_cpu,
    assert_refused_alike,
    assert_same,
    assert_same_tensor,
    with_gaps,
)

layouts = pytest.mark.parametrize("layout", COMPRESSED, ids=str)


def compressed(
    layout: torch.layout, *shape: int, seed: int = 3, dtype: torch.dtype = torch.float32
) -> torch.Tensor:
    """A tensor on the host; blocks, where there are any, are two by two."""
    is_blocked = layout in (torch.sparse_bsr, torch.sparse_bsc)
    dense = with_gaps(*shape, seed=seed).to(dtype)
    return dense.to_sparse(layout=layout, blocksize=(2, 2) if is_blocked else None)


@layouts
def test_there_and_back(layout):
    tensor = compressed(layout, 4, 6)
    there = tensor.to(DEVICE)
    assert_same_tensor(there, tensor)
    assert torch.equal(there.cpu().to_dense(), tensor.to_dense())
    between = there.to("openreg:1")
    assert between.device.index == between.values().device.index == 1
    assert_same_tensor(between, tensor)


@layouts
def test_a_tensor_is_made_of_parts_on_the_device(layout):
    tensor = compressed(layout, 4, 6)
    names = (*COMPRESSED[layout], "values")
    parts = [getattr(tensor, name)().to(DEVICE) for name in names]
    made = torch.sparse_compressed_tensor(*parts, size=(4, 6), layout=layout)
    assert made.values().data_ptr() == parts[2].data_ptr()
    assert_same_tensor(made, tensor)


@layouts
def test_between_layouts(layout):
    tensor = compressed(layout, 4, 6)
    is_blocked = layout in (torch.sparse_bsr, torch.sparse_bsc)
    assert_as_on_the_cpu(lambda a: a.to_dense(), tensor)
    assert_as_on_the_cpu(lambda a: a.to_sparse_coo(), tensor)
    blocksize = (2, 2) if is_blocked else None
    assert_as_on_the_cpu(
        lambda a: a.to_sparse(layout=layout, blocksize=blocksize), with_gaps(4, 6)
    )
    if not is_blocked:
        assert_as_on_the_cpu(lambda a: a.to_sparse_csr(), tensor)
        assert_as_on_the_cpu(lambda a: a.to_sparse_csc(), tensor)
        assert_as_on_the_cpu(lambda a: a.to_sparse_bsr((2, 2)), tensor)


@layouts
def test_batches(layout):
    tensor = compressed(layout, 4, 6)
    batch = torch.stack([tensor.to_dense(), 2 * tensor.to_dense()])
    assert_as_on_the_cpu(
        lambda a: a.to_sparse(
            layout=layout, blocksize=(2, 2) if "bs" in str(layout) else None
        ),
        batch,
    )


PROGRAMS = {
    "neg": lambda a: -a,
    "abs": lambda a: a.abs(),
    "sin": lambda a: a.sin(),
    "relu": lambda a: a.relu(),
    "mul by a number": lambda a: a * 2.5,
    "sum": lambda a: a.sum(),
    "clone": lambda a: a.clone(),
    "to float64": lambda a: a.to(torch.float64),
    "zeros_like": lambda a: torch.zeros_like(a),
    "transpose": lambda a: a.transpose(0, 1),
    "sizes": lambda a: [a._nnz(), a.dense_dim(), a.sparse_dim(), list(a.shape)],
    "zero_": lambda a: a.zero_(),
    "neg_": lambda a: a.neg_(),
    "mul_": lambda a: a.mul_(2),
    "fill_": lambda a: a.fill_(3.0),
    "copy_": lambda a: a.clone().copy_(a * 2),
    "isnan": lambda a: a.isnan(),
}


@layouts
@pytest.mark.parametrize("name", PROGRAMS)
def test_the_results_are_the_cpus(layout, name):
    assert_as_on_the_cpu(PROGRAMS[name], compressed(layout, 4, 6))


CSR_PROGRAMS = {
    "add": lambda a, b: a + b,
    "mul": lambda a, b: a * b,
    "add to dense": lambda a, b: a.to_dense() + b,
    "mm dense": lambda a, b: a @ b.to_dense().t(),
    "mm sparse": lambda a, b: torch.sparse.mm(a, b.to_dense().t().to_sparse_csr()),
    "mv": lambda a, b: a @ torch.ones(6, device=a.device),
    "addmm": lambda a, b: torch.addmm(
        torch.ones(4, 4, device=a.device), a, b.to_dense().t(), beta=0.5, alpha=2
    ),
    "sampled_addmm": lambda a, b: torch.sparse.sampled_addmm(
        a, torch.ones(4, 3, device=a.device), torch.ones(3, 6, device=a.device)
    ),
    "add_": lambda a, b: a.add_(b),
    "out": lambda a, b: torch.add(a, b, out=b.clone()),
    "neg out": lambda a, b: torch.neg(a, out=a.clone()),
    "select": lambda a, b: a[1],
    "sum of rows": lambda a, b: a.sum(1, keepdim=True),
    "mask": lambda a, b: a.to_dense().sparse_mask(b),
    "reduce": lambda a, b: torch.sparse.mm(a, b.to_dense().t(), "amax"),
}


@pytest.mark.parametrize("name", CSR_PROGRAMS)
def test_the_results_of_csr_are_the_cpus(name):
    a = compressed(torch.sparse_csr, 4, 6)
    assert_as_on_the_cpu(
        CSR_PROGRAMS[name], a, compressed(torch.sparse_csr, 4, 6, seed=8)
    )


@pytest.mark.parametrize("name", ["mm dense", "addmm", "reduce", "mv"])
def test_the_gradients_are_the_cpus(name):
    def program(a, b):
        return CSR_PROGRAMS[name](a, b)

    a = compressed(torch.sparse_csr, 4, 6)
    b = with_gaps(4, 6, seed=8).to_sparse_csr()
    outcomes = []
    for device in (DEVICE, "cpu"):
        x = a.to(device).requires_grad_()
        result = program(x, b.to(device))
        result.square().sum().backward()
        outcomes.append([result.detach(), x.grad])
    assert_same(*outcomes)


@pytest.mark.parametrize("reduce", ["sum", "mean", "amax", "amin"])
def test_what_a_reductions_gradient_needs_is_kept(reduce):
    def program(a, dense):
        return torch.sparse.mm(a, dense, reduce)

    a = compressed(torch.sparse_csr, 4, 6)
    assert_as_on_the_cpu(program, a, with_gaps(6, 3, seed=9), gradients=True)


@layouts
def test_repr_is_the_cpus_but_for_the_device(layout):
    tensor = compressed(layout, 4, 6)
    ours = repr(tensor.to(DEVICE)).replace("device='openreg:0',", "")
    assert ours.split() == repr(tensor).split()


@layouts
def test_saved_loaded_and_copied(layout):
    tensor = compressed(layout, 4, 6)
    there = tensor.to(DEVICE)
    file = io.BytesIO()
    torch.save(there, file)
    file.seek(0)
    assert_same_tensor(torch.load(file, weights_only=True), tensor)
    assert_same_tensor(copy.deepcopy(there), tensor)


def test_indices_are_checked_if_asked():
    bad = {
        "begins with another": [1, 1, 2],
        "ends with another": [0, 1, 3],
        "decreases": [0, 3, 2],
    }
    for crow in bad.values():
        for device in ("cpu", DEVICE):
            with pytest.raises(RuntimeError):
                torch.sparse_csr_tensor(
                    crow, [0, 1], [1.0, 2.0], device=device, check_invariants=True
                )
    good = torch.sparse_csr_tensor(
        [0, 1, 2], [0, 1], [1.0, 2.0], device=DEVICE, check_invariants=True
    )
    assert good.to_dense().tolist() == [[1.0, 0.0], [0.0, 2.0]]


def test_other_devices_are_refused():
    tensor = compressed(torch.sparse_csr, 4, 6).to(DEVICE)
    for other in (tensor.cpu(), tensor.to("openreg:1")):
        with pytest.raises(RuntimeError, match="on the same device"):
            tensor + other
    with pytest.raises(RuntimeError, match="on the same device"):
        tensor @ torch.ones(6, 2)


@pytest.mark.parametrize(
    "program",
    [
        lambda a: a + 1,
        lambda a: a @ a,
        lambda a: a.view(24),
        lambda a: a.ccol_indices(),
        lambda a: torch.add(a, a[:2]),
    ],
)
def test_what_the_cpu_refuses_is_refused_alike(program):
    assert_refused_alike(program, compressed(torch.sparse_csr, 4, 6))
