"""A small classification, the same for every library."""

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

FEATURES = 8
CLASSES = 3


def dataset(length: int = 64) -> TensorDataset:
    """Points with labels that a network can learn."""
    generator = torch.Generator().manual_seed(0)
    points = torch.randn(length, FEATURES, generator=generator)
    return TensorDataset(points, points[:, :CLASSES].argmax(dim=1))


def loader() -> DataLoader:
    return DataLoader(dataset(), batch_size=16, shuffle=False)


def computed_in(model: nn.Module) -> set[torch.dtype]:
    """A set that gets the dtypes of what the linear layers of ``model`` return."""
    seen: set[torch.dtype] = set()
    for module in model.modules():
        if isinstance(module, nn.Linear):
            module.register_forward_hook(lambda _m, _i, out: seen.add(out.dtype))
    return seen


def network() -> nn.Module:
    """The same weights every time."""
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(FEATURES, 16), nn.GELU(), nn.Linear(16, CLASSES))
