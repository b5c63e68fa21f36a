"""Group offloading of diffusers: layers come to the device when they are needed."""

import pytest
import torch
from diffusers.hooks import apply_group_offloading
from torch import nn

from torch_openreg.integrations.safetensors import install, uninstall

DEVICE = torch.device("openreg")


def model() -> nn.Module:
    """The same weights every time."""
    torch.manual_seed(0)
    blocks = nn.ModuleList(nn.Linear(16, 16) for _ in range(4))
    return Blocks(blocks)


class Blocks(nn.Module):
    """A list of layers, which diffusers offloads in groups."""

    def __init__(self, blocks: nn.ModuleList) -> None:
        super().__init__()
        self.blocks = blocks
        self.head = nn.Linear(16, 2)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for block in self.blocks:
            x = torch.relu(block(x))
        return self.head(x)


def assert_computes_there(offloaded: nn.Module) -> None:
    x = torch.linspace(-1, 1, 64).reshape(4, 16)
    with torch.no_grad():
        expected = model()(x)
        for _ in range(3):
            found = offloaded(x.to(DEVICE))
            assert found.device.type == "openreg"
            assert torch.allclose(found.cpu(), expected, atol=1e-6)


KINDS = [
    {"offload_type": "block_level", "num_blocks_per_group": 2},
    {"offload_type": "leaf_level"},
]


@pytest.mark.parametrize("kind", KINDS, ids=["blocks", "leaves"])
@pytest.mark.parametrize(
    "options",
    [
        {},
        {"non_blocking": True},
        {"use_stream": True},
        {"use_stream": True, "record_stream": True},
        {"use_stream": True, "low_cpu_mem_usage": True},
    ],
    ids=["plain", "non_blocking", "stream", "recorded", "unpinned"],
)
def test_offloaded_layers_compute_on_the_device(kind, options):
    offloaded = model()
    apply_group_offloading(offloaded, onload_device=DEVICE, **kind, **options)
    assert_computes_there(offloaded)
    # All is back on the host, except what the last stream still prefetches.
    if "use_stream" not in options:
        assert {p.device.type for p in offloaded.parameters()} == {"cpu"}


@pytest.fixture
def _installed():
    install()
    yield
    uninstall()


@pytest.mark.usefixtures("_installed")
@pytest.mark.parametrize("use_stream", [False, True])
def test_layers_offloaded_to_disk_come_back(tmp_path, use_stream):
    """Without a stream the library loads to the device with safetensors."""
    offloaded = model()
    apply_group_offloading(
        offloaded,
        onload_device=DEVICE,
        offload_to_disk_path=str(tmp_path),
        use_stream=use_stream,
        **KINDS[0],
    )
    assert_computes_there(offloaded)
