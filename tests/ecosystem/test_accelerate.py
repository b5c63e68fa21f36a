"""accelerate takes the device from its environment, and needs a shim for float16."""

import accelerate
import pytest
import torch
from accelerate import Accelerator, PartialState
from accelerate.state import AcceleratorState
from accelerate.utils import GradScalerKwargs
from problem import computed_in, loader, network
from torch import nn

from torch_openreg.integrations.accelerate import Accelerator as HalfAccelerator


@pytest.fixture(params=["openreg", "openreg:1"])
def place(request, monkeypatch):
    """The device that accelerate has; its state is one for the process."""
    AcceleratorState._reset_state(reset_partial_state=True)
    monkeypatch.setenv("ACCELERATE_TORCH_DEVICE", request.param)
    yield torch.device(request.param)
    AcceleratorState._reset_state(reset_partial_state=True)


def train(accelerator: Accelerator) -> list[float]:
    model = network()
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 2)
    model, optimizer, batches, scheduler = accelerator.prepare(
        model, optimizer, loader(), scheduler
    )
    losses = []
    for _ in range(3):
        for points, labels in batches:
            with accelerator.accumulate(model):
                loss = nn.functional.cross_entropy(model(points), labels)
                accelerator.backward(loss)
                accelerator.clip_grad_norm_(model.parameters(), 1.0)
                optimizer.step()
                scheduler.step()
                optimizer.zero_grad()
            losses.append(accelerator.gather(loss).item())
    assert points.device.type == accelerator.device.type
    return losses


def test_training_gives_the_cpus_losses(place):
    accelerator = Accelerator(gradient_accumulation_steps=2)
    assert accelerator.device == place
    losses = train(accelerator)
    AcceleratorState._reset_state(reset_partial_state=True)
    host = train(Accelerator(cpu=True, gradient_accumulation_steps=2))
    assert losses == pytest.approx(host, rel=1e-6)
    assert losses[-1] < losses[0]


def test_a_state_is_saved_and_loaded(place, tmp_path):
    accelerator = Accelerator()
    model = accelerator.prepare(network())
    accelerator.save_state(tmp_path)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.zero_()
    accelerator.load_state(tmp_path)
    for loaded, first in zip(model.parameters(), network().parameters(), strict=True):
        assert loaded.device.type == "openreg"
        assert torch.equal(loaded.cpu(), first)


def test_a_device_that_does_not_exist_is_an_error(monkeypatch):
    AcceleratorState._reset_state(reset_partial_state=True)
    monkeypatch.setenv("ACCELERATE_TORCH_DEVICE", "openreg:9")
    with pytest.raises(RuntimeError, match="invalid device ordinal"):
        Accelerator().prepare(network())
    AcceleratorState._reset_state(reset_partial_state=True)


def test_bfloat16_is_computed_in_bfloat16(place):
    accelerator = Accelerator(mixed_precision="bf16")
    model = network()
    dtypes = computed_in(model)
    model = accelerator.prepare(model)
    optimizer = accelerator.prepare(torch.optim.AdamW(model.parameters(), lr=0.01))
    losses = []
    for _ in range(3):
        for points, labels in accelerator.prepare(loader()):
            loss = nn.functional.cross_entropy(model(points), labels)
            accelerator.backward(loss)
            optimizer.step()
            optimizer.zero_grad()
            losses.append(loss.item())
    assert dtypes == {torch.bfloat16}
    assert losses[-1] < losses[0]


def test_the_library_refuses_float16(place):
    """It has a list of devices for that; docs/ecosystem.md says so while it is true."""
    with pytest.raises(ValueError, match="fp16 mixed precision requires a device in"):
        Accelerator(mixed_precision="fp16")


# With the shim


def train_in_half(accelerator: accelerate.Accelerator) -> tuple[list[float], set]:
    model = network()
    dtypes = computed_in(model)
    model = accelerator.prepare(model)
    optimizer = accelerator.prepare(torch.optim.AdamW(model.parameters(), lr=0.01))
    losses = []
    for _ in range(3):
        for points, labels in accelerator.prepare(loader()):
            loss = nn.functional.cross_entropy(model(points), labels)
            accelerator.backward(loss)
            accelerator.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            optimizer.zero_grad()
            losses.append(loss.item())
    return losses, dtypes


def test_float16_is_computed_in_float16_with_a_scaler(place):
    scaling = GradScalerKwargs(init_scale=256.0)
    accelerator = HalfAccelerator(mixed_precision="fp16", kwargs_handlers=[scaling])
    assert accelerator.mixed_precision == "fp16"
    assert accelerator.scaler.get_scale() == 256.0
    losses, dtypes = train_in_half(accelerator)
    assert dtypes == {torch.float16}
    assert losses[-1] < losses[0]
    again = HalfAccelerator(mixed_precision="fp16")
    assert again.mixed_precision == "fp16"
    AcceleratorState._reset_state(reset_partial_state=True)
    expected, _ = train_in_half(Accelerator())
    assert losses == pytest.approx(expected, rel=0.02)


def test_float16_scales_the_loss_and_skips_a_step_that_overflows(place):
    accelerator = HalfAccelerator(mixed_precision="fp16")
    model = accelerator.prepare(network())
    optimizer = accelerator.prepare(torch.optim.SGD(model.parameters(), lr=0.1))
    before = [parameter.clone() for parameter in model.parameters()]
    points = torch.full((2, 8), 1e4, device=place)
    accelerator.backward(model(points).float().square().sum())
    optimizer.step()
    assert optimizer.step_was_skipped
    for parameter, old in zip(model.parameters(), before, strict=True):
        assert torch.equal(parameter, old)


@pytest.mark.parametrize("precision", [None, "no", "bf16"])
def test_without_float16_the_shim_is_the_librarys(place, precision):
    accelerator = HalfAccelerator(mixed_precision=precision)
    assert accelerator.mixed_precision == (precision or "no")
    assert accelerator.scaler is None
    assert accelerator.device == place


def test_float16_may_come_from_the_environment(place, monkeypatch):
    monkeypatch.setenv("ACCELERATE_MIXED_PRECISION", "fp16")
    assert HalfAccelerator().scaler is not None


def test_the_librarys_default_device_is_the_cpu(place):
    """It has a list for that too; name the device of an offloaded model."""
    assert PartialState().default_device == torch.device("cpu")
    model, _ = accelerate.cpu_offload_with_hook(network(), execution_device=place)
    points = loader().dataset.tensors[0]
    assert torch.allclose(model(points).cpu(), network()(points), atol=1e-6)
    assert next(model.parameters()).device.type == "openreg"
