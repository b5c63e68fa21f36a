"""Fixtures for the tests of layouts."""

import warnings
from collections.abc import Iterator

import pytest
import torch
from same_layout import quiet


@pytest.fixture(autouse=True)
def _strict_and_quiet() -> Iterator[None]:
    """No fallback to the CPU; PyTorch warns that most layouts are in beta."""
    with torch.openreg.strict(), warnings.catch_warnings():
        quiet()
        yield
