"""peft loads with safetensors itself, so safetensors has to know the device."""

import peft
import pytest
import safetensors
import torch
from problem import network
from torch import nn

from torch_openreg.integrations.safetensors import install, uninstall

DEVICE = "openreg:1"


@pytest.fixture
def _installed():
    install()
    yield
    uninstall()


def adapted(device: str) -> nn.Module:
    """The network of the tests with an adapter on its first layer."""
    config = peft.LoraConfig(
        r=2, target_modules=["0"], init_lora_weights=False, lora_dropout=0.0
    )
    return peft.get_peft_model(network().to(device), config)


def points(device: str) -> torch.Tensor:
    return torch.arange(16.0, device=device).reshape(2, 8) / 16


@pytest.fixture
def saved(tmp_path):
    """A folder with an adapter from the device, and what the model gives with it."""
    torch.manual_seed(0)
    model = adapted(DEVICE)
    model.save_pretrained(tmp_path)
    return tmp_path, model(points(DEVICE)).cpu()


def test_without_install_the_library_refuses_the_device(saved):
    """As long as it does, install() has a reason."""
    folder, _ = saved
    with pytest.raises(safetensors.SafetensorError, match="openreg"):
        peft.PeftModel.from_pretrained(
            network().to(DEVICE), folder, torch_device=DEVICE
        )


@pytest.mark.usefixtures("_installed")
def test_an_adapter_is_saved_and_loaded(saved):
    folder, expected = saved
    model = peft.PeftModel.from_pretrained(
        network().to(DEVICE), folder, torch_device=DEVICE
    )
    adapters = [p for name, p in model.named_parameters() if "lora" in name]
    assert adapters
    assert {str(parameter.device) for parameter in adapters} == {DEVICE}
    assert torch.equal(model(points(DEVICE)).cpu(), expected)
    assert not torch.equal(network().to(DEVICE)(points(DEVICE)).cpu(), expected)


@pytest.mark.usefixtures("_installed")
def test_an_adapter_learns_as_on_the_cpu(saved):
    folder, _ = saved

    def losses(device: str) -> list[float]:
        model = peft.PeftModel.from_pretrained(
            network().to(device), folder, is_trainable=True, torch_device=device
        )
        optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
        found = []
        for _ in range(5):
            loss = model(points(device)).square().mean()
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()
            found.append(loss.item())
        return found

    on_device = losses(DEVICE)
    assert on_device == pytest.approx(losses("cpu"), rel=1e-5)
    assert on_device[-1] < on_device[0]
