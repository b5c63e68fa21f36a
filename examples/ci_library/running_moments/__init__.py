"""Mean and variance of batches, on the device that the batches are on."""

import torch
from torch import Tensor

__all__ = ["RunningMoments"]


class RunningMoments:
    """Keeps the mean and the variance of all rows so far. The host never waits."""

    def __init__(self, features: int, device: torch.device | str = "cpu") -> None:
        """Start with no rows."""
        self.count = torch.zeros((), device=device)
        self.mean = torch.zeros(features, device=device)
        self._squares = torch.zeros(features, device=device)

    def update(self, rows: Tensor) -> None:
        """Add the rows of a batch; they may be on another device."""
        rows = rows.to(self.mean.device, non_blocking=True)
        count = self.count + rows.shape[0]
        away = rows.mean(dim=0) - self.mean
        self._squares += (rows - rows.mean(dim=0)).square().sum(dim=0)
        self._squares += away.square() * self.count * rows.shape[0] / count
        self.mean += away * rows.shape[0] / count
        self.count = count

    @property
    def variance(self) -> Tensor:
        """The variance of the rows, without Bessel's correction."""
        return self._squares / self.count
