"""Fixtures of the tests with other libraries."""

import gc
from collections.abc import Iterator

import pytest
import torch


@pytest.fixture(autouse=True)
def _strict() -> Iterator[None]:
    """Nothing falls back to the CPU; one thread, so that sums have one order."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    with torch.openreg.strict():
        yield
    gc.collect()
    torch.accelerator.synchronize()
    torch.openreg.set_device(0)
    torch.set_num_threads(threads)
