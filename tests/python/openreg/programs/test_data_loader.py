"""DataLoader: pinned batches, found by itself, with workers and without."""

import os
from collections import namedtuple

import pytest
import torch
from torch import openreg
from torch.utils.data import DataLoader, Dataset, TensorDataset

Pair = namedtuple("Pair", ["x", "y"])
WORKERS = [0, 2]


class Numbers(Dataset):
    """Sixteen numbers; ``make`` turns each into an item."""

    def __init__(self, make=torch.tensor) -> None:
        self.make = make

    def __len__(self) -> int:
        return 16

    def __getitem__(self, index: int) -> object:
        return self.make(index)


def load(make=torch.tensor, **options) -> list:
    return list(DataLoader(Numbers(make), batch_size=4, **options))


@pytest.fixture(autouse=True)
def _device_in_use() -> None:
    """The workers are forked from a process that has used the device."""
    torch.ones(1, device="openreg")


@pytest.mark.parametrize("workers", WORKERS)
def test_batches_are_pinned_for_the_accelerator_that_is_found(workers):
    batches = load(num_workers=workers, pin_memory=True)
    assert [batch.is_pinned() for batch in batches] == [True] * 4
    assert torch.cat(batches).tolist() == list(range(16))


@pytest.mark.parametrize("workers", WORKERS)
def test_batches_are_not_pinned_unless_they_shall_be(workers):
    assert not any(batch.is_pinned() for batch in load(num_workers=workers))


@pytest.mark.parametrize("workers", WORKERS)
@pytest.mark.parametrize(
    "make",
    [
        lambda i: {"x": torch.tensor(i), "y": [torch.tensor(-i)]},
        lambda i: (torch.tensor(i), torch.tensor(-i)),
        lambda i: Pair(torch.tensor(i), torch.tensor(-i)),
    ],
    ids=["dict", "tuple", "named tuple"],
)
def test_batches_of_every_structure_are_pinned(make, workers):
    def leaves(value: object) -> list[torch.Tensor]:
        if isinstance(value, torch.Tensor):
            return [value]
        parts = value.values() if isinstance(value, dict) else value
        return [leaf for part in parts for leaf in leaves(part)]

    for batch in load(make, num_workers=workers, pin_memory=True):
        assert type(batch) is type(make(0)) or isinstance(batch, (list, dict))
        assert [leaf.is_pinned() for leaf in leaves(batch)] == [True, True]


class Custom:
    """A batch that knows how it is pinned."""

    def __init__(self, items: list[torch.Tensor]) -> None:
        self.tensor = torch.stack(items)

    def pin_memory(self) -> "Custom":
        """Called by the loader."""
        self.tensor = self.tensor.pin_memory()
        return self


@pytest.mark.parametrize("workers", WORKERS)
def test_batches_of_ones_own_type_pin_themselves(workers):
    batches = load(num_workers=workers, pin_memory=True, collate_fn=Custom)
    assert all(batch.tensor.is_pinned() for batch in batches)


def test_pinned_batches_reach_the_device():
    data = TensorDataset(torch.arange(64.0).reshape(16, 4))
    loader = DataLoader(data, 4, num_workers=2, pin_memory=True)
    moved = [batch.to("openreg:1", non_blocking=True) for (batch,) in loader]
    assert torch.equal(torch.cat(moved).cpu(), data.tensors[0])


def test_workers_that_stay_serve_every_epoch():
    loader = DataLoader(
        Numbers(), 4, num_workers=2, pin_memory=True, persistent_workers=True
    )
    for _ in range(3):
        batches = list(loader)
        assert all(batch.is_pinned() for batch in batches)
        assert torch.cat(batches).tolist() == list(range(16))


def test_pinning_uses_blocks_again():
    loader = DataLoader(Numbers(), 4, num_workers=1, pin_memory=True)
    list(loader)
    before = openreg.host_memory_stats()["num_host_alloc"]
    for _ in range(5):
        for _batch in loader:
            pass
    assert openreg.host_memory_stats()["num_host_alloc"] <= before + 4


def on_the_device(index: int) -> torch.Tensor:
    return torch.tensor(index, device="openreg")


def test_a_forked_worker_cannot_make_device_tensors():
    with pytest.raises(RuntimeError, match="Cannot re-initialize OpenReg in forked"):
        load(on_the_device, num_workers=1)


def test_a_forked_worker_is_another_process_with_the_cpu_alone():
    def say(_: int) -> torch.Tensor:
        return torch.tensor([os.getpid(), openreg._is_in_bad_fork()])

    pids, flags = torch.cat(load(say, num_workers=2)).T.tolist()
    assert os.getpid() not in pids
    assert set(flags) == {1}


def use_the_device(index: int) -> torch.Tensor:
    return (torch.tensor(index, device="openreg") + 1).cpu()


def test_a_spawned_worker_may_use_the_device():
    batches = load(use_the_device, num_workers=1, multiprocessing_context="spawn")
    assert torch.cat(batches).tolist() == list(range(1, 17))


def test_without_workers_items_may_be_on_the_device():
    batches = load(on_the_device)
    assert all(batch.is_openreg for batch in batches)
    assert torch.cat(batches).tolist() == list(range(16))
