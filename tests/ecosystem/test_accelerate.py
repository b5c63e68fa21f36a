"""accelerate takes the device from its environment, and needs no more."""

import pytest
import torch
from accelerate import Accelerator
from accelerate.state import AcceleratorState
from problem import computed_in, loader, network
from torch import nn


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
