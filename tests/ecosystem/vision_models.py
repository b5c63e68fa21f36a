"""Small vision models in the manner of timm's, which itself needs torchvision.

They have the parts that such models are made of: patches by einops, depthwise
convolutions, squeeze and excitation, layer scale, stochastic depth, attention with a
relative bias, inverted residuals.
"""

import torch
from einops import rearrange
from einops.layers.torch import Rearrange
from torch import nn

WIDTH = 16
CLASSES = 5


class SqueezeExcite(nn.Module):
    """Scales each channel by what all of them say."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.reduce = nn.Conv2d(width, width // 4, 1)
        self.expand = nn.Conv2d(width // 4, width, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        scale = x.mean((2, 3), keepdim=True)
        scale = self.expand(nn.functional.silu(self.reduce(scale)))
        return x * scale.sigmoid()


class ConvNextBlock(nn.Module):
    """Depthwise convolution, norm over channels, an MLP and a scale by layer."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.depthwise = nn.Conv2d(width, width, 7, padding=3, groups=width)
        self.norm = nn.LayerNorm(width, eps=1e-6)
        self.up = nn.Linear(width, 4 * width)
        self.down = nn.Linear(4 * width, width)
        self.scale = nn.Parameter(torch.full((width,), 0.1))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = rearrange(self.depthwise(x), "n c h w -> n h w c")
        y = self.down(nn.functional.gelu(self.up(self.norm(y)))) * self.scale
        return x + rearrange(y, "n h w c -> n c h w")


class InvertedResidual(nn.Module):
    """The block of the EfficientNets."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.body = nn.Sequential(
            nn.Conv2d(width, 4 * width, 1, bias=False),
            nn.BatchNorm2d(4 * width),
            nn.SiLU(),
            nn.Conv2d(4 * width, 4 * width, 3, padding=1, groups=4 * width, bias=False),
            nn.BatchNorm2d(4 * width),
            nn.SiLU(),
            SqueezeExcite(4 * width),
            nn.Conv2d(4 * width, width, 1, bias=False),
            nn.BatchNorm2d(width),
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + self.body(x)


class Attention(nn.Module):
    """Attention with a learned bias for each pair of places."""

    def __init__(self, width: int, places: int, heads: int = 2) -> None:
        super().__init__()
        self.heads = heads
        self.norm = nn.LayerNorm(width)
        self.qkv = nn.Linear(width, 3 * width)
        self.bias = nn.Parameter(0.02 * torch.randn(heads, places, places))
        self.out = nn.Linear(width, width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        pattern = "n t (three h d) -> three n h t d"
        q, k, v = rearrange(self.qkv(self.norm(x)), pattern, three=3, h=self.heads)
        y = nn.functional.scaled_dot_product_attention(q, k, v, attn_mask=self.bias)
        return x + self.out(rearrange(y, "n h t d -> n t (h d)"))


def stem() -> nn.Module:
    return nn.Conv2d(3, WIDTH, 4, stride=4)


def head() -> nn.Module:
    return nn.Sequential(
        nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(WIDTH, CLASSES)
    )


MODELS = {
    "convnext": lambda: nn.Sequential(stem(), ConvNextBlock(WIDTH), head()),
    "efficientnet": lambda: nn.Sequential(stem(), InvertedResidual(WIDTH), head()),
    "vit": lambda: nn.Sequential(
        Rearrange("n c (h a) (w b) -> n (h w) (a b c)", a=4, b=4),
        nn.Linear(48, WIDTH),
        Attention(WIDTH, places=16),
        nn.LayerNorm(WIDTH),
        Rearrange("n (h w) c -> n c h w", h=4),
        head(),
    ),
    "mixer": lambda: nn.Sequential(
        Rearrange("n c (h a) (w b) -> n (a b c) (h w)", a=4, b=4),
        nn.Linear(16, 16),
        nn.GELU(),
        Rearrange("n c t -> n t c"),
        nn.Linear(48, WIDTH),
        Rearrange("n (h w) c -> n c h w", h=4),
        head(),
    ),
}
