"""Optimizers that PyTorch does not know step as on the CPU."""

import lion_pytorch
import prodigyopt
import pytest
import schedulefree
import torch
import torch_optimizer
from problem import loader, network
from torch import nn

OPTIMIZERS = {
    "AdaBelief": lambda p: torch_optimizer.AdaBelief(p, lr=0.01),
    "AdamP": lambda p: torch_optimizer.AdamP(p, lr=0.01),
    "DiffGrad": lambda p: torch_optimizer.DiffGrad(p, lr=0.01),
    "Lamb": lambda p: torch_optimizer.Lamb(p, lr=0.01),
    "NovoGrad": lambda p: torch_optimizer.NovoGrad(p, lr=0.01),
    "RAdam": lambda p: torch_optimizer.RAdam(p, lr=0.01),
    "Ranger": lambda p: torch_optimizer.Ranger(p, lr=0.01),
    "Shampoo": lambda p: torch_optimizer.Shampoo(p, lr=0.01),
    "Yogi": lambda p: torch_optimizer.Yogi(p, lr=0.01),
    "Lookahead": lambda p: torch_optimizer.Lookahead(torch_optimizer.Yogi(p, lr=0.01)),
    "Lion": lambda p: lion_pytorch.Lion(p, lr=0.001),
    "Prodigy": lambda p: prodigyopt.Prodigy(p, lr=1.0),
    "AdamWScheduleFree": lambda p: schedulefree.AdamWScheduleFree(p, lr=0.01),
    "SGDScheduleFree": lambda p: schedulefree.SGDScheduleFree(p, lr=0.1),
}


def train(make, device: str) -> tuple[list[float], nn.Module]:
    model = network().to(device)
    optimizer = make(model.parameters())
    if hasattr(optimizer, "train"):
        optimizer.train()  # schedule-free ones have two modes
    losses = []
    for _ in range(2):
        for points, labels in loader():
            optimizer.zero_grad()
            output = model(points.to(device))
            loss = nn.functional.cross_entropy(output, labels.to(device))
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
    return losses, model


@pytest.mark.filterwarnings("ignore:This overload of")
@pytest.mark.parametrize("name", OPTIMIZERS)
def test_an_optimizer_steps_as_on_the_cpu(name):
    losses, model = train(OPTIMIZERS[name], "openreg")
    expected, host = train(OPTIMIZERS[name], "cpu")
    assert losses == pytest.approx(expected, rel=1e-5)
    for ours, theirs in zip(model.parameters(), host.parameters(), strict=True):
        torch.testing.assert_close(ours.cpu(), theirs)
