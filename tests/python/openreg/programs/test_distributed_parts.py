"""What distributed training asks of the module: torchrun, DeviceMesh, DTensor, FSDP2.

There is no process group for the device yet, so these use PyTorch's fake one: its
collectives among one process are exact, among more they only have the right shapes.
"""

from textwrap import dedent

import pytest
import torch
from process import run_script
from torch.distributed.run import determine_local_world_size

GROUP = """
import torch
import torch.distributed as dist
from torch.distributed.device_mesh import init_device_mesh
from torch.testing._internal.distributed.fake_pg import FakeStore

def group(rank, ranks):
    fakes = "cpu:fake,openreg:fake"
    dist.init_process_group(fakes, rank=rank, world_size=ranks, store=FakeStore())
    return init_device_mesh("openreg", (ranks,))
"""


def printed_by(script: str) -> list[str]:
    """The lines that ``script`` prints in strict mode; it may make a ``group``."""
    strict = {"OPENREG_STRICT": "1"}
    return run_script(GROUP + dedent(script), env=strict).splitlines()


@pytest.mark.parametrize("number", ["openreg", "auto"])
def test_torchrun_starts_a_process_for_each_device(number):
    assert determine_local_world_size(number) == torch.openreg.device_count()


def test_torchrun_is_told_that_there_are_no_devices():
    script = """
        from torch.distributed.run import determine_local_world_size
        try:
            determine_local_world_size("openreg")
        except ValueError as error:
            print(error)
    """
    printed = run_script(script, env={"OPENREG_DEVICES": "0"})
    assert printed == "openreg is not available.\n"


def test_a_mesh_gives_each_process_its_device():
    script = """
        import torch.distributed.tensor as dtensor

        mesh = group(rank=1, ranks=2)
        print(torch.openreg.current_device())
        x = dtensor.ones(4, 2, device_mesh=mesh, placements=[dtensor.Shard(0)])
        print(x.to_local().device, (x + 1).to_local().tolist())
    """
    assert printed_by(script) == [
        "1",
        "openreg:1 [[2.0, 2.0], [2.0, 2.0]]",
    ]


def test_fsdp_learns_what_the_cpu_learns():
    """It copies, gathers and reduces on streams of its own, ordered by events."""
    script = """
        from torch.distributed.fsdp import fully_shard

        def model():
            torch.manual_seed(0)
            first, last = torch.nn.Linear(4, 8), torch.nn.Linear(8, 3)
            return torch.nn.Sequential(first, torch.nn.Tanh(), last)

        def train(model, x):
            optimizer = torch.optim.AdamW(model.parameters(), lr=0.1)
            losses = []
            for _ in range(5):
                loss = model(x).square().mean()
                loss.backward()
                optimizer.step()
                optimizer.zero_grad()
                losses.append(loss.detach())
            return [loss.item() for loss in losses]

        torch.set_num_threads(1)
        x = torch.linspace(-1, 1, 64).view(16, 4)
        torch.openreg.set_device(1)
        mesh = group(rank=0, ranks=1)
        sharded = model().to("openreg")
        for part in (sharded[0], sharded[2], sharded):
            fully_shard(part, mesh=mesh)
        ours, host = train(sharded, x.to("openreg")), train(model(), x)
        print(ours == host, ours[-1] < ours[0] / 2)
        print({str(p.to_local().device) for p in sharded.parameters()})
    """
    assert printed_by(script) == [
        "True True",
        "{'openreg:1'}",
    ]
