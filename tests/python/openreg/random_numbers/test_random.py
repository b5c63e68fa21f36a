"""Seeds and states of the devices' default generators."""

import pytest
import torch
from process import run_script
from torch import openreg


def draw(device: str = "openreg:0", **options) -> list[float]:
    return torch.rand(8, device=device, **options).tolist()


def cpu_numbers(seed: int) -> list[float]:
    return torch.rand(8, generator=torch.Generator().manual_seed(seed)).tolist()


# Seeds


@pytest.mark.parametrize(
    "seed", [openreg.manual_seed, openreg.manual_seed_all, torch.manual_seed]
)
def test_a_seed_gives_the_cpus_numbers_every_time(seed):
    for _ in range(2):
        seed(11)
        assert draw() == cpu_numbers(11)


def test_manual_seed_seeds_the_current_device_alone():
    torch.manual_seed(1)
    cpu = torch.get_rng_state()
    with openreg.device(1):
        openreg.manual_seed(2)
    assert draw("openreg:1") == cpu_numbers(2)
    assert draw("openreg:0") == cpu_numbers(1)
    assert torch.equal(torch.get_rng_state(), cpu)


def test_manual_seed_all_seeds_every_device_and_not_the_cpu():
    torch.manual_seed(1)
    openreg.manual_seed_all(3)
    assert draw("openreg:0") == draw("openreg:1") == cpu_numbers(3)
    assert torch.initial_seed() == 1


@pytest.mark.parametrize("seed", [torch.manual_seed, lambda _: torch.seed()])
def test_seeding_torch_seeds_every_device(seed):
    openreg.manual_seed_all(1)
    seed(4)
    seeds = {generator.initial_seed() for generator in openreg.default_generators}
    assert seeds == {torch.initial_seed()}
    assert seeds != {1}


def test_initial_seed_is_the_latest_seed_of_the_current_device():
    openreg.manual_seed_all(5)
    with openreg.device(1):
        openreg.manual_seed(6)
        assert openreg.initial_seed() == 6
    draw()
    assert openreg.initial_seed() == 5


def test_seed_chooses_a_new_seed_for_the_current_device():
    openreg.manual_seed_all(5)
    openreg.seed()
    chosen = openreg.initial_seed()
    openreg.seed()
    assert openreg.initial_seed() not in (5, chosen)
    assert openreg.default_generators[1].initial_seed() == 5


def test_seed_all_chooses_one_seed_for_all_devices():
    openreg.manual_seed_all(5)
    openreg.seed_all()
    first, second = (each.initial_seed() for each in openreg.default_generators)
    assert first == second != 5


@pytest.mark.parametrize(
    ("seed", "kept"), [(-1, 2**64 - 1), (2**64 - 1, 2**64 - 1), (2.7, 2), (True, 1)]
)
def test_seeds_are_64_bits(seed, kept):
    openreg.manual_seed(seed)
    assert openreg.initial_seed() == kept


@pytest.mark.parametrize("seed", [2**64, -(2**63) - 1])
def test_a_seed_beyond_64_bits_is_a_value_error(seed):
    for function in (openreg.manual_seed, openreg.manual_seed_all, torch.manual_seed):
        with pytest.raises(ValueError, match="Overflow"):
            function(seed)


# States of the default generators


def test_a_state_is_a_cpu_tensor_of_bytes():
    state = openreg.get_rng_state()
    assert (state.dtype, state.device.type, state.dim()) == (torch.uint8, "cpu", 1)
    assert state.shape == torch.get_rng_state().shape


def test_a_draw_changes_the_state_of_its_device_alone():
    devices, cpu = openreg.get_rng_state_all(), torch.get_rng_state()
    draw("openreg:1")
    assert torch.equal(openreg.get_rng_state(0), devices[0])
    assert not torch.equal(openreg.get_rng_state(1), devices[1])
    assert torch.equal(torch.get_rng_state(), cpu)


@pytest.mark.parametrize(
    "nothing",
    [
        lambda: torch.rand(0, device="openreg"),
        lambda: torch.empty(3, 0, device="openreg").normal_(),
        lambda: torch.rand(8),
        lambda: torch.empty(8, device="openreg"),
        lambda: torch.ones(8, device="openreg").bernoulli_(0.5, generator=other()),
    ],
    ids=["empty draw", "empty normal_", "draw of the CPU", "empty", "other generator"],
)
def test_what_draws_nothing_leaves_the_state(nothing):
    before = openreg.get_rng_state()
    nothing()
    assert torch.equal(openreg.get_rng_state(), before)


def other() -> torch.Generator:
    return torch.Generator("openreg")


@pytest.mark.parametrize("device", [0, 1, "openreg", "openreg:1"])
def test_a_state_that_is_set_gives_its_numbers_again(device):
    name = f"openreg:{device}" if isinstance(device, int) else device
    state = openreg.get_rng_state(device)
    first = draw(name)
    second = draw(name)
    openreg.set_rng_state(state, device)
    assert [draw(name), draw(name)] == [first, second]
    openreg.set_rng_state(state, torch.device(name))
    assert draw(name) == first


def test_a_state_between_two_normal_draws_keeps_the_second_half_of_a_pair():
    """The CPU's engine makes normal numbers in pairs and keeps one for later."""
    openreg.manual_seed(1)
    torch.empty(1, device="openreg").normal_()
    state = openreg.get_rng_state()
    rest = [torch.empty(1, device="openreg").normal_().item() for _ in range(3)]
    openreg.set_rng_state(state)
    again = [torch.empty(1, device="openreg").normal_().item() for _ in range(3)]
    assert again == rest


def test_a_state_is_not_tied_to_the_generator():
    state = openreg.get_rng_state()
    kept = state.clone()
    draw()
    assert torch.equal(state, kept)
    openreg.set_rng_state(state)
    state.zero_()
    assert torch.equal(openreg.get_rng_state(), kept)


def test_states_of_all_devices_are_set_together():
    openreg.manual_seed_all(7)
    draw("openreg:1")
    states = openreg.get_rng_state_all()
    assert len(states) == openreg.device_count()
    numbers = draw("openreg:0"), draw("openreg:1")
    openreg.set_rng_state_all(states)
    assert (draw("openreg:0"), draw("openreg:1")) == numbers
    openreg.set_rng_state_all(state for state in states)
    assert draw("openreg:0") == numbers[0]


def test_a_state_of_the_cpu_is_a_state_of_the_device():
    """The engine is the same, so a state goes both ways."""
    torch.manual_seed(8)
    torch.rand(5)
    openreg.set_rng_state(torch.get_rng_state())
    assert draw() == torch.rand(8).tolist()
    torch.set_rng_state(openreg.get_rng_state())
    assert torch.rand(8).tolist() == draw()


@pytest.mark.parametrize(
    ("make", "error", "message"),
    [
        (lambda state: state[:16].clone(), RuntimeError, "RNG state size"),
        (lambda state: state.float(), TypeError, "torch.ByteTensor"),
        (lambda state: state.to("openreg"), TypeError, "torch.ByteTensor"),
        (lambda state: state.tolist(), TypeError, "torch.ByteTensor"),
        (lambda _: None, TypeError, "torch.ByteTensor"),
    ],
    ids=["short", "floats", "on the device", "list", "None"],
)
def test_a_wrong_state_is_refused_and_changes_nothing(make, error, message):
    state = openreg.get_rng_state()
    with pytest.raises(error, match=message):
        openreg.set_rng_state(make(state))
    with pytest.raises(error, match=message):
        openreg.default_generators[0].set_state(make(state))
    assert torch.equal(openreg.get_rng_state(), state)


@pytest.mark.parametrize("device", [2, 99, "openreg:99"])
def test_the_state_of_no_device_is_an_index_error(device):
    state = openreg.get_rng_state()
    with pytest.raises(IndexError, match="there are 2 openreg devices"):
        openreg.get_rng_state(device)
    with pytest.raises(IndexError, match="there are 2 openreg devices"):
        openreg.set_rng_state(state, device)
    with pytest.raises(IndexError, match="no default generator 2"):
        openreg.set_rng_state_all([state] * 3)


def test_the_state_of_a_negative_index_or_another_kind_of_device_is_an_error():
    with pytest.raises(RuntimeError, match="must not be negative"):
        openreg.get_rng_state(-1)
    with pytest.raises(ValueError, match="Expected an openreg device"):
        openreg.get_rng_state("cpu")


def test_compiled_graphs_find_the_default_generator_by_device():
    for device in (torch.device("openreg", 0), torch.device("openreg", 1)):
        found = openreg._get_generator(device)
        assert found is openreg.default_generators[device.index]


def test_default_generators_are_a_sequence_by_device():
    generators = openreg.default_generators
    assert len(generators) == openreg.device_count()
    assert [str(each.device) for each in generators] == ["openreg:0", "openreg:1"]
    assert str(generators[-1].device) == "openreg:1"
    assert [str(each.device) for each in generators[1:]] == ["openreg:1"]
    assert "2 openreg devices" in repr(generators)
    with pytest.raises(IndexError, match="no default generator 5"):
        generators[5]


def test_default_generators_are_those_that_draws_use():
    openreg.manual_seed_all(11)
    generator = openreg.default_generators[1]
    assert generator.initial_seed() == 11
    generator.manual_seed(12)
    assert draw("openreg:1") == cpu_numbers(12)
    assert torch.equal(generator.get_state(), openreg.get_rng_state(1))
    assert generator == openreg.default_generators[1]


# Restored states


@pytest.mark.parametrize("devices", [[0], ["openreg:0"], [torch.device("openreg")]])
def test_fork_rng_restores_the_devices_it_was_given_and_the_cpu(devices):
    torch.manual_seed(2)
    before, cpu = openreg.get_rng_state_all(), torch.get_rng_state()
    with torch.random.fork_rng(devices=devices, device_type="openreg"):
        torch.manual_seed(1)
        assert draw("openreg:0") == draw("openreg:1") == torch.rand(8).tolist()
    assert torch.equal(openreg.get_rng_state(0), before[0])
    assert not torch.equal(openreg.get_rng_state(1), before[1])
    assert torch.equal(torch.get_rng_state(), cpu)


def test_fork_rng_restores_all_devices_by_default_and_warns_that_it_does():
    before = openreg.get_rng_state_all()
    with (
        pytest.warns(UserWarning, match="OPENREG reports that you have 2 available"),
        torch.random.fork_rng(device_type="openreg"),
    ):
        openreg.manual_seed_all(1)
    assert all(map(torch.equal, openreg.get_rng_state_all(), before))


def test_fork_rng_restores_after_an_exception():
    def draw_and_fail() -> None:
        with torch.random.fork_rng(devices=[0], device_type="openreg"):
            draw()
            raise ZeroDivisionError

    before = openreg.get_rng_state()
    with pytest.raises(ZeroDivisionError):
        draw_and_fail()
    assert torch.equal(openreg.get_rng_state(), before)


def test_fork_rng_that_is_not_enabled_restores_nothing():
    before = openreg.get_rng_state()
    with torch.random.fork_rng(devices=[0], device_type="openreg", enabled=False):
        draw()
    assert not torch.equal(openreg.get_rng_state(), before)


def test_fork_rng_of_no_device_is_an_index_error():
    with (
        pytest.raises(IndexError, match="there are 2 openreg devices"),
        torch.random.fork_rng(devices=[99], device_type="openreg"),
    ):
        pass


# What programs that use the CPU alone print, and what they touch

CPU_ALONE = """
    import warnings
    import torch
    warnings.simplefilter("error")
    torch.manual_seed(2)
    expected = torch.rand(8)
    torch.manual_seed(2)
    with torch.random.fork_rng():
        torch.manual_seed(1)
        torch.rand(8)
    assert torch.equal(torch.rand(8), expected)
    assert not torch.openreg.is_initialized()
"""


def test_fork_rng_leaves_unused_devices_alone():
    assert run_script(CPU_ALONE) == ""


# The seed before, then what the block does, then the numbers after it.
FORKED_BEFORE_USE = """
    import torch
    torch.manual_seed(2)
    with torch.random.fork_rng():
        {block}
    torch.testing.assert_close(
        torch.rand(8, device="openreg:1").cpu(),
        torch.rand(8, generator=torch.Generator().manual_seed(2)))
"""


@pytest.mark.parametrize(
    "block",
    [
        "pass",
        "torch.manual_seed(1)",
        "torch.openreg.manual_seed(1)",
        "torch.rand(8, device='openreg:1')",
        "torch.manual_seed(1); torch.rand(8, device='openreg:1')",
        "torch.openreg.set_rng_state(torch.openreg.get_rng_state(0), 1)",
        "torch.openreg.init(); torch.manual_seed(1)",
        "with torch.random.fork_rng(): torch.manual_seed(1)",
    ],
)
def test_fork_rng_brings_back_what_waited_for_the_first_use(block):
    run_script(FORKED_BEFORE_USE.format(block=block))


def test_fork_rng_brings_back_devices_that_were_not_seeded():
    run_script("""
        import torch
        with torch.random.fork_rng():
            inside = torch.rand(8, device="openreg")
        assert torch.equal(torch.rand(8, device="openreg"), inside)
    """)


def test_fork_rng_of_used_devices_warns():
    run_script("""
        import warnings
        import torch
        torch.openreg.init()
        with warnings.catch_warnings(record=True) as caught, torch.random.fork_rng():
            pass
        assert "2 available devices" in str(caught[0].message)
    """)
