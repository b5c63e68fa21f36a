"""Tensors without data that say they are on the device."""

import pytest
import torch
from compare import DEVICE
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.nn import functional

Tensor = torch.Tensor


def both(program) -> tuple[Tensor, Tensor]:
    """What ``program`` gives without and with data."""
    with FakeTensorMode():
        fake = program()
    return fake, program()


PROGRAMS = {
    "product": lambda: (
        torch.ones(2, 3, device=DEVICE) @ torch.ones(3, 4, device=DEVICE)
    ),
    "convolution": lambda: functional.conv2d(
        torch.ones(1, 3, 8, 8, device=DEVICE), torch.ones(4, 3, 3, 3, device=DEVICE)
    ),
    "channels last": lambda: functional.relu(
        torch.ones(1, 3, 8, 8, device=DEVICE).to(memory_format=torch.channels_last)
    ),
    "attention": lambda: functional.scaled_dot_product_attention(
        *(torch.ones(1, 2, 4, 8, device=DEVICE) for _ in range(3))
    ),
    "dropout": lambda: functional.dropout(torch.ones(5, device=DEVICE)),
    "layer norm": lambda: functional.layer_norm(torch.ones(2, 5, device=DEVICE), (5,)),
    "transposed copy": lambda: torch.ones(2, 3, device=DEVICE).t().clone(),
    "other device": lambda: torch.ones(2, device=f"{DEVICE}:0").to(f"{DEVICE}:1"),
    "from the host": lambda: torch.ones(2).to(DEVICE),
    "to the host": lambda: torch.ones(2, device=DEVICE).cpu(),
    "recurrent": lambda: torch.nn.LSTM(3, 4, device=DEVICE)(
        torch.ones(2, 1, 3, device=DEVICE)
    )[0].detach(),
    "own operator": lambda: torch.ops.openreg.custom_abs(torch.ones(2, device=DEVICE)),
    "low type": lambda: in_autocast(torch.ones(2, 2, device=DEVICE)),
}


def in_autocast(x: Tensor) -> Tensor:
    with torch.autocast(DEVICE):
        return x @ x


@pytest.mark.parametrize("name", PROGRAMS)
def test_fakes_look_like_the_real_results(name: str):
    fake, real = both(PROGRAMS[name])
    assert type(fake) is not type(real)
    assert (fake.device, fake.dtype) == (real.device, real.dtype)
    assert (fake.shape, fake.stride()) == (real.shape, real.stride())


def test_fakes_take_no_memory():
    before = torch.openreg.memory_allocated()
    with FakeTensorMode():
        x = torch.ones(2**40, device=DEVICE)
        assert (x + 1).device == torch.device(DEVICE, 0)
    assert torch.openreg.memory_allocated() == before


def test_fakes_refuse_what_the_device_refuses():
    with FakeTensorMode():
        x = torch.ones(2, 3, device=DEVICE)
        with pytest.raises(RuntimeError):
            x @ x
        with pytest.raises(RuntimeError, match="device"):
            x + torch.ones(2, 3)
        with pytest.raises(RuntimeError, match="device"):
            x + torch.ones(2, 3, device=f"{DEVICE}:1")


def test_a_real_tensor_becomes_a_fake_one():
    mode = FakeTensorMode()
    fake = mode.from_tensor(torch.ones(2, 3, device=f"{DEVICE}:1").t())
    assert str(fake.device) == f"{DEVICE}:1"
    assert fake.stride() == (1, 3)


def test_a_model_without_data_gets_memory_on_the_device():
    with torch.device("meta"):
        model = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.BatchNorm1d(4))
    with pytest.raises(NotImplementedError, match="Cannot copy out of meta tensor"):
        model.to(DEVICE)
    model.to_empty(device=DEVICE)
    for module in model:
        module.reset_parameters()
    assert {str(t.device) for t in model.state_dict().values()} == {f"{DEVICE}:0"}
    assert model(torch.ones(2, 3, device=DEVICE)).isfinite().all()
