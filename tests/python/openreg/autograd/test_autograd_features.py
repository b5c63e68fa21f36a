"""What programs do with autograd: functions, hooks, checkpoints, ``torch.func``."""

import pytest
import torch
from compare import DEVICE, assert_same, numbers, to_device
from torch.autograd import forward_ad
from torch.utils.checkpoint import checkpoint, checkpoint_sequential

Tensor = torch.Tensor
pytestmark = pytest.mark.usefixtures("one_thread")


class Square(torch.autograd.Function):
    """With all that ``torch.func`` asks for."""

    @staticmethod
    def forward(x: Tensor) -> Tensor:  # noqa: D102
        return x * x

    @staticmethod
    def setup_context(ctx, inputs, output) -> None:  # noqa: D102
        ctx.save_for_backward(*inputs)
        ctx.save_for_forward(*inputs)

    @staticmethod
    def backward(ctx, gradient: Tensor) -> Tensor:  # noqa: D102
        (x,) = ctx.saved_tensors
        return 2 * x * gradient

    @staticmethod
    def jvp(ctx, tangent: Tensor) -> Tensor:  # noqa: D102
        (x,) = ctx.saved_tensors
        return 2 * x * tangent

    @staticmethod
    def vmap(info, in_dims, x: Tensor) -> tuple[Tensor, int]:  # noqa: D102
        return Square.apply(x), in_dims[0]


class Failing(torch.autograd.Function):
    """Its backward raises."""

    @staticmethod
    def forward(ctx, x: Tensor) -> Tensor:  # noqa: D102
        return x * 2

    @staticmethod
    def backward(ctx, gradient: Tensor) -> Tensor:  # noqa: D102
        raise ValueError("no gradient today")


def leaf(*shape: int, dtype: torch.dtype = torch.float64) -> Tensor:
    return numbers(*shape).to(DEVICE, dtype).requires_grad_()


def network(x: Tensor) -> Tensor:
    return torch.tanh(x @ x.t()).exp().sum()


# Gradients


def test_first_and_second_derivatives_are_those_of_finite_differences():
    x = leaf(3, 3)
    assert torch.autograd.gradcheck(network, x, check_forward_ad=True)
    assert torch.autograd.gradgradcheck(network, x)
    assert torch.autograd.gradcheck(Square.apply, x, check_forward_ad=True)


def test_a_second_backward_without_the_graph_is_refused():
    x = leaf(3)
    y = (x * x).sum()
    y.backward()
    with pytest.raises(RuntimeError, match="backward through the graph a second time"):
        y.backward()


def test_a_gradient_of_a_gradient():
    x = torch.tensor(2.0, device=DEVICE, requires_grad=True)
    (first,) = torch.autograd.grad(x**3, x, create_graph=True)
    (second,) = torch.autograd.grad(first, x)
    assert second.item() == 12.0


def test_an_error_in_a_functions_backward_reaches_the_caller():
    x = leaf(3)
    with pytest.raises(ValueError, match="no gradient today"):
        Failing.apply(x).sum().backward()
    assert x.grad is None
    Square.apply(x).sum().backward()
    assert_same(x.grad, 2 * x.detach().cpu())


def test_a_change_of_what_backward_needs_is_found():
    x = leaf(3)
    y = x.exp()
    y.mul_(2)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        y.sum().backward()


# Hooks


def test_hooks_of_tensors_nodes_and_modules_are_called_on_the_device():
    seen: list[tuple[str, str]] = []

    def note(name: str, *tensors: Tensor) -> None:
        seen.extend((name, str(t.device)) for t in tensors if t is not None)

    module = torch.nn.Linear(3, 2).to(DEVICE)
    module.register_forward_hook(lambda m, inputs, output: note("forward", output))
    module.register_full_backward_hook(lambda m, inputs, outputs: note("full", *inputs))
    x = leaf(4, 3, dtype=torch.float32)
    x.register_hook(lambda g: g * 10)
    x.register_post_accumulate_grad_hook(lambda t: note("accumulated", t.grad))
    y = module(x)
    y.grad_fn.register_prehook(lambda gradients: note("node", *gradients))
    y.sum().backward()
    names = [name for name, device in seen if device == f"{DEVICE}:0"]
    assert sorted(names) == ["accumulated", "forward", "full", "node"]
    expected = module.weight.detach().sum(0).cpu() * 10
    assert_same(x.grad, expected.expand(4, 3).contiguous())


def test_saved_tensors_can_be_kept_on_the_host():
    x = leaf(64)
    with torch.autograd.graph.save_on_cpu(pin_memory=True):
        y = (x.sin() * x).sum()
    y.backward()
    there = x.detach().cpu()
    assert_same(x.grad, there.cos() * there + there.sin())


# Checkpoints


def two_layers(device: str) -> torch.nn.Sequential:
    torch.manual_seed(0)
    layers = [torch.nn.Linear(4, 8), torch.nn.Dropout(0.5), torch.nn.Linear(8, 4)]
    return torch.nn.Sequential(*layers).to(device)


@pytest.mark.parametrize("reentrant", [True, False])
def test_checkpoints_of_both_kinds_give_the_gradients_without(reentrant: bool):
    def gradients(with_checkpoint: bool) -> list[Tensor]:
        module = two_layers(DEVICE)
        x = leaf(5, 4, dtype=torch.float32)
        torch.manual_seed(1)
        if with_checkpoint:
            y = checkpoint(module, x, use_reentrant=reentrant)
        else:
            y = module(x)
        y.square().sum().backward()
        return [x.grad.cpu(), *(p.grad.cpu() for p in module.parameters())]

    for found, expected in zip(gradients(True), gradients(False), strict=True):
        assert torch.equal(found, expected)


@pytest.mark.parametrize("reentrant", [True, False])
def test_a_checkpoint_runs_again_under_the_same_autocast(reentrant: bool):
    seen: list[torch.dtype] = []

    def forward(x: Tensor) -> Tensor:
        y = x @ x
        seen.append(y.dtype)
        return y.float().exp()

    x = leaf(3, 3, dtype=torch.float32)
    with torch.autocast(DEVICE, dtype=torch.bfloat16):
        y = checkpoint(forward, x, use_reentrant=reentrant)
    y.sum().backward()
    assert seen == [torch.bfloat16] * 2


def test_a_checkpointed_sequence():
    module = two_layers(DEVICE).eval()
    x = leaf(5, 4, dtype=torch.float32)
    y = checkpoint_sequential(module, 2, x, use_reentrant=False)
    assert torch.equal(y, module(x))
    y.sum().backward()
    assert x.grad is not None


def test_a_checkpoint_that_recomputes_something_else_is_refused():
    calls: list[int] = []

    def changing(x: Tensor) -> Tensor:
        calls.append(1)
        return x.exp() if len(calls) == 1 else x[:2].exp()

    x = leaf(3)
    y = checkpoint(changing, x, use_reentrant=False)
    with pytest.raises(torch.utils.checkpoint.CheckpointError):
        y.sum().backward()


# Anomaly mode


def test_anomaly_mode_names_the_node_that_made_a_nan():
    x = torch.zeros(2, device=DEVICE, requires_grad=True)
    with (
        pytest.warns(UserWarning, match="Anomaly Detection"),
        torch.autograd.detect_anomaly(),
        pytest.raises(RuntimeError, match="'SqrtBackward0' returned nan values"),
    ):
        (x.sqrt() * 0).sum().backward()
    with torch.autograd.set_detect_anomaly(False):
        (x.sqrt() * 0).sum().backward()


# torch.func and forward mode


TRANSFORMS = {
    "grad": lambda x: torch.func.grad(network)(x),
    "grad of a function": lambda x: torch.func.grad(lambda t: Square.apply(t).sum())(x),
    "value and grad": lambda x: torch.func.grad_and_value(network)(x),
    "vjp": lambda x: torch.func.vjp(torch.sin, x)[1](x),
    "jvp": lambda x: torch.func.jvp(torch.sin, (x,), (x,)),
    "jvp of a function": lambda x: torch.func.jvp(Square.apply, (x,), (x,)),
    "jacrev": lambda x: torch.func.jacrev(torch.tanh)(x),
    "jacfwd": lambda x: torch.func.jacfwd(torch.tanh)(x),
    "hessian": lambda x: torch.func.hessian(lambda t: (t**3).sum())(x),
    "vmap": lambda x: torch.func.vmap(torch.dot)(x, x),
    "vmap of a function": lambda x: torch.func.vmap(Square.apply)(x),
    "vmap of grad": lambda x: torch.func.vmap(torch.func.grad(lambda t: t.dot(t)))(x),
    "vmap, in chunks": lambda x: torch.func.vmap(torch.sin, chunk_size=2)(x),
    "vmap of inner dimensions": lambda x: torch.func.vmap(
        torch.outer, in_dims=(1, 0), out_dims=1
    )(x, x),
    "vmap of a convolution": lambda x: torch.func.vmap(
        torch.nn.functional.conv1d, in_dims=(None, 0)
    )(x.reshape(1, 3, 3), x.reshape(3, 1, 3, 1)),
}


@pytest.mark.parametrize("name", TRANSFORMS)
def test_transforms_give_what_the_cpu_gives(name: str):
    x = numbers(3, 3).double()
    assert_same(TRANSFORMS[name](to_device(x)), TRANSFORMS[name](x))


def test_a_module_is_called_with_other_parameters():
    modules = [torch.nn.Linear(3, 2).to(DEVICE) for _ in range(3)]
    parameters, buffers = torch.func.stack_module_state(modules)
    x = numbers(5, 3).to(DEVICE)

    def call(parameters: dict[str, Tensor], buffers: dict[str, Tensor]) -> Tensor:
        return torch.func.functional_call(modules[0], (parameters, buffers), (x,))

    found = torch.func.vmap(call)(parameters, buffers)
    expected = torch.stack([module(x) for module in modules])
    torch.testing.assert_close(found, expected)


def test_vmap_draws_by_its_mode():
    x = torch.zeros(4, 2, device=DEVICE)
    draw = torch.func.vmap(
        lambda t: t + torch.rand(2, device=DEVICE), randomness="same"
    )
    assert torch.equal(*draw(x)[:2])
    draw = torch.func.vmap(
        lambda t: t + torch.rand(2, device=DEVICE), randomness="different"
    )
    assert not torch.equal(*draw(x)[:2])
    with pytest.raises(RuntimeError, match="randomness"):
        torch.func.vmap(lambda t: t + torch.rand(2, device=DEVICE))(x)


def test_vmap_refuses_what_needs_a_value():
    with pytest.raises(RuntimeError, match=r"calling \.item\(\) on a Tensor"):
        torch.func.vmap(lambda t: t.item())(torch.ones(3, device=DEVICE))


def test_forward_mode_carries_tangents_on_the_device():
    x = numbers(3).to(DEVICE)
    with forward_ad.dual_level():
        dual = forward_ad.make_dual(x, torch.ones_like(x))
        primal, tangent = forward_ad.unpack_dual(dual.exp())
    assert_same(primal, numbers(3).exp())
    assert_same(tangent, numbers(3).exp())


def test_batched_gradients_are_the_single_ones():
    x = leaf(3)
    y = x.exp()
    rows = torch.eye(3, device=DEVICE, dtype=torch.float64)
    (found,) = torch.autograd.grad(y, x, rows, is_grads_batched=True)
    assert_same(found, torch.diag(x.detach().cpu().exp()))
