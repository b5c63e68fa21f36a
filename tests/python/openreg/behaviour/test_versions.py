"""Every write in place counts once, so that autograd sees what has changed."""

import pytest
import torch
from compare import DEVICE
from observe import assert_same_behaviour
from torch.nn import functional

LISTS = {
    "add": lambda x: torch._foreach_add_(x, 1),
    "add of lists": lambda x: torch._foreach_add_(x, [y.clone() for y in x]),
    "mul": lambda x: torch._foreach_mul_(x, 2.0),
    "zero": torch._foreach_zero_,
    "copy": lambda x: torch._foreach_copy_(x, [y.clone() for y in x]),
    "addcdiv": lambda x: torch._foreach_addcdiv_(x, x, x),
    "lerp": lambda x: torch._foreach_lerp_(x, [y.clone() for y in x], 0.5),
    "sqrt": torch._foreach_sqrt_,
    "into others": lambda x: torch.ops.aten._foreach_exp.out(
        [y.clone() for y in x], out=x
    ),
    "unbind": lambda x: torch.ops.aten.unbind_copy.int_out(
        torch.stack(x).clone(), out=x
    ),
}


@pytest.mark.parametrize("name", LISTS)
def test_an_operator_on_a_list_counts_once_for_each_tensor(name):
    def program(device):
        tensors = [torch.ones(2, device=device), torch.full((2,), 4.0, device=device)]
        LISTS[name](tensors)
        return [x._version for x in tensors]

    assert assert_same_behaviour(program)["result"] == [1, 1]


def test_a_list_of_another_mode_is_refused():
    def program(device):
        with torch.inference_mode():
            x = torch.ones(2, device=device)
        torch._foreach_add_([x], 1)

    assert "error" in assert_same_behaviour(program)


@pytest.mark.parametrize("device", [DEVICE, "cpu"])
def test_a_gradient_over_a_changed_list_is_refused(device):
    y = torch.ones(2, device=device, requires_grad=True).exp()
    loss = y.sum()
    torch._foreach_mul_([y.detach()], 2)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        loss.backward()


def versions(x: torch.Tensor) -> list[int]:
    """The count after each of many writes."""
    device = x.device
    writes = [
        lambda: x.add_(1),
        lambda: x.zero_(),
        lambda: x.fill_(1),
        lambda: x.copy_(torch.ones(2)),
        lambda: x.uniform_(),
        lambda: x[0:1].mul_(2),
        lambda: x.abs_(),
        lambda: x.masked_fill_(x > 0, 1),
        lambda: x.index_fill_(0, torch.tensor([0], device=device), 3),
        lambda: x.__setitem__(0, 1.0),
        lambda: x.__setitem__(torch.tensor([1], device=device), 1.0),
        lambda: x.__setitem__(x > 0, 2.0),
        lambda: torch.add(torch.ones(2, device=device), 1, out=x),
        lambda: torch.sum(torch.ones(2, 2, device=device), 0, out=x),
        lambda: torch.abs(torch.ones(2, device=device), out=x),
        lambda: x.detach().add_(1),
        lambda: x.data.add_(1),
        lambda: functional.relu_(x),
        lambda: torch.nn.init.normal_(x),
        lambda: x.resize_(5),
        lambda: x.set_(torch.ones(3, device=device)),
        lambda: x.unsqueeze_(0),
        lambda: x.requires_grad_(),
    ]
    counts = []
    for write in writes:
        write()
        counts.append(x._version)
    return counts


def test_writes_count_as_on_the_cpu():
    assert_same_behaviour(lambda device: versions(torch.ones(2, device=device)))


@pytest.mark.parametrize("options", [{"foreach": True}, {"fused": True}])
def test_an_optimizer_counts_its_writes_as_on_the_cpu(options):
    def program(device):
        x = torch.ones(2, device=device, requires_grad=True)
        x.grad = torch.ones_like(x)
        optimizer = torch.optim.AdamW([x], **options)
        optimizer.step()
        state = optimizer.state[x].values()
        return x._version, [value._version for value in state]

    assert_same_behaviour(program)


def test_running_statistics_are_counted_as_on_the_cpu():
    def program(device):
        mean, var = torch.zeros(2, device=device), torch.ones(2, device=device)
        functional.batch_norm(torch.ones(3, 2, device=device), mean, var, training=True)
        return mean._version, var._version

    assert_same_behaviour(program)
