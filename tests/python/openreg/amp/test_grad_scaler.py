"""``GradScaler("openreg")``: the CPU's numbers, steps skipped, nothing waited for."""

import re
from collections.abc import Callable

import pytest
import torch
from compare import DEVICE, assert_same, numbers

INF = float("inf")
pytestmark = pytest.mark.usefixtures("one_thread")

OPTIMIZERS: dict[str, Callable[[object], torch.optim.Optimizer]] = {
    "SGD": lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.9),
    "SGD, foreach": lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.9, foreach=True),
    "SGD, fused": lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.9, fused=True),
    "AdamW": lambda p: torch.optim.AdamW(p, lr=0.1),
    "AdamW, foreach": lambda p: torch.optim.AdamW(p, lr=0.1, foreach=True),
    "AdamW, fused": lambda p: torch.optim.AdamW(p, lr=0.1, fused=True),
}


def train(device: str, name: str, bad: float, steps: int = 6) -> list[object]:
    """Train with a scaler; one step has a gradient that is not finite."""
    torch.manual_seed(0)
    model = torch.nn.Linear(4, 3).to(device)
    optimizer = OPTIMIZERS[name](model.parameters())
    scaler = torch.amp.GradScaler(device, init_scale=4.0, growth_interval=2)
    seen: list[object] = []
    for step in range(steps):
        optimizer.zero_grad()
        loss = model(numbers(5, 4).to(device)).square().mean()
        scaler.scale(loss).backward()
        assert model.weight.grad is not None
        if step == 3:
            model.weight.grad[0, 0] = bad
        scaler.step(optimizer)
        scaler.update()
        seen += [scaler.get_scale(), *(p.detach().clone() for p in model.parameters())]
    return seen


@pytest.mark.parametrize("bad", [1.0, INF, -INF, float("nan")])
@pytest.mark.parametrize("name", OPTIMIZERS)
def test_training_with_a_scaler_gives_the_cpus_numbers(name: str, bad: float):
    found = train(DEVICE, name, bad)
    assert_same(found, train("cpu", name, bad))
    before, after = found[3 * 3 - 2], found[3 * 4 - 2]
    assert torch.equal(before, after) == (bad != 1.0)  # a bad step changes nothing
    assert found[9] == (4.0 if bad != 1.0 else 16.0)


def test_mixed_precision_learns_and_is_the_cpus_with_casts_by_hand():
    x, y = numbers(16, 8), numbers(16, 1).tanh()

    def losses(device: str, by_hand: bool) -> list[torch.Tensor]:
        torch.manual_seed(0)
        first, second = torch.nn.Linear(8, 16), torch.nn.Linear(16, 1)
        model = torch.nn.Sequential(first, torch.nn.Tanh(), second).to(device)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        scaler = torch.amp.GradScaler(device, init_scale=256.0)
        inputs, targets = x.to(device), y.to(device)
        seen = []
        for _ in range(8):
            optimizer.zero_grad()
            if by_hand:
                half = torch.nn.functional.linear(
                    inputs.half(), first.weight.half(), first.bias.half()
                ).tanh()
                output = torch.nn.functional.linear(
                    half, second.weight.half(), second.bias.half()
                )
            else:
                with torch.autocast(device):
                    output = model(inputs)
            loss = (output.float() - targets).square().mean()
            scaler.scale(loss).backward()
            scaler.step(optimizer)
            scaler.update()
            seen.append(loss.detach())
        return seen

    found = losses(DEVICE, by_hand=False)
    assert_same(found, losses("cpu", by_hand=True))
    assert found[-1] < found[0]


def parameter(value: float, device: str = DEVICE, **options) -> torch.nn.Parameter:
    return torch.nn.Parameter(torch.full((2,), value, device=device, **options))


def test_unscale_gives_the_true_gradients_and_only_once():
    leaf = parameter(1.0)
    optimizer = torch.optim.SGD([leaf], lr=1.0)
    scaler = torch.amp.GradScaler(DEVICE)
    scaler.scale((leaf * 3).sum()).backward()
    scaler.unscale_(optimizer)
    assert leaf.grad is not None
    assert leaf.grad.tolist() == [3.0, 3.0]
    with pytest.raises(RuntimeError, match=r"unscale_\(\) has already been called"):
        scaler.unscale_(optimizer)
    scaler.step(optimizer)
    with pytest.raises(RuntimeError, match="after step"):
        scaler.unscale_(optimizer)
    scaler.update()
    assert leaf.tolist() == [-2.0, -2.0]


def test_one_bad_device_stops_the_step_on_all():
    leaves = [parameter(1.0, f"{DEVICE}:{index}") for index in (0, 1)]
    optimizer = torch.optim.SGD(leaves, lr=1.0)
    scaler = torch.amp.GradScaler(DEVICE, init_scale=8.0)
    for leaf in leaves:
        scaler.scale(leaf.sum()).backward()
    assert leaves[1].grad is not None
    leaves[1].grad[0] = INF
    scaler.step(optimizer)
    scaler.update()
    assert [leaf.tolist() for leaf in leaves] == [[1.0, 1.0], [1.0, 1.0]]
    assert scaler.get_scale() == 4.0


def test_sparse_gradients_are_unscaled():
    embedding = torch.nn.Embedding(4, 2, sparse=True, device=DEVICE)
    optimizer = torch.optim.SGD(embedding.parameters(), lr=1.0)
    torch.nn.init.zeros_(embedding.weight)
    scaler = torch.amp.GradScaler(DEVICE, init_scale=8.0)
    scaler.scale(embedding(torch.tensor([1, 1], device=DEVICE)).sum()).backward()
    scaler.step(optimizer)
    assert embedding.weight.tolist() == [[0, 0], [-2, -2], [0, 0], [0, 0]]


def test_scaling_and_unscaling_wait_for_nothing(gate, watch):
    leaf = parameter(1.0)
    optimizer = torch.optim.SGD([leaf], lr=1.0)
    scaler = torch.amp.GradScaler(DEVICE)
    for _ in range(2):  # the first time learns what the results look like
        optimizer.zero_grad()
        scaler.scale(leaf.sum()).backward()
        scaler.unscale_(optimizer)
        scaler.step(optimizer)
        scaler.update()
    optimizer.zero_grad()
    scaler.scale(leaf.sum()).backward()
    gate.hold(torch.accelerator.current_stream())
    assert watch.returns(lambda: scaler.unscale_(optimizer))
    assert watch.waits(lambda: scaler.step(optimizer))
    gate.open()
    watch.finish()
    scaler.update()
    assert leaf.tolist() == [-2.0, -2.0]


def test_the_state_is_saved_and_loaded():
    leaf = parameter(1.0)
    optimizer = torch.optim.SGD([leaf], lr=1.0)
    scaler = torch.openreg.amp.GradScaler(init_scale=8.0, growth_interval=5)
    scaler.scale(leaf.sum()).backward()
    scaler.step(optimizer)
    scaler.update()
    state = scaler.state_dict()
    assert state["scale"] == 8.0
    assert state["_growth_tracker"] == 1
    other = torch.amp.GradScaler(DEVICE)
    other.load_state_dict(state)
    assert other.state_dict() == state


def test_a_scaler_that_is_off_changes_nothing():
    leaf = parameter(1.0)
    scaler = torch.amp.GradScaler(DEVICE, enabled=False)
    loss = leaf.sum()
    assert scaler.scale(loss) is loss
    loss.backward()
    scaler.step(torch.optim.SGD([leaf], lr=1.0))
    scaler.update()
    assert leaf.tolist() == [0.0, 0.0]
    assert scaler.get_scale() == 1.0


def test_gradients_in_half_are_refused():
    leaf = parameter(1.0, dtype=torch.float16)
    scaler = torch.amp.GradScaler(DEVICE, init_scale=2.0)
    scaler.scale(leaf.sum()).backward()
    with pytest.raises(ValueError, match="unscale FP16 gradients"):
        scaler.unscale_(torch.optim.SGD([leaf], lr=1.0))


def test_a_step_without_scaled_losses_is_refused():
    scaler = torch.amp.GradScaler(DEVICE)
    optimizer = torch.optim.SGD([parameter(1.0)], lr=1.0)
    with pytest.raises(AssertionError, match="_scale is None"):
        scaler.step(optimizer)
    with pytest.raises(AssertionError, match="growth factor"):
        torch.amp.GradScaler(DEVICE, growth_factor=1.0)


def test_a_scaler_of_the_device_that_meets_the_cpu_works_there():
    """CUDA's does too: the scale lives where the first loss is."""
    leaf = parameter(1.0, "cpu")
    optimizer = torch.optim.SGD([leaf], lr=1.0)
    scaler = torch.amp.GradScaler(DEVICE, init_scale=2.0)
    scaler.scale(leaf.sum()).backward()
    scaler.step(optimizer)
    assert leaf.tolist() == [0.0, 0.0]


def test_a_scaler_of_a_device_that_is_missing_says_so_and_scales_nothing():
    leaf = parameter(1.0)
    with pytest.warns(UserWarning, match="CUDA is not available.  Disabling"):
        scaler = torch.amp.GradScaler("cuda", init_scale=4.0)
    scaler.scale(leaf.sum()).backward()
    assert leaf.grad is not None
    assert leaf.grad.tolist() == [1.0, 1.0]
    scaler.step(torch.optim.SGD([leaf], lr=1.0))
    assert leaf.tolist() == [0.0, 0.0]


HOST = "found at least two devices, openreg:0 and cpu!"
OTHER = "found at least two devices, openreg:0 and openreg:1!"

# What is found and the scale, and what is said of them.
WRONG: dict[str, tuple[Callable[[], tuple[torch.Tensor, torch.Tensor]], str]] = {
    "found on the host": (lambda: (torch.zeros(1), one()), HOST),
    "scale on the host": (lambda: (one() * 0, torch.ones(1)), HOST),
    "found elsewhere": (lambda: (torch.zeros(1, device=f"{DEVICE}:1"), one()), OTHER),
    "scale elsewhere": (
        lambda: (one() * 0, torch.ones(1, device=f"{DEVICE}:1")),
        OTHER,
    ),
    "found of two": (
        lambda: (torch.zeros(2, device=DEVICE), one()),
        "found_inf must be a 1-element tensor.",
    ),
    "scale of two": (
        lambda: (one() * 0, torch.ones(2, device=DEVICE)),
        "inv_scale must be a 1-element tensor.",
    ),
    "found in float64": (
        lambda: (one().double() * 0, one()),
        "found_inf must be a float tensor.",
    ),
    "scale in float64": (
        lambda: (one() * 0, one().double()),
        "inv_scale must be a float tensor.",
    ),
}


def one() -> torch.Tensor:
    return torch.ones(1, device=DEVICE)


@pytest.mark.parametrize("name", WRONG)
def test_a_scale_of_the_wrong_kind_is_refused_and_changes_nothing(name: str):
    gradient = torch.full((3,), 4.0, device=DEVICE)
    make, message = WRONG[name]
    found_inf, inv_scale = make()
    before = found_inf.tolist(), inv_scale.tolist()
    with pytest.raises(RuntimeError, match=re.escape(message)):
        torch._amp_foreach_non_finite_check_and_unscale_(
            [gradient], found_inf, inv_scale
        )
    assert gradient.tolist() == [4.0] * 3
    assert (found_inf.tolist(), inv_scale.tolist()) == before
