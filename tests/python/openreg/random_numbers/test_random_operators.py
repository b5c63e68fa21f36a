"""Random operators draw from the device's generator, and draw the CPU's numbers."""

from collections.abc import Callable

import pytest
import torch
from torch import nn, openreg
from torch.nn import functional
from torch.utils._python_dispatch import TorchDispatchMode

SEED = 7
Call = Callable[[str], object]


def empty(device: str, *shape: int, **options) -> torch.Tensor:
    return torch.empty(shape or (50,), device=device, **options)


def full(device: str, value: float, *shape: int, **options) -> torch.Tensor:
    return torch.full(shape or (50,), value, device=device, **options)


# By name, a call that draws on the device it is given.
FACTORIES: dict[str, Call] = {
    "rand": lambda d: torch.rand(5, 3, device=d),
    "rand out": lambda d: torch.rand(5, 3, out=empty(d, 5, 3)),
    "rand_like": lambda d: torch.rand_like(empty(d)),
    "randn": lambda d: torch.randn(7, device=d),
    "randn of many": lambda d: torch.randn(100_000, device=d),
    "randn complex": lambda d: torch.randn(9, dtype=torch.complex64, device=d),
    "randn_like": lambda d: torch.randn_like(empty(d)),
    "randint": lambda d: torch.randint(10, (50,), device=d),
    "randint wide": lambda d: torch.randint(-(2**40), 2**40, (50,), device=d),
    "randint_like": lambda d: torch.randint_like(empty(d), 9),
    "randperm": lambda d: torch.randperm(50, device=d),
    "randperm out": lambda d: torch.randperm(50, out=empty(d, dtype=torch.long)),
    "normal sizes": lambda d: torch.normal(2.0, 3.0, (50,), device=d),
    "normal tensors": lambda d: torch.normal(full(d, 1.0), full(d, 2.0)),
    "normal mean": lambda d: torch.normal(full(d, 1.0), 2.0),
    "normal std": lambda d: torch.normal(1.0, full(d, 2.0)),
}
SAMPLERS: dict[str, Call] = {
    "bernoulli": lambda d: torch.bernoulli(full(d, 0.3)),
    "bernoulli p": lambda d: torch.bernoulli(empty(d), 0.3),
    "binomial": lambda d: torch.binomial(full(d, 9.0), full(d, 0.3)),
    "poisson": lambda d: torch.poisson(full(d, 3.0)),
    "multinomial": lambda d: torch.multinomial(full(d, 1.0), 10),
    "multinomial again": lambda d: torch.multinomial(
        full(d, 1.0, 4, 50), 10, replacement=True
    ),
    "gamma": lambda d: torch._standard_gamma(full(d, 3.0)),
    "dirichlet": lambda d: torch._sample_dirichlet(full(d, 3.0, 5, 5)),
    "Gamma": lambda d: torch.distributions.Gamma(full(d, 2.0), full(d, 1.0)).rsample(),
    "Categorical": lambda d: torch.distributions.Categorical(full(d, 1.0, 5)).sample(
        (3,)
    ),
}
FUNCTIONALS: dict[str, Call] = {
    name: lambda d, name=name, args=args: getattr(torch.ops.aten, name)(empty(d), *args)
    for name, args in {
        "cauchy": (),
        "exponential": (),
        "geometric": (0.3,),
        "log_normal": (),
        "normal_functional": (),
        "random": (),
        "uniform": (),
    }.items()
}
LAYERS: dict[str, Call] = {
    "dropout": lambda d: functional.dropout(full(d, 1.0), 0.3),
    "dropout in place": lambda d: functional.dropout(full(d, 1.0), inplace=True),
    "dropout half": lambda d: functional.dropout(full(d, 1.0, dtype=torch.half)),
    "dropout with gradient": lambda d: functional.dropout(
        full(d, 1.0, requires_grad=True)
    ),
    "native_dropout": lambda d: torch.native_dropout(full(d, 1.0), 0.3, True),
    "dropout1d": lambda d: functional.dropout1d(full(d, 1.0, 4, 10, 3)),
    "dropout2d": lambda d: functional.dropout2d(full(d, 1.0, 4, 10, 3, 3)),
    "dropout3d": lambda d: functional.dropout3d(full(d, 1.0, 4, 5, 2, 2, 2)),
    "alpha_dropout": lambda d: functional.alpha_dropout(full(d, 1.0), training=True),
    "feature_alpha_dropout": lambda d: functional.feature_alpha_dropout(
        full(d, 1.0, 10, 10), training=True
    ),
    "rrelu": lambda d: functional.rrelu(full(d, -1.0), training=True),
    "rrelu in place": lambda d: functional.rrelu(
        full(d, -1.0), training=True, inplace=True
    ),
    "rrelu functional": lambda d: torch.ops.aten.rrelu_with_noise_functional(
        full(d, -1.0), empty(d), 0.1, 0.3, True
    ),
    "gumbel_softmax": lambda d: functional.gumbel_softmax(full(d, 1.0, 10, 10)),
    "fractional_max_pool2d": lambda d: functional.fractional_max_pool2d(
        torch.arange(64.0, device=d).view(1, 1, 8, 8), 2, output_size=3
    ),
    "attention": lambda d: functional.scaled_dot_product_attention(
        *[full(d, 1.0, 2, 4, 8, 16)] * 3, dropout_p=0.5
    ),
    "attention math": lambda d: torch._scaled_dot_product_attention_math(
        *[full(d, 1.0, 2, 4, 8, 16)] * 3, dropout_p=0.5
    ),
    "RNN": lambda d: nn.RNN(4, 4, 2, dropout=0.5, device=d)(full(d, 1.0, 3, 2, 4))[0],
    "MultiheadAttention": lambda d: nn.MultiheadAttention(8, 2, 0.5, device=d)(
        *[full(d, 1.0, 3, 2, 8)] * 3
    )[0],
    "Linear": lambda d: nn.Linear(8, 2, device=d).weight,
    "Embedding": lambda d: nn.Embedding(10, 3, device=d).weight,
    "trunc_normal_": lambda d: nn.init.trunc_normal_(empty(d)),
    "orthogonal_": lambda d: nn.init.orthogonal_(empty(d, 5, 5)),
    "svd_lowrank": lambda d: torch.svd_lowrank(torch.arange(30.0, device=d).view(5, 6))[
        1
    ],
}
CASES = FACTORIES | SAMPLERS | FUNCTIONALS | LAYERS

FILLS: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "uniform_": lambda x: x.uniform_(1, 2),
    "normal_": lambda x: x.normal_(1, 2),
    "cauchy_": lambda x: x.cauchy_(),
    "exponential_": lambda x: x.exponential_(),
    "log_normal_": lambda x: x.log_normal_(),
    "geometric_": lambda x: x.geometric_(0.3),
    "bernoulli_": lambda x: x.bernoulli_(0.3),
    "random_": lambda x: x.random_(),
    "random_ to": lambda x: x.random_(2),
    "random_ from": lambda x: x.random_(0, 2),
}
FLOATS = (torch.float32, torch.float64, torch.float16, torch.bfloat16)
INTEGERS = (torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64)
COMPLEX = (torch.complex64, torch.complex128)
DTYPES = {
    "normal_": FLOATS + COMPLEX,
    "geometric_": FLOATS + INTEGERS,
    "bernoulli_": (*FLOATS, *INTEGERS, torch.bool),
    "random_": (*FLOATS, *INTEGERS, torch.bool),
    "random_ to": (*FLOATS, *INTEGERS, torch.bool),
    "random_ from": (*FLOATS, *INTEGERS, torch.bool),
}


def tensors(result: object) -> list[torch.Tensor]:
    return list(result) if isinstance(result, tuple) else [result]


def assert_draws_like_the_cpu(call: Call, device: str = "openreg") -> None:
    """The same bits, as many draws, and none of them from the CPU's generator."""
    index = torch.device(device).index or 0
    torch.manual_seed(SEED)
    untouched = torch.get_rng_state()
    expected = tensors(call("cpu"))
    drawn = torch.get_rng_state()
    torch.manual_seed(SEED)
    result = tensors(call(device))
    assert torch.equal(torch.get_rng_state(), untouched)
    assert torch.equal(openreg.get_rng_state(index), drawn)
    assert torch.equal(openreg.get_rng_state(1 - index), untouched)
    for found, wanted in zip(result, expected, strict=True):
        assert found.device == torch.device("openreg", index)
        assert found.stride() == wanted.stride()
        torch.testing.assert_close(
            found.cpu(), wanted, rtol=0, atol=0, equal_nan=True, check_stride=True
        )


@pytest.mark.parametrize("name", CASES)
def test_a_seed_gives_the_cpus_numbers_and_leaves_the_cpus_generator(name):
    assert_draws_like_the_cpu(CASES[name])


@pytest.mark.parametrize("dtype", FLOATS + INTEGERS + COMPLEX + (torch.bool,), ids=str)
def test_a_seed_gives_the_cpus_numbers_in_every_dtype(dtype):
    names = [name for name in FILLS if dtype in DTYPES.get(name, FLOATS)]
    assert names
    for name in names:
        assert_draws_like_the_cpu(
            lambda d, fill=FILLS[name]: fill(empty(d, dtype=dtype))
        )


@pytest.mark.parametrize("name", FILLS)
@pytest.mark.parametrize("size", [0, 1, 15, 16, 17, 100])
def test_a_seed_gives_the_cpus_numbers_for_every_size(name, size):
    """The CPU draws fewer than 16 normal numbers in another way than more."""
    assert_draws_like_the_cpu(lambda d: FILLS[name](torch.zeros(size, device=d)))


@pytest.mark.parametrize("name", FILLS)
def test_a_seed_gives_the_cpus_numbers_in_every_layout(name):
    def fill_part(d: str) -> torch.Tensor:
        whole = torch.zeros(6, 8, device=d)
        FILLS[name](whole.t()[::2, 1:])
        return whole

    assert_draws_like_the_cpu(fill_part)


@pytest.mark.parametrize("current", [0, 1])
@pytest.mark.parametrize("name", ["rand", "randperm", "bernoulli", "dropout", "Linear"])
def test_draws_use_the_generator_of_their_device_whichever_is_current(name, current):
    with openreg.device(current):
        for device in ("openreg:0", "openreg:1"):
            assert_draws_like_the_cpu(CASES[name], device)


def test_consecutive_draws_of_all_kinds_go_on_as_the_cpus():
    def several(d: str) -> tuple[torch.Tensor, ...]:
        return tuple(x for call in FACTORIES.values() for x in tensors(call(d)))

    assert_draws_like_the_cpu(several)


class Reached(TorchDispatchMode):
    """The names of the operators that were called."""

    def __init__(self) -> None:
        super().__init__()
        self.names: set[str] = set()

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        self.names.add(function.name().partition("::")[2].partition(".")[0])
        return function(*args, **(kwargs or {}))


def has_kernel(name: str, key: str) -> bool:
    return torch._C._dispatch_has_computed_kernel_for_dispatch_key(name, key)


def is_composite(name: str) -> bool:
    key = "CompositeImplicitAutograd"
    return torch._C._dispatch_has_kernel_for_dispatch_key(name, key)


def random_operators() -> set[str]:
    """The operators that the CPU can run and PyTorch knows to draw.

    Without those that are made of others, which do the drawing.
    """
    names = set()
    for schema in torch._C._jit_get_all_schemas():
        namespace, _, name = schema.name.partition("::")
        overload = schema.overload_name or "default"
        operator = getattr(getattr(torch.ops.aten, name, None), overload, None)
        # PyTorch makes `out` forms for operators of other devices, too.
        if namespace != "aten" or operator is None or overload.endswith("out"):
            continue
        draws = torch.Tag.nondeterministic_seeded in operator.tags
        if draws and has_kernel(operator.name(), "CPU"):
            names |= set() if is_composite(operator.name()) else {name}
    return names


# Attention as one operator: which one, and the two that do not drop.
NOT_ASKED_FOR = {
    "_fused_sdp_choice",
    "_scaled_dot_product_flash_attention_for_cpu",
    "_scaled_dot_product_fused_attention_overrideable",
}


def test_every_random_operator_of_the_cpu_is_tested_here():
    with Reached() as reached:
        for call in CASES.values():
            call("openreg")
        for fill in FILLS.values():
            fill(empty("openreg"))
    known = random_operators()
    assert len(known) > 30
    assert known - reached.names <= NOT_ASKED_FOR
