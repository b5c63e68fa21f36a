"""Fixtures for the tests of the engine."""

from collections.abc import Iterator

import pytest
from compare import threads


@pytest.fixture
def one_thread() -> Iterator[None]:
    """The CPU's kernels use one thread, so that sums have one order."""
    with threads(1):
        yield
