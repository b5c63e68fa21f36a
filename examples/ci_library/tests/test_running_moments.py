"""The fixture and the options come from the pytest plugin of torch_openreg."""

import pytest
import torch
from running_moments import RunningMoments

from torch_openreg.testing import assert_no_fallback, assert_no_sync, requires


@pytest.fixture
def batches() -> list[torch.Tensor]:
    generator = torch.Generator().manual_seed(0)
    return [torch.randn(n, 3, generator=generator) + n for n in (5, 1, 8)]


def test_moments_are_those_of_all_rows(openreg_device, batches):
    moments = RunningMoments(3, openreg_device)
    with assert_no_fallback():
        for batch in batches:
            moments.update(batch.to(openreg_device))
    rows = torch.cat(batches)
    torch.testing.assert_close(moments.mean.cpu(), rows.mean(dim=0))
    variance = rows.var(dim=0, correction=0)
    torch.testing.assert_close(moments.variance.cpu(), variance)


def test_an_update_does_not_wait_for_the_device(openreg_device, batches):
    moments = RunningMoments(3, openreg_device)
    on_device = [batch.to(openreg_device) for batch in batches]
    with assert_no_sync():
        for batch in on_device:
            moments.update(batch)
        moments.variance.sqrt()


@requires(devices=2)
def test_batches_may_be_on_another_device(openreg_devices, batches):
    moments = RunningMoments(3, openreg_devices[0])
    for batch in batches:
        moments.update(batch.to(openreg_devices[1]))
    assert moments.mean.device == openreg_devices[0]
    torch.testing.assert_close(moments.mean.cpu(), torch.cat(batches).mean(dim=0))
