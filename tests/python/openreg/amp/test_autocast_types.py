"""Which operator runs in which type: CUDA's answer, for every operator.

PyTorch's CPU build knows CUDA's lists as well, and fake tensors of a device that is
not there go through them, so that CUDA itself can be asked.
"""

import logging
import warnings
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
import torch
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.testing._internal.common_methods_invocations import op_db
from torch.utils._pytree import tree_leaves, tree_map_only

Arguments = tuple[object, tuple[object, ...], dict[str, object]]

# CUDA casts these where it calls cuDNN, or takes them apart.
OURS_ALONE = {
    "aten::lstm.input",
    "aten::lstm.data",
    "aten::gru.input",
    "aten::gru.data",
    "aten::rnn_tanh.input",
    "aten::rnn_tanh.data",
    "aten::rnn_relu.input",
    "aten::rnn_relu.data",
    "aten::_native_multi_head_attention",
}

# A fake tensor asks a Meta kernel, a real one runs operators that are in the lists.
OTHERWISE_ON_A_REAL_DEVICE = {
    "linalg.pinv": torch.float16,
    "linalg.pinv.hermitian": torch.float16,
    "mvlgamma.mvlgamma_p_1": torch.float32,
    "mvlgamma.mvlgamma_p_3": torch.float32,
    "mvlgamma.mvlgamma_p_5": torch.float32,
    "pinverse": torch.float16,
    "torch.ops.aten._safe_softmax.default": torch.float32,
}

# The CPU's kernel gives another type, with autocast or without; or code in Python
# looks at the device's name and goes another way on all but CUDA.
OF_ANOTHER_KIND = {
    "native_group_norm",
    "normal",
    "nn.functional.linear_cross_entropy.chunked",
    "nn.functional.linear_cross_entropy.chunked_none",
}


@contextmanager
def autocast(device: str, dtype: torch.dtype) -> Iterator[None]:
    """As ``torch.autocast``, which refuses CUDA where there is none."""
    torch.set_autocast_enabled(device, True)
    torch.set_autocast_dtype(device, dtype)
    try:
        yield
    finally:
        torch.set_autocast_enabled(device, False)
        torch.set_autocast_dtype(device, torch.float16)
        torch.clear_autocast_cache()


def first_sample(op) -> Arguments | None:
    """Arguments for ``op``, on the CPU; None if they are not dense."""
    sample = next(iter(op.sample_inputs("cpu", torch.float32)))
    arguments = (sample.input, sample.args, sample.kwargs)
    tensors = [x for x in tree_leaves(arguments) if isinstance(x, torch.Tensor)]
    if any(x.layout != torch.strided for x in tensors):
        return None
    return arguments


def on(device: str, arguments: Arguments, first: torch.dtype) -> Arguments:
    """The arguments there, the first one (if floating) in the type ``first``."""

    def move(x: torch.Tensor) -> torch.Tensor:
        if device != "cuda":
            return x.detach().to(device)
        return torch.empty_strided(x.shape, x.stride(), dtype=x.dtype, device=device)

    def cast(x: torch.Tensor) -> torch.Tensor:
        return x.to(first) if x.dtype == torch.float32 else x

    head, tail, options = tree_map_only(torch.Tensor, move, arguments)
    return tree_map_only(torch.Tensor, cast, head), tail, options


def dtypes_of(op, device: str, arguments: Arguments, first: torch.dtype) -> object:
    """The types of the results under autocast, or the exception."""
    head, tail, options = on(device, arguments, first)
    try:
        with autocast(device, torch.float16):
            results = tree_leaves(op(head, *tail, **options))
    except Exception as error:
        return error
    return [x.dtype for x in results if isinstance(x, torch.Tensor)]


def cpu_refuses(op, arguments: Arguments, first: torch.dtype) -> bool:
    """Whether the CPU does not take these types, without autocast."""
    head, tail, options = on("cpu", arguments, first)
    try:
        op(head, *tail, **options)
    except Exception:
        return True
    return False


def test_the_lists_are_cudas():
    torch.openreg.init()
    # Other namespaces are those of other tests.
    names = [x for x in torch._C._dispatch_get_all_op_names() if x.startswith("aten::")]

    def listed(key: str) -> set[str]:
        has = torch._C._dispatch_has_kernel_for_dispatch_key
        return {name for name in names if has(name, key)}

    cuda = {name for name in listed("AutocastCUDA") if "cudnn" not in name}
    assert len(cuda) > 100
    assert listed("AutocastPrivateUse1") == cuda | OURS_ALONE


@pytest.mark.parametrize("first", [torch.float32, torch.float16], ids=str)
@pytest.mark.usefixtures("one_thread")
def test_every_operator_gives_the_types_that_cuda_gives(
    first: torch.dtype, monkeypatch: pytest.MonkeyPatch
):
    logger = logging.getLogger("torch._subclasses.fake_tensor")
    monkeypatch.setattr(logger, "disabled", True)
    fake = FakeTensorMode()
    compared, different = 0, []
    for op in op_db:
        if torch.float32 not in op.dtypes:
            continue
        name = ".".join(filter(None, (op.name, op.variant_test_name)))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            arguments = first_sample(op)
            if arguments is None or name in OF_ANOTHER_KIND:
                continue
            with fake:
                expected = dtypes_of(op, "cuda", arguments, first)
            if isinstance(expected, Exception):
                continue  # a result that depends on data, which nobody has
            found = dtypes_of(op, "openreg", arguments, first)
        compared += 1
        if found == expected:
            continue
        if found == [OTHERWISE_ON_A_REAL_DEVICE.get(name)]:
            continue
        if isinstance(found, NotImplementedError) and "_lowrank" in name:
            continue  # it multiplies first, and no device decomposes in 16 bits
        if not isinstance(found, Exception) or not cpu_refuses(op, arguments, first):
            different.append((name, found, expected))
    assert different == []
    assert compared > 450


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16], ids=str)
def test_layers_give_what_cudas_layers_give(dtype: torch.dtype):
    x = torch.ones(3, 2, 4, device="openreg", requires_grad=True)
    for layer in (torch.nn.LSTM, torch.nn.GRU, torch.nn.RNN):
        module = layer(4, 5, num_layers=2, bidirectional=True, device="openreg")
        with torch.autocast("openreg", dtype=dtype):
            output, hidden = module(x)
            again, _ = module(x.to(dtype))
        assert output.dtype == again.dtype == dtype
        for state in hidden if isinstance(hidden, tuple) else [hidden]:
            assert state.dtype == dtype
        output.sum().backward()
        assert module.weight_ih_l0.grad.dtype == torch.float32


@pytest.mark.parametrize("train", [True, False])
def test_attention_runs_in_the_low_type_when_it_learns_and_when_not(train: bool):
    module = torch.nn.MultiheadAttention(8, 2, device="openreg").train(train)
    x = torch.ones(3, 2, 8, device="openreg")
    with torch.autocast("openreg"), torch.set_grad_enabled(train):
        output, _ = module(x, x, x, need_weights=False)
    assert output.dtype == torch.float16


def test_fake_tensors_of_the_device_follow_the_lists():
    with FakeTensorMode(), torch.autocast("openreg", dtype=torch.bfloat16):
        x = torch.empty(3, 3, device="openreg")
        assert (x @ x).dtype == torch.bfloat16
        assert (x @ x).exp().dtype == torch.float32
