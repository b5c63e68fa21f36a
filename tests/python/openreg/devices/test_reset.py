"""A device that is reset begins again, and the program with it."""

import gc
from collections.abc import Callable

import pytest
import torch
from process import run_script
from torch import nn

from driver import fail

Tensor = torch.Tensor
DEVICE = "openreg:1"


@pytest.fixture(autouse=True)
def _fresh_device():
    """Tensors of other tests are not to be lost, and those of this one not kept."""
    gc.collect()
    with torch.openreg.device(1):
        yield
    gc.collect()
    torch.openreg.reset_device(1)


def use_and_wait(use: Callable[[Tensor], object], tensor: Tensor) -> None:
    """An error that comes late comes at the end of this."""
    use(tensor)
    torch.openreg.synchronize()


def test_new_tensors_work_after_a_reset():
    old = torch.ones(4, device=DEVICE)
    (old + 1).cpu()
    life = torch.openreg.process_info(1).life
    torch.openreg.reset_device(1)
    assert torch.openreg.process_info(1).life == life + 1
    new = torch.arange(4.0, device=DEVICE)
    assert (new * 2).tolist() == [0, 2, 4, 6]
    assert (new @ new).item() == 14
    assert new.nonzero().flatten().tolist() == [1, 2, 3]


def test_old_tensors_are_refused_and_their_end_is_quiet(recwarn):
    old = torch.ones(4, device=DEVICE)
    small = [torch.ones(2, device=DEVICE) for _ in range(5)]
    torch.openreg.reset_device(1)

    for use in (Tensor.cpu, Tensor.sum, Tensor.zero_, Tensor.nonzero):
        with pytest.raises(RuntimeError):
            use_and_wait(use, old)
        torch.openreg.reset_device(1)
    del old, small
    gc.collect()
    assert torch.ones(3, device=DEVICE).tolist() == [1, 1, 1]
    assert [str(warning.message) for warning in recwarn] == []


def test_memory_is_counted_from_nothing():
    keep = torch.ones(1 << 20, device=DEVICE)
    torch.openreg.reset_device(1)
    assert torch.openreg.memory_allocated(1) == 0
    assert torch.openreg.memory_reserved(1) == 0
    new = torch.ones(1 << 10, device=DEVICE)
    assert torch.openreg.memory_allocated(1) == 4096
    assert new.data_ptr() != keep.data_ptr()
    del keep
    assert torch.openreg.memory_allocated(1) == 4096


def test_freed_parts_of_old_segments_are_not_given_out():
    """The rest of a segment that an old tensor holds is gone as well."""
    keep = torch.ones(10, device=DEVICE)
    torch.ones(10, device=DEVICE)
    torch.openreg.reset_device(1)
    for _ in range(3):
        assert torch.ones(10, device=DEVICE).tolist() == [1.0] * 10
    del keep


def test_streams_go_on_under_their_old_names():
    side = torch.openreg.Stream()
    with side:
        torch.ones(3, device=DEVICE)
    torch.openreg.reset_device(1)
    with side:
        x = torch.ones(3, device=DEVICE) + 1
    side.synchronize()
    assert x.tolist() == [2, 2, 2]
    event = torch.openreg.Event()
    event.record(side)
    event.synchronize()


def test_generators_go_on_from_the_state_they_were_given():
    torch.openreg.manual_seed(5)
    first = torch.rand(4, device=DEVICE).tolist()
    torch.openreg.reset_device(1)
    assert torch.rand(4, device=DEVICE).tolist() == first
    own = torch.Generator(DEVICE)
    own.manual_seed(7)
    torch.rand(3, device=DEVICE, generator=own)
    state = own.get_state()
    expected = torch.rand(3, device=DEVICE, generator=own).tolist()
    torch.openreg.reset_device(1)
    own.set_state(state)
    assert torch.rand(3, device=DEVICE, generator=own).tolist() == expected


def test_a_failure_ends_with_the_reset():
    fail(torch.openreg.current_stream())
    torch.openreg.reset_device(1)
    torch.openreg.synchronize(1)
    assert torch.ones(2, device=DEVICE).tolist() == [1, 1]


def test_other_devices_are_not_touched():
    other = torch.arange(3.0, device="openreg:0")
    torch.openreg.reset_device("openreg:1")
    assert (other + 1).tolist() == [1, 2, 3]
    assert other.to("openreg:1").tolist() == [0, 1, 2]


def test_training_goes_on_from_a_checkpoint():
    """As an undisturbed run from there."""

    def steps(model: nn.Module, optimizer: torch.optim.Optimizer, count: int) -> float:
        for step in range(count):
            x = torch.full((8, 4), step / 10, device=DEVICE)
            loss = model(x).square().mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        return loss.item()

    def make() -> tuple[nn.Module, torch.optim.Optimizer]:
        torch.manual_seed(0)
        model = nn.Linear(4, 2).to(DEVICE)
        return model, torch.optim.AdamW(model.parameters(), lr=0.1)

    model, optimizer = make()
    steps(model, optimizer, 3)
    saved = {k: v.cpu() for k, v in model.state_dict().items()}
    state = torch.utils._pytree.tree_map_only(
        Tensor, lambda t: t.cpu().clone(), optimizer.state_dict()
    )
    expected = steps(model, optimizer, 3)
    torch.openreg.reset_device(1)
    model, optimizer = make()
    model.load_state_dict(saved)
    optimizer.load_state_dict(state)
    assert steps(model, optimizer, 3) == expected


def test_a_device_that_does_not_exist_is_refused():
    with pytest.raises(torch.AcceleratorError):
        torch.openreg.reset_device(50)


def test_little_of_a_life_is_left_in_the_hosts_memory():
    run_script("""
        from pathlib import Path

        import torch


        def memory():
            lines = Path("/proc/self/status").read_text().splitlines()
            line = next(line for line in lines if line.startswith("RssAnon:"))
            return int(line.split()[1]) << 10


        def live(times):
            for _ in range(times):
                (torch.ones(16, device="openreg") + 1).cpu()
                torch.openreg.reset_device(0)


        live(30)
        before = memory()
        live(50)
        each = (memory() - before) / 50
        assert each < 80 << 10, each
    """)
