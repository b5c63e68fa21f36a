"""What ``torch.openreg.engine_stats`` counts."""

import pytest
import torch
from compare import DEVICE, numbers


def synchronous_runs() -> int:
    return torch.openreg.engine_stats()["synchronous_runs"]


def test_launches_count_queued_operators_and_not_views():
    x = numbers(3, 4).to(DEVICE)
    x.add(x).tanh().t().mul_(2)  # the first of a kind may have to be waited for
    before = torch.openreg.engine_stats()
    x.add(x).tanh().t().mul_(2)
    after = torch.openreg.engine_stats()
    assert after["launches"] == before["launches"] + 3
    assert after["synchronous_runs"] == before["synchronous_runs"]
    assert after["fallbacks"] == before["fallbacks"]


@pytest.mark.parametrize("call", [torch.nonzero, torch.unique, lambda x: x[x > 0]])
def test_synchronous_runs_count_what_data_decides(call):
    x = numbers(3, 4).to(DEVICE)
    before = synchronous_runs()
    call(x)
    assert synchronous_runs() > before


def test_the_first_call_of_a_kind_is_a_miss_and_the_next_a_hit():
    x, y = (numbers(3, 5, 7, 2, 1, 2).to(DEVICE) for _ in range(2))
    before = torch.openreg.engine_stats()
    x.sinh()
    middle = torch.openreg.engine_stats()
    assert middle["cache_misses"] > before["cache_misses"]
    assert middle["cache_hits"] == before["cache_hits"]
    assert middle["cache_entries"] > before["cache_entries"]
    y.sinh()
    after = torch.openreg.engine_stats()
    assert after["cache_hits"] == middle["cache_hits"] + 1
    assert after["cache_misses"] == middle["cache_misses"]
    assert after["cache_entries"] == middle["cache_entries"]


def test_the_cache_is_bounded_and_says_what_it_threw_out():
    x = torch.ones(20_000, device=DEVICE)
    before = torch.openreg.engine_stats()
    for size in range(1, 20_000):
        x[:size].neg_()
    after = torch.openreg.engine_stats()
    assert after["cache_evictions"] > before["cache_evictions"]
    assert after["cache_entries"] < 20_000
    assert x[0].item() == -1.0
    assert torch.equal(x[:3].neg().cpu(), torch.tensor([1.0, -1.0, 1.0]))
