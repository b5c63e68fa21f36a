"""Trains a small network on ``acme`` and on the CPU. Full form: examples/train.py."""

import torch
import torch_acme  # noqa: F401 (makes the device known)
from torch import nn


def train(device: str, steps: int = 200) -> list[float]:
    """Return the losses; the same data and the same start on every device."""
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(2, 32), nn.ReLU(), nn.Linear(32, 1)).to(device)
    points = torch.rand(256, 2) * 2 - 1
    x, y = points.to(device), points.prod(dim=1, keepdim=True).to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.2, momentum=0.9)
    losses = []
    for _ in range(steps):
        optimizer.zero_grad()
        loss = (model(x) - y).square().mean()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


if __name__ == "__main__":
    ours, cpus = train("acme"), train("cpu")
    print("step      acme       cpu")
    for step in range(0, len(ours), 20):
        print(f"{step:4}  {ours[step]:.6f}  {cpus[step]:.6f}")
    torch.testing.assert_close(ours, cpus, rtol=1e-3, atol=1e-5)
    print(f"The loss fell from {ours[0]:.4f} to {ours[-1]:.6f}, as on the CPU.")
