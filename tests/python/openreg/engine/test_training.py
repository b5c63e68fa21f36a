"""The networks of the benchmarks train to the CPU's losses, without a fallback."""

from collections.abc import Iterator
from pathlib import Path

import models
import pytest
import torch
from compare import DEVICE, threads
from models import MODELS, Training
from process import run_script

import driver

STEPS = 5


@pytest.fixture(autouse=True)
def _strict() -> Iterator[None]:
    """A fallback to the CPU is an error."""
    with torch.openreg.strict():
        yield


def train(name: str, device: str, steps: int = STEPS) -> tuple[list[float], Training]:
    training = Training(MODELS[name], torch.device(device))
    losses = [training.step() for _ in range(steps)]
    return [loss.item() for loss in losses], training


@pytest.mark.usefixtures("one_thread")
@pytest.mark.parametrize("name", MODELS)
def test_losses_and_weights_are_the_cpus_bit_for_bit_with_one_thread(name):
    ours, trained = train(name, DEVICE)
    theirs, expected = train(name, "cpu")
    assert ours == theirs
    weights = expected.network.state_dict()
    for key, value in trained.network.state_dict().items():
        assert torch.equal(value.cpu(), weights[key]), key


@pytest.mark.parametrize("name", MODELS)
def test_losses_are_the_cpus_with_several_threads(name):
    with threads(2):
        ours, _ = train(name, DEVICE)
        theirs, _ = train(name, "cpu")
    torch.testing.assert_close(torch.tensor(ours), torch.tensor(theirs))


@pytest.mark.parametrize("name", MODELS)
def test_training_lowers_the_loss(name):
    losses, _ = train(name, DEVICE, steps=12)
    assert losses[-1] < 0.9 * losses[0]


@pytest.mark.parametrize("name", MODELS)
def test_a_step_is_queued_while_the_stream_is_held(gate, watch, name):
    """Nothing in it waits; a first step has created the optimizer's state."""
    training = Training(MODELS[name], torch.device(DEVICE))
    training.step()
    torch.openreg.synchronize()
    before = torch.openreg.engine_stats()
    losses: list[torch.Tensor] = []
    gate.hold()
    assert watch.returns(lambda: losses.append(training.step()))
    assert not torch.accelerator.current_stream().query()
    after = torch.openreg.engine_stats()
    assert after["synchronous_runs"] == before["synchronous_runs"]
    assert after["launches"] > before["launches"] + 20
    gate.open()
    assert losses[0].isfinite().item()


@pytest.mark.parametrize("name", MODELS)
def test_evaluation_gives_the_cpus_outputs(name):
    results = []
    for device in (DEVICE, "cpu"):
        with threads(1), torch.inference_mode():
            training = Training(MODELS[name], torch.device(device))
            training.network.eval()
            results.append(training.network(training.inputs).cpu())
    assert torch.equal(*results)


COLD_SCRIPT = """
    import sys
    sys.path[:0] = sys.argv[2:]
    import torch
    from driver import Gate
    from models import MODELS, Training
    torch.set_num_threads(1)
    def evaluate(device):
        training = Training(MODELS[sys.argv[1]], torch.device(device))
        training.network.eval()
        gate = Gate()
        with torch.inference_mode():
            gate.hold()
            outputs = training.network(training.inputs)
            gate.open()
        gate.destroy()
        return outputs.cpu()
    print(torch.equal(evaluate("openreg"), evaluate("cpu")))
"""


@pytest.mark.parametrize("name", MODELS)
def test_a_first_evaluation_may_come_while_the_stream_is_busy(name):
    """Nothing is known of what its outputs look like, and the CPU cannot be asked."""
    folders = [str(Path(module.__file__).parent) for module in (driver, models)]
    assert run_script(COLD_SCRIPT, name, *folders) == "True\n"
