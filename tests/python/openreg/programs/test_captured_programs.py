"""Programs as graphs: ``torch.export``, ``torch.jit``, ``torch.fx``, compiled."""

import io
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from compare import DEVICE, assert_same, numbers
from process import run_script

Tensor = torch.Tensor
pytestmark = [
    pytest.mark.usefixtures("one_thread"),
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
    pytest.mark.filterwarnings("ignore:`isinstance"),
]


@pytest.fixture
def model() -> torch.nn.Module:
    """Weights and running means, on the device."""
    torch.manual_seed(0)
    layers = [torch.nn.Linear(3, 4), torch.nn.BatchNorm1d(4), torch.nn.ReLU()]
    return torch.nn.Sequential(*layers, torch.nn.Linear(4, 2)).to(DEVICE).eval()


@pytest.fixture
def x() -> Tensor:
    return numbers(5, 3).to(DEVICE)


@pytest.fixture(autouse=True)
def _no_compiled_code() -> Iterator[None]:
    yield
    torch._dynamo.reset()


# torch.export


def test_an_exported_program_runs_on_the_device(model, x):
    program = torch.export.export(model, (x,))
    assert {str(p.device) for p in program.state_dict.values()} == {f"{DEVICE}:0"}
    assert torch.equal(program.module()(x), model(x))
    core = program.run_decompositions()
    torch.testing.assert_close(core.module()(x), model(x))


def test_an_exported_program_is_saved_with_open_sizes(model, x):
    rows = torch.export.Dim("rows")
    program = torch.export.export(model, (x,), dynamic_shapes=({0: rows},))
    file = io.BytesIO()
    torch.export.save(program, file)
    file.seek(0)
    again = torch.export.load(file).module()
    more = numbers(7, 3).to(DEVICE)
    assert torch.equal(again(more), model(more))


def test_an_exported_program_moves(model, x):
    from torch.export.passes import move_to_device_pass

    program = torch.export.export(model, (x,))
    on_cpu = move_to_device_pass(program, "cpu").module()
    assert on_cpu(x.cpu()).device.type == "cpu"


def test_a_program_that_needs_a_value_is_not_exported(x):
    class Branching(torch.nn.Module):
        def forward(self, t: Tensor) -> Tensor:
            return t if t.sum() > 0 else -t

    with pytest.raises(Exception, match=r"[Dd]ata-dependent|dynamic control flow"):
        torch.export.export(Branching(), (x,))


# torch.jit


def test_a_traced_module_is_saved_and_loaded_to_any_device(model, x):
    traced = torch.jit.trace(model, x)
    assert torch.equal(traced(x), model(x))
    file = io.BytesIO()
    torch.jit.save(traced, file)
    for location, expected in [(None, DEVICE), (f"{DEVICE}:1", DEVICE), ("cpu", "cpu")]:
        file.seek(0)
        again = torch.jit.load(file, map_location=location)
        parameter = next(again.parameters())
        assert parameter.device.type == expected
        assert_same_values(again(x.to(parameter.device)), model(x))


def assert_same_values(found: Tensor, expected: Tensor) -> None:
    torch.testing.assert_close(found.cpu(), expected.cpu(), rtol=0, atol=0)


# PyTorch keeps the constants of a frozen module for as long as the process lives.
SCRIPTED = """
    import warnings
    import torch

    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    layers = [torch.nn.Linear(3, 4), torch.nn.BatchNorm1d(4), torch.nn.Linear(4, 2)]
    model = torch.nn.Sequential(*layers).to("openreg").eval()
    x = torch.randn(5, 3, device="openreg")
    scripted = torch.jit.script(model)
    for _ in range(3):  # the third time runs optimised code
        result = scripted(x)
    assert torch.equal(result, model(x))
    result.sum().backward()
    assert next(model.parameters()).grad is not None
    frozen = torch.jit.freeze(scripted)
    torch.testing.assert_close(frozen(x), model(x))
    torch.testing.assert_close(torch.jit.optimize_for_inference(frozen)(x), model(x))
    print("the same")
"""


def test_a_scripted_module_learns_freezes_and_is_optimised():
    assert run_script(SCRIPTED) == "the same\n"


def test_a_script_asks_for_the_device_and_makes_tensors_there(x):
    @torch.jit.script
    def program(t: Tensor, count: int) -> Tensor:
        for _ in range(count):
            t = t.relu() * 2 + torch.ones([1], device=t.device)
        if t.device.type == "openreg" and not t.is_cuda:
            t = t + torch.zeros_like(t)
        return t

    def expected(t: Tensor) -> Tensor:
        for _ in range(3):
            t = t.relu() * 2 + 1
        return t

    for _ in range(3):
        found = program(x, 3)
    assert_same(found, expected(x.cpu()))


def read(x: Tensor, i: Tensor) -> Tensor:
    return x[i]


def read_columns(x: Tensor, i: Tensor) -> Tensor:
    return x[:, i]


def write(x: Tensor, i: Tensor) -> Tensor:
    y = x.clone()
    y[i] = x[i] * 2
    return y


def accumulate(x: Tensor, i: Tensor) -> Tensor:
    return x.index_put([i], torch.ones_like(x[i]), accumulate=True)


def make_script(program: Callable[..., Tensor], *_inputs: Tensor) -> Any:
    return torch.jit.script(program)


class Program(torch.nn.Module):
    """A module: PyTorch never frees a function that it traces."""

    def __init__(self, program: Callable[..., Tensor]) -> None:
        super().__init__()
        self.program = program

    def forward(self, *inputs: Tensor) -> Tensor:
        """Run the program."""
        return self.program(*inputs)


def make_trace(program: Callable[..., Tensor], *inputs: Tensor) -> Any:
    return torch.jit.trace(Program(program), inputs)


INDICES = {
    "numbers": torch.tensor([2, 0]),
    "a number": torch.tensor(1),
    "mask": torch.tensor([True, False, True]),
}


@pytest.mark.parametrize("index_device", [DEVICE, "cpu"])
@pytest.mark.parametrize("index", INDICES.values(), ids=INDICES)
@pytest.mark.parametrize("program", [read, read_columns, write, accumulate])
@pytest.mark.parametrize("capture", [make_script, make_trace])
def test_captured_indexing_gives_the_cpus_values(capture, program, index, index_device):
    """TorchScript has a list type of its own for indices, and passes plain lists."""
    x, i = numbers(3, 3), index.to(index_device)
    captured = capture(program, x.to(DEVICE), i)
    expected = capture(program, x, index)(x, index)
    for _ in range(3):
        assert_same(captured(x.to(DEVICE), i), expected)


# PyTorch never frees a trace's constants either: here the number, on the device.
TRACED_NUMBER = """
    import torch

    def program(x, i):
        y = x.clone()
        y[i] = 7.0
        return y

    x, i = torch.zeros(3, 3, device="openreg"), torch.tensor([2, 0], device="openreg")
    traced = torch.jit.trace(program, (x, i))
    for _ in range(3):
        assert torch.equal(traced(x, i).cpu(), program(x.cpu(), i.cpu()))
    print("the same")
"""


def test_a_number_is_written_where_indices_say():
    assert run_script(TRACED_NUMBER, env={"PYTHONWARNINGS": "ignore"}) == "the same\n"

    @torch.jit.script
    def program(t: Tensor, i: Tensor) -> Tensor:
        t[i] = 7.0
        return t

    t, i = torch.zeros(3, 3), torch.tensor([2, 0])
    assert_same(program(t.to(DEVICE), i.to(DEVICE)), program(t, i))


def test_captured_indexing_learns(x):
    @torch.jit.script
    def program(t: Tensor, i: Tensor) -> Tensor:
        return (t[i] * t[i]).sum()

    learning, i = x.clone().requires_grad_(), torch.tensor([1, 1], device=DEVICE)
    program(learning, i).backward()
    expected = x.cpu().requires_grad_()
    program(expected, i.cpu()).backward()
    assert_same(learning.grad, expected.grad)


def test_a_script_passes_lists_of_optional_tensors(x):
    @torch.jit.script
    def program(t: Tensor, indices: list[Tensor | None]) -> Tensor:
        return torch.ops.aten.index(t, indices)

    i = torch.tensor([1, 0], device=DEVICE)
    assert_same(program(x, [None, i]), x.cpu()[:, [1, 0]])
    assert_same(program(x, [i]), x.cpu()[[1, 0]])


def test_a_scripts_error_is_the_operators(x):
    @torch.jit.script
    def program(t: Tensor) -> Tensor:
        return t @ t

    with pytest.raises(RuntimeError, match="shapes cannot be multiplied"):
        program(x)


# torch.fx and torch.compile


def test_a_graph_of_fx_runs_on_the_device(model, x):
    traced = torch.fx.symbolic_trace(model)
    assert torch.equal(traced(x), model(x))
    decomposed = torch.fx.experimental.proxy_tensor.make_fx(model)(x)
    assert torch.equal(decomposed(x), model(x))


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_a_compiled_model_learns_as_the_eager_one(backend: str, model, x):
    compiled = torch.compile(model, backend=backend, fullgraph=True)
    compiled(x).square().sum().backward()
    found = [p.grad.clone() for p in model.parameters()]
    model.zero_grad()
    model(x).square().sum().backward()
    for gradient, parameter in zip(found, model.parameters(), strict=True):
        torch.testing.assert_close(gradient, parameter.grad)


def test_a_compiled_model_under_autocast_runs_in_the_low_type(model, x):
    compiled = torch.compile(model, backend="aot_eager", fullgraph=True)
    with torch.autocast(DEVICE, dtype=torch.bfloat16):
        assert compiled(x).dtype == torch.bfloat16
