"""einops works on the device as it does anywhere."""

import pytest
import torch
from einops import einsum, pack, rearrange, reduce, repeat, unpack
from einops.layers.torch import EinMix, Rearrange, Reduce
from torch import nn

CALLS = {
    "rearrange": lambda x: rearrange(x, "a b c -> c (a b)"),
    "reduce": lambda x: reduce(x, "a b c -> a c", "max"),
    "repeat": lambda x: repeat(x, "a b c -> a (b 2) c"),
    "einsum": lambda x: einsum(x, x, "a b c, a d c -> a b d"),
    "pack": lambda x: pack([x, x[:, 0]], "a * c")[0],
    "unpack": lambda x: unpack(*pack([x, x[:, 0]], "a * c"), "a * c")[1],
    "list": lambda x: rearrange([x, x], "n a b c -> a n (b c)"),
}


@pytest.mark.parametrize("name", CALLS)
def test_a_call_gives_the_cpus_result(name):
    x = torch.randn(2, 3, 4)
    result = CALLS[name](x.to("openreg"))
    assert result.device.type == "openreg"
    assert torch.equal(result.cpu(), CALLS[name](x))


def test_layers_train():
    torch.manual_seed(0)
    host = nn.Sequential(
        Rearrange("n (a b) -> n a b", a=2),
        EinMix("n a b -> n a c", weight_shape="b c", bias_shape="c", b=3, c=4),
        Reduce("n a c -> n c", "mean"),
    )
    ours = nn.Sequential(
        Rearrange("n (a b) -> n a b", a=2),
        EinMix("n a b -> n a c", weight_shape="b c", bias_shape="c", b=3, c=4),
        Reduce("n a c -> n c", "mean"),
    )
    ours.load_state_dict(host.state_dict())
    ours.to("openreg")
    x = torch.randn(5, 6)
    host(x).square().sum().backward()
    ours(x.to("openreg")).square().sum().backward()
    for mine, theirs in zip(ours.parameters(), host.parameters(), strict=True):
        torch.testing.assert_close(mine.grad.cpu(), theirs.grad)
