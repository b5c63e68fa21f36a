"""Random numbers are the CPU's for every way to draw them and every layout."""

import pytest
import torch
from compare import DEVICE
from observe import assert_same_behaviour
from torch.nn import functional


def transposed(device: str) -> torch.Tensor:
    return torch.zeros(5, 7, device=device).t()


def gaps(device: str) -> torch.Tensor:
    return torch.zeros(6, 40, device=device)[::2, ::2]


IN_PLACE = {
    "uniform_": lambda x: x.uniform_(-1, 2),
    "normal_": lambda x: x.normal_(1, 2),
    "bernoulli_": lambda x: x.bernoulli_(0.3),
    "bernoulli_ of tensors": lambda x: x.bernoulli_(torch.full_like(x, 0.4)),
    "random_": lambda x: x.random_(10),
    "exponential_": lambda x: x.exponential_(),
    "geometric_": lambda x: x.geometric_(0.3),
    "cauchy_": lambda x: x.cauchy_(),
    "log_normal_": lambda x: x.log_normal_(),
}


@pytest.mark.parametrize("name", IN_PLACE)
@pytest.mark.parametrize("make", [transposed, gaps])
def test_any_layout_is_filled_as_on_the_cpu(name, make):
    def program(device):
        x = make(device)
        IN_PLACE[name](x)
        return x, x._base, IN_PLACE[name](x)

    assert_same_behaviour(program)


DRAWS = {
    "rand": lambda d: torch.rand(3, device=d),
    "randn of many": lambda d: torch.randn(40, device=d),
    "randn of complex": lambda d: torch.randn(3, dtype=torch.cfloat, device=d),
    "randint": lambda d: torch.randint(3, 9, (5,), device=d),
    "randperm": lambda d: torch.randperm(10, device=d),
    "normal": lambda d: torch.normal(torch.zeros(3, device=d), 2.0),
    "multinomial": lambda d: torch.multinomial(torch.ones(4, 5, device=d), 3),
    "multinomial again": lambda d: torch.multinomial(
        torch.ones(5, device=d), 9, replacement=True
    ),
    "poisson": lambda d: torch.poisson(torch.full((5,), 3.0, device=d)),
    "binomial": lambda d: torch.binomial(
        torch.full((5,), 3.0, device=d), torch.full((5,), 0.5, device=d)
    ),
    "gamma": lambda d: torch._standard_gamma(torch.ones(5, device=d)),
    "dropout": lambda d: functional.dropout(torch.ones(20, device=d)),
    "alpha_dropout": lambda d: functional.alpha_dropout(
        torch.ones(9, device=d), training=True
    ),
    "rrelu": lambda d: functional.rrelu(-torch.ones(5, device=d), training=True),
    "gumbel": lambda d: functional.gumbel_softmax(torch.ones(5, device=d)),
    "categorical": lambda d: torch.distributions.Categorical(
        torch.ones(5, device=d)
    ).sample((3,)),
    "beta": lambda d: torch.distributions.Beta(torch.ones(3, device=d), 2.0).sample(),
    "orthogonal_": lambda d: torch.nn.init.orthogonal_(torch.empty(3, 3, device=d)),
    "trunc_normal_": lambda d: torch.nn.init.trunc_normal_(torch.empty(8, device=d)),
    "one after another": lambda d: [
        torch.rand(2, device=d),
        torch.randn(3, device=d),
        torch.rand(2, device=d),
    ],
    "generator": lambda d: [
        torch.rand(2, device=d, generator=generator)
        for generator in [torch.Generator(d).manual_seed(9)]
        for _ in range(2)
    ],
    "no weights": lambda d: torch.multinomial(torch.zeros(2, device=d), 1),
    "negative weights": lambda d: torch.multinomial(
        torch.tensor([1.0, -1.0], device=d), 1
    ),
    "too many": lambda d: torch.multinomial(torch.tensor([1.0, 0.0], device=d), 2),
    "bad limits": lambda d: torch.zeros(2, device=d).uniform_(3, 1),
    "bad deviation": lambda d: torch.normal(0.0, -1.0, (2,), device=d),
    "bad rate": lambda d: torch.zeros(2, device=d).exponential_(-1),
    "bad probability": lambda d: torch.bernoulli(torch.tensor([2.0], device=d)),
}


@pytest.mark.usefixtures("one_thread")
@pytest.mark.parametrize("name", DRAWS)
def test_a_seed_draws_what_it_draws_on_the_cpu(name):
    assert_same_behaviour(DRAWS[name])


def test_a_generator_of_another_device_is_refused():
    with pytest.raises(RuntimeError, match="device type for generator"):
        torch.rand(2, device=DEVICE, generator=torch.Generator())
    with pytest.raises(RuntimeError, match="device type for generator"):
        torch.rand(2, generator=torch.Generator(DEVICE))
