"""Generators of one's own: ``torch.Generator("openreg")``."""

import copy
import pickle
import threading

import pytest
import torch
from torch import openreg

DEFAULT_SEED = 67280421310721


def draw(device: str = "openreg:0", **options) -> list[float]:
    return torch.rand(8, device=device, **options).tolist()


def cpu_numbers(seed: int) -> list[float]:
    return torch.rand(8, generator=torch.Generator().manual_seed(seed)).tolist()


def test_a_generator_says_what_it_was_made_for():
    assert str(torch.Generator("openreg").device) == "openreg"
    assert str(torch.Generator("openreg:1").device) == "openreg:1"
    assert torch.Generator(device=torch.device("openreg:1")).device.index == 1


def test_a_generator_needs_no_device():
    assert str(torch.Generator("openreg:99").device) == "openreg:99"


def test_a_generator_serves_every_device():
    generator = torch.Generator("openreg:0").manual_seed(3)
    assert draw("openreg:1", generator=generator) == cpu_numbers(3)


def test_a_new_generator_has_the_default_seed():
    generator = torch.Generator("openreg")
    assert generator.initial_seed() == DEFAULT_SEED
    assert draw(generator=generator) == cpu_numbers(DEFAULT_SEED)


def test_seeding_a_generator_returns_it():
    generator = torch.Generator("openreg")
    assert generator.manual_seed(9) is generator
    assert generator.initial_seed() == 9
    assert generator.seed() == generator.initial_seed() != 9


def test_a_generator_and_the_default_one_do_not_know_each_other():
    openreg.manual_seed(1)
    generator = torch.Generator("openreg").manual_seed(1)
    first = draw(generator=generator)
    assert draw() == first == cpu_numbers(1)
    assert draw(generator=generator) == draw()


def test_a_generators_state_is_read_set_and_cloned():
    generator = torch.Generator("openreg").manual_seed(2)
    draw(generator=generator)
    state, clone = generator.get_state(), generator.clone_state()
    numbers = draw(generator=generator)
    assert clone.device == generator.device
    assert draw(generator=clone) == numbers
    assert generator.set_state(state) is generator
    assert draw(generator=generator) == numbers
    assert clone.initial_seed() == 2


@pytest.mark.parametrize("device", ["openreg", "openreg:1"])
@pytest.mark.parametrize(
    "duplicate", [copy.deepcopy, lambda each: pickle.loads(pickle.dumps(each))]
)
def test_a_copied_or_pickled_generator_goes_on_where_the_original_was(
    duplicate, device
):
    generator = torch.Generator(device).manual_seed(2)
    draw(generator=generator)
    twin = duplicate(generator)
    assert twin.device == generator.device
    assert twin.initial_seed() == 2
    assert draw(generator=twin) == draw(generator=generator)


def test_the_only_offset_is_the_start_of_the_seed():
    generator = torch.Generator("openreg").manual_seed(2)
    numbers = draw(generator=generator)
    assert generator.get_offset() == 0
    generator.set_offset(0)
    assert draw(generator=generator) == numbers
    with pytest.raises(RuntimeError, match="the only offset is 0, got 8"):
        generator.set_offset(8)


def test_a_generator_has_no_states_for_graphs():
    generator = torch.Generator("openreg")
    with pytest.raises(NotImplementedError, match="graphsafe_get_state"):
        generator.graphsafe_get_state()


DRAWS = {
    "rand": lambda device, generator: torch.rand(3, device=device, generator=generator),
    "randperm": lambda device, generator: torch.randperm(
        3, device=device, generator=generator
    ),
    "normal_": lambda device, generator: torch.empty(3, device=device).normal_(
        generator=generator
    ),
    "bernoulli": lambda device, generator: torch.bernoulli(
        torch.ones(3, device=device), generator=generator
    ),
    "multinomial": lambda device, generator: torch.multinomial(
        torch.ones(3, device=device), 1, generator=generator
    ),
}


@pytest.mark.parametrize("name", DRAWS)
@pytest.mark.parametrize(("device", "wrong"), [("openreg", "cpu"), ("cpu", "openreg")])
def test_a_generator_of_another_kind_of_device_is_refused(name, device, wrong):
    message = f"Expected a '{device}' device type for generator but found '{wrong}'"
    with pytest.raises(RuntimeError, match=message):
        DRAWS[name](device, torch.Generator(wrong))


def test_threads_that_share_a_generator_get_its_numbers_each_once():
    openreg.manual_seed(21)
    expected = sorted(draw() for _ in range(64))
    openreg.manual_seed(21)
    drawn: list[list[float]] = []

    def run() -> None:
        drawn.extend(draw() for _ in range(16))

    threads = [threading.Thread(target=run) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=60)
    assert sorted(drawn) == expected
