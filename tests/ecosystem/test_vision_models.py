"""Vision models train as on the CPU, also with channels last."""

import pytest
import torch
from torch import nn
from vision_models import CLASSES, MODELS


def train(name: str, device: str, memory_format: torch.memory_format) -> list[float]:
    torch.manual_seed(0)
    model = MODELS[name]().to(device, memory_format=memory_format)
    images = torch.randn(4, 3, 16, 16).contiguous(memory_format=memory_format)
    labels = torch.randint(CLASSES, (4,))
    images, labels = images.to(device), labels.to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    losses = []
    for _ in range(5):
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(images), labels, label_smoothing=0.1)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


@pytest.mark.parametrize(
    "memory_format", [torch.contiguous_format, torch.channels_last]
)
@pytest.mark.parametrize("name", MODELS)
def test_a_model_trains_as_on_the_cpu(name, memory_format):
    losses = train(name, "openreg", memory_format)
    assert losses == pytest.approx(train(name, "cpu", memory_format), rel=1e-5)
    assert losses[-1] < losses[0]
