"""Calls of a new kind: what their results look like is computed, not tried out."""

import os
import re
import subprocess
import sys
from functools import partial
from itertools import islice
from pathlib import Path

import pytest
import torch
import torch.nn.functional as F  # noqa: N812
from compare import DEVICE, assert_as_on_the_cpu, numbers
from torch.testing._internal.common_methods_invocations import op_db
from torch.utils._pytree import tree_leaves, tree_map_only

from tests.coverage.databases import foreach_infos
from torch_openreg import _C

# A part of PyTorch's database each, so that they run side by side.
_PARTS = 12
# Samples of each operator and dtype; `make test-all` takes every one.
_MOST = int(os.environ.get("OPENREG_TEST_SAMPLES", "4"))
# What the engine and the executor say of a wrong prediction, also where the operator
# itself refuses the call.
_MISTAKES = ("the metadata that was inferred", "the host expected")
_DTYPES = (torch.float32, torch.int64, torch.complex64, torch.bfloat16, torch.bool)


@pytest.fixture
def verification():
    """What rules and Meta kernels say is compared with the operators themselves."""
    _C._set_verification(True)
    yield
    _C._set_verification(False)


def _at_the_end(x: torch.Tensor) -> torch.Tensor:
    """The same values with gaps between them, up to the last byte of a page."""
    if x.numel() == 0 or x.layout != torch.strided:
        return x.detach().to(DEVICE).requires_grad_(x.requires_grad)
    page = 4096 // x.element_size()
    room = -(-2 * x.numel() // page) * page
    whole = torch.zeros(room, dtype=x.dtype, device=DEVICE)
    strides = [2 * stride for stride in x.contiguous().stride()]
    view = whole.as_strided(x.shape, strides, room - 2 * x.numel() + 1)
    return view.copy_(x.detach()).requires_grad_(x.requires_grad)


def _plainly(x: torch.Tensor) -> torch.Tensor:
    return x.detach().to(DEVICE).requires_grad_(x.requires_grad)


def _is_plain(x: torch.Tensor) -> bool:
    return x.layout == torch.strided and x.numel() > 0


def _in_another_order(x: torch.Tensor) -> torch.Tensor:
    """Images in channels last; others with the first dimension innermost."""
    y = x.detach().to(DEVICE)
    if _is_plain(x):
        order = list(reversed(range(x.dim())))
        if x.dim() in (4, 5):
            order = [0, *range(2, x.dim()), 1]
        y = torch.empty([x.size(d) for d in order], dtype=x.dtype, device=DEVICE)
        y = y.permute([order.index(d) for d in range(x.dim())]).copy_(x.detach())
    return y.requires_grad_(x.requires_grad)


def _with_idle_strides(x: torch.Tensor) -> torch.Tensor:
    """Dimensions of one element have strides that nobody uses."""
    y = x.detach().to(DEVICE)
    if _is_plain(x):
        y = y.contiguous()
        strides = zip(y.stride(), y.shape, strict=True)
        y = y.as_strided(y.shape, [n if size > 1 else 7 for n, size in strides])
    return y.requires_grad_(x.requires_grad)


def _differentiate(result: object) -> None:
    results = result if isinstance(result, list | tuple) else [result]
    wanted = [x for x in results if isinstance(x, torch.Tensor) and x.requires_grad]
    if wanted:
        torch.autograd.backward(wanted, [torch.ones_like(x) for x in wanted])


def _try(op, sample, place, call=None) -> None:
    """Run it; errors of the operator itself are for other tests."""
    values = tree_map_only(
        torch.Tensor, place, (sample.input, sample.args, sample.kwargs)
    )
    try:
        _differentiate((call or op)(values[0], *values[1], **values[2]))
        torch.accelerator.synchronize()
    except Exception as error:
        if any(words in str(error) for words in _MISTAKES):
            raise AssertionError(f"{op.name}: {error}") from error


def _samples(op, dtype):
    has_gradient = op.supports_autograd and dtype in op.supported_backward_dtypes("cpu")
    return op.sample_inputs("cpu", dtype, requires_grad=has_gradient)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("part", range(_PARTS))
@pytest.mark.parametrize("place", [_plainly, _in_another_order, _with_idle_strides])
def test_what_is_said_of_results_is_what_operators_give(place, part, verification):
    """The samples of PyTorch's database, forward and backward."""
    before = torch.openreg.engine_stats()["inferred_kinds"]
    for op in op_db[part::_PARTS]:
        for dtype in _DTYPES:
            if dtype not in op.supported_dtypes("cpu"):
                continue
            for sample in islice(_samples(op, dtype), _MOST):
                _try(op, sample, place)
    assert torch.openreg.engine_stats()["inferred_kinds"] > before


def _is_on_the_host(values: object) -> bool:
    return all(x.is_cpu for x in tree_leaves(values) if isinstance(x, torch.Tensor))


@pytest.mark.filterwarnings("ignore")
def test_nothing_is_said_of_calls_that_operators_refuse(verification):
    """Those of PyTorch's database whose arguments are bad."""
    tried = 0
    for op in op_db:
        if op.error_inputs_func is None:
            continue
        for case in op.error_inputs("cpu"):
            sample = case.sample_input
            if _is_on_the_host((sample.input, sample.args, sample.kwargs)):
                _try(op, sample, _plainly)
                tried += 1
    assert tried > 500


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("dtype", _DTYPES)
def test_what_is_said_of_lists_is_what_operators_give(dtype, verification):
    before = torch.openreg.engine_stats()["inferred_kinds"]
    for op in foreach_infos():
        if dtype not in op.supported_dtypes("cpu"):
            continue
        for call in filter(None, (op.method_variant, op.inplace_variant)):
            for sample in islice(op.sample_inputs("cpu", dtype), _MOST):
                _try(op, sample, _plainly, call)
    assert torch.openreg.engine_stats()["inferred_kinds"] > before


def _fused_step(optimizer: type[torch.optim.Optimizer]) -> None:
    weights = [numbers(*shape).to(DEVICE) for shape in ((3, 5), (7,), ())]
    for weight in weights:
        weight.requires_grad_().grad = torch.ones_like(weight)
    optimizer(weights, lr=0.1, fused=True).step()


def _scaled_step() -> None:
    weight = numbers(3, 5).to(DEVICE).requires_grad_()
    scaler = torch.amp.GradScaler(DEVICE)
    scaler.scale(weight.sum()).backward()
    scaler.step(torch.optim.SGD([weight], lr=0.1))
    scaler.update()


def _recurrent_step(layer: type[torch.nn.RNNBase]) -> None:
    network = layer(3, 5, num_layers=2, bidirectional=True).to(DEVICE)
    network(numbers(4, 2, 3).to(DEVICE))[0].sum().backward()


@pytest.mark.parametrize(
    "step",
    [
        *(
            partial(_fused_step, optimizer)
            for optimizer in (
                torch.optim.Adagrad,
                torch.optim.Adam,
                torch.optim.AdamW,
                torch.optim.SGD,
            )
        ),
        _scaled_step,
        *(
            partial(_recurrent_step, layer)
            for layer in (torch.nn.GRU, torch.nn.LSTM, torch.nn.RNN)
        ),
    ],
)
def test_what_is_said_of_training_steps_is_what_operators_give(step, verification):
    """Operators that the database does not have."""
    step()
    torch.accelerator.synchronize()


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("part", range(_PARTS))
def test_kernels_that_read_beyond_their_arguments_do_no_harm(part, verification):
    """Every operator on inputs with gaps, which end where a page does."""
    for op in op_db[part::_PARTS]:
        dtype = torch.float32 if torch.float32 in op.dtypes else torch.int64
        if dtype not in op.supported_dtypes("cpu"):
            continue
        for sample in list(_samples(op, dtype))[:3]:
            _try(op, sample, _at_the_end)


def test_packed_products_of_a_strided_view():
    """They read beyond the view's rows, in whole vectors."""
    b = torch.randint(-128, 127, (32, 64), dtype=torch.int8)
    scales = torch.rand(32, dtype=torch.bfloat16)
    for length in range(20, 40):  # each is a kind of its own
        a = torch.rand((4, length, 64), dtype=torch.bfloat16)
        assert_as_on_the_cpu(
            lambda d, a=a: torch._weight_int8pack_mm(
                a.to(d)[:, -1:, :].view(-1, 64), b.to(d), scales.to(d)
            )
        )


_CALLS = {
    "where": lambda x, n: torch.where(x > 0, x, x),
    "layer_norm": lambda x, n: F.layer_norm(x, x.shape[-1:]),
    "embedding": lambda x, n: F.embedding(torch.zeros_like(x, dtype=torch.long), x),
    "clamp": lambda x, n: x.clamp(-n / 1000, n / 1000),
    "conv1d": lambda x, n: F.conv1d(x[None], x[:, None, :3].contiguous(), groups=4),
    "attention": lambda x, n: F.scaled_dot_product_attention(
        x[None, None], x[None, None], x[None, None]
    ),
    "batch_norm": lambda x, n: F.batch_norm(
        x, None, None, training=True, momentum=n / 1000
    ),
    "dropout": lambda x, n: F.dropout(x, n / 1000),
    "foreach_norm": lambda x, n: torch._foreach_norm([x, x[0]]),
    "multiples": lambda x, n: x * n + n,
    "var": lambda x, n: x.var(-1),
    "max": lambda x, n: x.max(),
}


@pytest.mark.parametrize("name", _CALLS)
def test_new_shapes_and_numbers_are_not_tried_out(name):
    call = _CALLS[name]
    call(numbers(4, 5).to(DEVICE), 3)  # such a call is good
    before = torch.openreg.engine_stats()
    for n in range(6, 12):
        torch.manual_seed(n)
        found = call(numbers(4, n).to(DEVICE), n)
        torch.manual_seed(n)
        torch.testing.assert_close(
            tree_map_only(torch.Tensor, torch.Tensor.cpu, found),
            call(numbers(4, n), n),
            rtol=0,
            atol=0,
        )
    after = torch.openreg.engine_stats()
    assert after["rehearsed_kinds"] == before["rehearsed_kinds"]
    assert after["synchronous_runs"] == before["synchronous_runs"]


def test_a_number_of_the_same_magnitude_is_nothing_new():
    x = numbers(3, 4).to(DEVICE)
    torch.clamp(x, 0.3, 0.6), torch.mul(x, 5)
    before = torch.openreg.engine_stats()["cache_misses"]
    low, product = torch.clamp(x, 0.4, 0.7), x * 6
    assert torch.openreg.engine_stats()["cache_misses"] == before
    assert torch.equal(low.cpu(), torch.clamp(numbers(3, 4), 0.4, 0.7))
    assert torch.equal(product.cpu(), numbers(3, 4) * 6)


@pytest.mark.parametrize(
    "call",
    [
        lambda x: x.bernoulli_(1.5),
        lambda x: x.normal_(0.0, -1.0),
        lambda x: x.uniform_(0.9, 0.6),
        lambda x: F.dropout(x, 1.5),
        lambda x: F.hardtanh(x, 0.9, 0.6),
        lambda x: x.to(torch.uint8).fill_(300),
        lambda x: x.to(torch.int32).pow(-1),
        lambda x: F.layer_norm(x, (7,)),
    ],
)
def test_bad_numbers_are_refused_at_the_call_after_good_ones(call, gate):
    """Also while the stream is busy: nothing is asked of the device."""
    x = numbers(3, 4).to(DEVICE)
    x.bernoulli_(0.7), x.normal_(0.0, 1.0), x.uniform_(0.6, 0.9), F.dropout(x, 0.6)
    F.hardtanh(x, 0.6, 0.9), x.to(torch.uint8).fill_(200), x.to(torch.int32).pow(2)
    F.layer_norm(x, (4,))
    with pytest.raises((RuntimeError, ValueError, IndexError)) as expected:
        call(numbers(3, 4))
    gate.hold(torch.accelerator.current_stream())
    with pytest.raises(expected.type) as found:
        call(x)
    gate.open()
    assert str(found.value).splitlines()[0] == str(expected.value).splitlines()[0]


def test_too_many_categories_are_refused_at_the_call_after_few():
    torch.multinomial(torch.ones(10, device=DEVICE), 1)
    x = torch.ones((1 << 24) + 1, device=DEVICE)
    with pytest.raises(RuntimeError, match=r"cannot exceed 2\^24"):
        torch.multinomial(x, 1)
    torch.accelerator.synchronize()


def test_a_large_call_without_a_rule_runs_once_and_is_right():
    """The device is idle: what the results look like, the run itself tells."""
    x = numbers(2, 300_000)
    before = torch.openreg.engine_stats()["rehearsed_kinds"]
    found = torch.fft.fft(x.to(DEVICE))
    assert torch.openreg.engine_stats()["rehearsed_kinds"] == before
    assert torch.equal(found.cpu(), torch.fft.fft(x))


def test_a_large_call_without_a_rule_does_not_wait_for_a_stream_that_is_held(gate):
    x = numbers(2, 300_001)
    on_device = x.to(DEVICE)
    torch.accelerator.synchronize()
    gate.hold(torch.accelerator.current_stream())
    found = torch.fft.fft(on_device)
    gate.open()
    assert torch.equal(found.cpu(), torch.fft.fft(x))


def test_new_kinds_import_nothing():
    """Not the Meta kernels that PyTorch has in Python, and what those stand on."""
    code = """
import sys, torch
model = torch.nn.TransformerEncoderLayer(8, 2, 16, batch_first=True).to("openreg")
loaded = set(sys.modules)
model(torch.randn(2, 3, 8, device="openreg")).sum().backward()
torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
torch._foreach_norm([p for p in model.parameters()], 1)
print(*sorted(set(sys.modules) - loaded))
"""
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    slow = {"sympy", "torch._dynamo", "torch._inductor", "torch._meta_registrations"}
    assert not slow & set(done.stdout.split())


def test_every_shape_rule_is_of_an_operator():
    """A misspelled name would be a rule that nobody asks."""
    folder = Path(__file__).parents[4] / "backend" / "simulation" / "host" / "shapes"
    names = [
        name
        for source in folder.glob("*.cpp")
        for name in re.findall(r'\{"([\w.]+\*?)",\s*&', source.read_text())
    ]
    assert len(names) > 100
    operators = {
        f"{schema.name}.{schema.overload_name}".removesuffix(".")
        for schema in torch._C._jit_get_all_schemas()
    }
    known = operators | {f"{name.partition('.')[0]}*" for name in operators}
    assert {f"aten::{name}" for name in names} <= known
