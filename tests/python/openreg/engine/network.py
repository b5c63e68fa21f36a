"""A small network with layers of many kinds."""

import torch
from torch import nn


def make_network() -> nn.Module:
    """The same weights every time."""
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(0)
        return nn.Sequential(
            nn.Conv2d(1, 4, 3),
            nn.BatchNorm2d(4),
            nn.ReLU(),
            nn.MaxPool2d(2),
            nn.Flatten(),
            nn.Linear(36, 16),
            nn.LayerNorm(16),
            nn.GELU(),
            nn.Linear(16, 5),
        )
