"""A network as diffusion models use it, in plain PyTorch."""

from types import SimpleNamespace

import torch
from torch import nn
from torch.nn import functional

WIDTH = 8
TIME = 16


class Residual(nn.Module):
    """Two convolutions that know the time, and a way around them."""

    def __init__(self, inputs: int, outputs: int) -> None:
        super().__init__()
        self.first = nn.Sequential(
            nn.GroupNorm(4, inputs), nn.SiLU(), nn.Conv2d(inputs, outputs, 3, padding=1)
        )
        self.time = nn.Linear(TIME, outputs)
        self.second = nn.Sequential(
            nn.GroupNorm(4, outputs),
            nn.SiLU(),
            nn.Dropout(0.1),
            nn.Conv2d(outputs, outputs, 3, padding=1),
        )
        self.around = nn.Conv2d(inputs, outputs, 1)

    def forward(self, x: torch.Tensor, time: torch.Tensor) -> torch.Tensor:
        """Return as many images, of ``outputs`` channels."""
        hidden = self.first(x) + self.time(time)[:, :, None, None]
        return self.around(x) + self.second(hidden)


class Attention(nn.Module):
    """Every pixel looks at every other one."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.norm = nn.GroupNorm(4, channels)
        self.heads = nn.MultiheadAttention(channels, 2, batch_first=True)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return images of the same size."""
        pixels = self.norm(x).flatten(2).transpose(1, 2)
        seen, _ = self.heads(pixels, pixels, pixels, need_weights=False)
        return x + seen.transpose(1, 2).reshape(x.shape)


def encode(times: torch.Tensor) -> torch.Tensor:
    """Sines and cosines of the times."""
    steps = torch.arange(TIME // 2, device=times.device)
    angles = times[:, None] * torch.exp(-steps / 2)
    return torch.cat([angles.sin(), angles.cos()], dim=-1)


class UNet(nn.Module):
    """Guesses which noise was added to images: down, a middle, up again."""

    def __init__(self) -> None:
        super().__init__()
        self.time = nn.Sequential(nn.Linear(TIME, TIME), nn.SiLU())
        self.start = nn.Conv2d(3, WIDTH, 3, padding=1)
        self.down = Residual(WIDTH, WIDTH)
        self.shrink = nn.Conv2d(WIDTH, 2 * WIDTH, 3, stride=2, padding=1)
        self.middle = Residual(2 * WIDTH, 2 * WIDTH)
        self.attention = Attention(2 * WIDTH)
        self.grow = nn.ConvTranspose2d(2 * WIDTH, WIDTH, 4, stride=2, padding=1)
        self.up = Residual(3 * WIDTH, WIDTH)
        self.end = nn.Conv2d(WIDTH, 3, 3, padding=1)

    def forward(
        self, images: torch.Tensor, times: torch.Tensor, noise: torch.Tensor
    ) -> SimpleNamespace:
        """Return the guess, and the loss: how far it is from the noise."""
        time = self.time(encode(times))
        high = self.down(self.start(images), time)
        low = self.attention(self.middle(self.shrink(high), time))
        nearest = functional.interpolate(low, scale_factor=2.0)[:, :WIDTH]
        joined = torch.cat([high, self.grow(low), nearest], dim=1)
        guess = self.end(self.up(joined, time))
        return SimpleNamespace(guess=guess, loss=functional.mse_loss(guess, noise))
