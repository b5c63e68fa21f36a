"""Recurrent layers: the CPU's numbers bit for bit, gradients included."""

from functools import partial

import pytest
import torch
from compare import DEVICE, assert_as_on_the_cpu, assert_refused_as_on_the_cpu
from torch import nn
from torch.nn.utils.rnn import pack_padded_sequence

KINDS = {
    "lstm": nn.LSTM,
    "gru": nn.GRU,
    "tanh": nn.RNN,
    "relu": partial(nn.RNN, nonlinearity="relu"),
    "lstm with projections": partial(nn.LSTM, proj_size=3),
}
FORMS = {
    "plain": {},
    "deep": {"num_layers": 3},
    "both ways": {"num_layers": 2, "bidirectional": True},
    "batch first": {"batch_first": True},
    "without biases": {"bias": False},
    "with dropout": {"num_layers": 2, "dropout": 0.5},
}
CELLS = {"lstm": nn.LSTMCell, "gru": nn.GRUCell, "rnn": nn.RNNCell}


pytestmark = pytest.mark.usefixtures("one_thread")


def layer(kind, form, device, dtype=torch.float32):
    """A layer with the same parameters on every device."""
    torch.manual_seed(1)
    return KINDS[kind](4, 6, **FORMS[form]).to(dtype).to(device)


def sequence(device, dtype=torch.float32):
    """Five steps of five sequences."""
    generator = torch.Generator().manual_seed(2)
    return torch.randn(5, 5, 4, generator=generator, dtype=dtype).to(device)


def tensors_in(states):
    """One tensor, or those of a tuple."""
    return [states] if isinstance(states, torch.Tensor) else list(states)


def run(module, *arguments):
    """Outputs and all gradients."""
    torch.manual_seed(3)
    output, hidden = module(*arguments)
    data = output.data if hasattr(output, "batch_sizes") else output
    results = [data, *tensors_in(hidden)]
    loss = sum((result * result).sum() for result in results)
    return results, torch.autograd.grad(loss, list(module.parameters()))


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("kind", KINDS)
def test_layers_and_gradients_are_the_cpus(kind, form):
    assert_as_on_the_cpu(lambda d: run(layer(kind, form, d), sequence(d)))


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("kind", KINDS)
def test_layers_without_gradients_are_the_cpus(kind, form):
    def program(device):
        module = layer(kind, form, device)
        torch.manual_seed(4)
        with torch.no_grad():
            output, hidden = module(sequence(device))
        return [output, *tensors_in(hidden)]

    assert_as_on_the_cpu(program)


@pytest.mark.parametrize("form", [form for form in FORMS if form != "batch first"])
@pytest.mark.parametrize("kind", KINDS)
def test_packed_sequences_are_the_cpus(kind, form):
    def program(device):
        lengths = torch.tensor([2, 5, 1, 5, 3])
        packed = pack_padded_sequence(sequence(device), lengths, enforce_sorted=False)
        return run(layer(kind, form, device), packed)

    assert_as_on_the_cpu(program)


@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16])
@pytest.mark.parametrize("kind", KINDS)
def test_other_dtypes_are_the_cpus(kind, dtype):
    def program(device):
        return run(layer(kind, "deep", device, dtype), sequence(device, dtype))

    assert_as_on_the_cpu(program)


@pytest.mark.parametrize("cell", CELLS)
def test_cells_without_gradients_are_the_cpus(cell):
    def program(device):
        torch.manual_seed(5)
        with torch.no_grad():
            return CELLS[cell](4, 6).to(device)(sequence(device)[0])

    assert_as_on_the_cpu(program)


@pytest.mark.parametrize("kind", ["gru", "tanh", "relu"])
def test_a_layer_without_gradients_is_one_launch(kind):
    module, steps = layer(kind, "both ways", DEVICE), sequence(DEVICE)
    states = torch.zeros(4, 5, 6, device=DEVICE)
    with torch.no_grad():
        module(steps, states)  # of a new kind
        before = torch.openreg.engine_stats()
        module(steps, states)
    after = torch.openreg.engine_stats()
    assert after["launches"] == before["launches"] + 1
    assert after["synchronous_runs"] == before["synchronous_runs"]


@pytest.mark.parametrize("kind", KINDS)
def test_the_forward_derivative_is_the_cpus(kind):
    def program(device):
        module, steps = layer(kind, "plain", device, torch.float64), sequence(device)
        steps = steps.double()
        parameters = {name: p.detach() for name, p in module.named_parameters()}

        def output(tangent):
            call = (steps + tangent,)
            return torch.func.functional_call(module, parameters, call)[0]

        zeros = torch.zeros_like(steps)
        return torch.func.jvp(output, (zeros,), (torch.ones_like(zeros),))

    assert_as_on_the_cpu(program)


def gru(device, form, states, weights=None):
    """``torch.gru`` itself, with so many states and weights of the layer's."""
    module = layer("gru", form, device)
    hidden = torch.zeros(states, 5, 6, device=device)
    options = (True, module.num_layers, 0.0, False, False, False)
    return torch.gru(sequence(device), hidden, module._flat_weights[:weights], *options)


WRONG = {
    "too few states": lambda d: gru(d, "deep", states=1),
    "too few parameters": lambda d: gru(d, "plain", states=1, weights=3),
    "a layer is missing": lambda d: gru(d, "deep", states=3, weights=8),
    "sizes": lambda d: layer("gru", "plain", d)(torch.zeros(2, 3, 5, device=d)),
    "no step": lambda d: layer("gru", "plain", d)(torch.zeros(0, 3, 4, device=d)),
}


@pytest.mark.parametrize("gradients", [False, True])
@pytest.mark.parametrize("what", WRONG)
def test_wrong_arguments_raise_as_on_the_cpu(what, gradients):
    with torch.set_grad_enabled(gradients):
        assert_refused_as_on_the_cpu(WRONG[what])


def test_a_state_on_another_device_is_refused():
    module = layer("gru", "plain", DEVICE)
    with pytest.raises(RuntimeError, match="not at the same device"):
        module(sequence(DEVICE), torch.zeros(1, 5, 6))
