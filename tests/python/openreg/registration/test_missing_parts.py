"""What the device does not have yet: who asks for it is told so, and nobody else is."""

import json
import re
import textwrap
from typing import Any

import pytest
import torch
from pages import assert_names_its_section
from process import run_script

from torch_openreg import _refusals

# `asked(f)` is what f raises, if anything.
PRELUDE = """
import json, sys, warnings
import torch
import torch.distributed as dist

def say(value):
    print(json.dumps(value))

def asked(call):
    try:
        call()
    except Exception as error:
        return [type(error).__name__, str(error)]
    return None

def group(backend):
    dist.init_process_group(backend, store=dist.HashStore(), rank=0, world_size=1)
"""


def run(script: str, **env: str) -> Any:
    """Run ``script`` in a new interpreter and return what it says, last."""
    printed = run_script(PRELUDE + textwrap.dedent(script), env=env)
    return json.loads(printed.splitlines()[-1])


def test_nothing_large_is_imported_to_say_so():
    script = """
        large = ("torch._dynamo", "torch._inductor", "multiprocessing.queues")
        say([name for name in large if name in sys.modules])
    """
    assert run(script) == []


# The compiler

COMPILER = "torch.compile with the default backend"


def test_the_default_compiler_says_that_it_has_no_code_for_the_device():
    script = """
        model = torch.nn.Sequential(torch.nn.Linear(2, 2), torch.nn.Dropout())
        model.to("openreg")
        x = torch.ones(2, 2, device="openreg")

        def make():
            return torch.ones(2, device="openreg").cumsum(0)

        def compile_and_call(function, *args, **options):
            return asked(lambda: torch.compile(function, **options)(*args))

        say([
            compile_and_call(model, x),
            compile_and_call(model, x, mode="reduce-overhead"),
            compile_and_call(model, x, dynamic=True),
            compile_and_call(torch.no_grad()(model.forward), x),
            compile_and_call(make),
            compile_and_call(lambda: x.cpu() + 1),
            asked(lambda: torch._inductor.aoti_compile_and_package(
                torch.export.export(model.eval(), (x,)))),
        ])
    """
    *compiled, exported = run(script, PYTHONWARNINGS="ignore")
    for kind, message in compiled:
        assert kind == "BackendCompilerFailed"
        said = re.search(r"^NotImplementedError: (Inductor.*)$", message, re.MULTILINE)
        assert said, message
        assert 'backend="aot_eager"' in said[1]
        assert_names_its_section(said[1], COMPILER)
    assert exported[0] == "NotImplementedError"
    assert_names_its_section(exported[1], COMPILER)


def test_other_compilers_and_other_devices_compile_as_before(tmp_path):
    script = """
        def program(x):
            return (x * 2).relu().sum()

        results = []
        for device, backend in [
            ("openreg", "eager"), ("openreg", "aot_eager"), ("cpu", "inductor")
        ]:
            x = torch.ones(3, device=device, requires_grad=True)
            torch.compile(program, backend=backend, fullgraph=True)(x).backward()
            results.append(x.grad.tolist())
        say(results)
    """
    cache = {"TORCHINDUCTOR_CACHE_DIR": str(tmp_path)}
    assert run(script, **cache) == [[2, 2, 2]] * 3


# Collectives

COLLECTIVES = "Collectives on the device"


def assert_refuses_collectives(refusal: list[str] | None) -> None:
    assert refusal is not None
    kind, message = refusal
    assert kind == "NotImplementedError"
    assert 'init_process_group("gloo")' in message
    assert_names_its_section(message, COLLECTIVES)


def test_a_group_for_the_device_is_refused_where_it_is_made():
    script = """
        from torch.distributed.device_mesh import init_device_mesh
        refusals = [
            asked(lambda: group(backend))
            for backend in ("occl", "OCCL", "cpu:gloo,openreg:occl", None)
        ]
        group("gloo")  # nothing is left behind
        refusals.append(asked(lambda: dist.new_group([0], backend="occl")))
        say(refusals)
    """
    refusals = run(script)
    assert len(refusals) == 5
    for refusal in refusals:
        assert_refuses_collectives(refusal)


ON_DEVICE_TENSORS = """
    import torch.distributed._functional_collectives as functional
    import torch.distributed.tensor as dtensor
    from torch.distributed.device_mesh import init_device_mesh
    from torch.nn.parallel import DistributedDataParallel

    group(sys.argv[1])
    x = torch.ones(2, device="openreg")
    world = dist.group.WORLD

    def without_gradients():
        with torch.inference_mode():
            dist.all_reduce(x + 1)

    calls = [
        lambda: dist.all_reduce(x),
        lambda: dist.all_reduce(x, async_op=True),
        lambda: dist.broadcast(x, 0),
        lambda: dist.reduce(x, 0),
        lambda: dist.all_gather([x], x),
        lambda: dist.all_gather_into_tensor(x, x),
        lambda: dist.gather(x, [x]),
        lambda: dist.scatter(x, [x]),
        lambda: dist.reduce_scatter(x, [x]),
        lambda: dist.reduce_scatter_tensor(x, x),
        lambda: dist.all_to_all([x], [x]),
        lambda: dist.all_to_all_single(x, x),
        lambda: world.send([x], 0, 0),
        lambda: world.recv([x], 0, 0),
        lambda: dist.broadcast_object_list([1], 0, device="openreg"),
        lambda: dist.batch_isend_irecv([dist.P2POp(dist.isend, x, group_peer=0)]),
        lambda: functional.all_reduce(x, "sum", world),
        lambda: DistributedDataParallel(torch.nn.Linear(2, 2).to("openreg")),
        lambda: dtensor.distribute_tensor(
            x, init_device_mesh("openreg", (1,)), [dtensor.Shard(0)]),
        without_gradients,
    ]
    say([asked(call) for call in calls])
"""


@pytest.mark.parametrize("backend", ["gloo", "cpu:gloo", "cpu:gloo,openreg:gloo"])
def test_collectives_on_device_tensors_say_what_is_missing(backend):
    script = textwrap.dedent(ON_DEVICE_TENSORS).replace("sys.argv[1]", repr(backend))
    refusals = run(script, PYTHONWARNINGS="ignore")
    assert len(refusals) == 20
    for refusal in refusals:
        assert_refuses_collectives(refusal)


def test_a_group_that_is_bound_to_the_device_is_refused():
    script = """
        where = {"device_id": torch.device("openreg:0")}
        where |= {"store": dist.HashStore(), "rank": 0, "world_size": 1}
        say([asked(lambda: dist.init_process_group(backend, **where))
             for backend in (None, "gloo")])
    """
    for refusal in run(script):
        assert_refuses_collectives(refusal)


def test_every_collective_is_guarded():
    asked = {
        schema.name.removeprefix("c10d::")
        for schema in torch._C._jit_get_all_schemas()
        if schema.name.startswith("c10d::")
        and any(argument.name == "process_group" for argument in schema.arguments)
    }
    assert asked == set(_refusals._COLLECTIVES)


@pytest.mark.parametrize("backend", ["gloo", "cpu:gloo"])
def test_groups_of_the_cpu_are_as_before(backend):
    script = f"""
        warnings.simplefilter("error")
        group({backend!r})
        x = torch.ones(2)
        dist.all_reduce(x)
        dist.barrier()
        model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(2, 1))
        model(x).sum().backward()
        world = dist.group.WORLD
        numbered = world._get_sequence_number_for_group() >= 0
        refusal = asked(lambda: world._get_backend(torch.device("xpu")))
        say([x.tolist(), world.name(), numbered, refusal[0],
             torch.openreg.is_initialized()])
        # Its threads drop tensors, for which they need Python: they end before it does.
        del model, world
        dist.destroy_process_group()
    """
    assert run(script) == [[1, 1], "gloo", True, "RuntimeError", False]


def test_a_backend_of_that_name_is_used_once_there_is_one():
    script = """
        from torch._C._distributed_c10d import FakeProcessGroup

        def create(store, rank, size, timeout):
            return FakeProcessGroup._create_internal(rank, size)

        dist.Backend.register_backend("occl", create, devices=["openreg"])
        found = []
        for backend in ("occl", None):
            group(backend)
            x = torch.ones(2, device="openreg")
            dist.all_reduce(x)
            found.append([dist.get_backend_config(), x.tolist()])
            dist.destroy_process_group()
        say(found)
    """
    assert run(script) == [["openreg:occl", [1, 1]]] * 2


# The profiler

PROFILER = "A profile without the device"
WARNED = """
from torch.profiler import ProfilerActivity, profile

def warned(activities):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        with profile(activities=activities) as profiled:
            torch.ones(2) + 1
    names = [event.key for event in profiled.key_averages()]
    return [[str(warning.message) for warning in caught], "aten::add" in names]
"""


def run_profiled(script: str) -> Any:
    """As ``run``; the script may call ``warned``."""
    return run(WARNED + textwrap.dedent(script))


@pytest.mark.parametrize("name", ["PrivateUse1", "OPENREG"])
def test_a_profile_of_the_device_warns_once_and_shows_the_host(name):
    script = f"""
        activities = [ProfilerActivity.CPU, ProfilerActivity.{name}]
        say([warned(activities), warned(activities), warned(None)])
    """
    (first, shows_host), *later = run_profiled(script)
    assert len(first) == 1
    assert "torch.openreg.Event(enable_timing=True)" in first[0]
    assert_names_its_section(first[0], PROFILER)
    assert shows_host
    assert later == [[[], True]] * 2


def test_a_profile_of_everything_warns_if_the_device_was_used():
    script = """
        cpu = [ProfilerActivity.CPU]
        unused = warned(cpu), warned(None)
        torch.ones(1, device="openreg")
        say([*unused, warned(cpu), warned(None)])
    """
    *silent, last = run_profiled(script)
    assert silent == [[[], True]] * 3
    assert_names_its_section(last[0][0], PROFILER)


def test_a_profile_by_events_of_the_device_is_refused():
    """PyTorch would print an exception per operator and show times that are none."""
    script = """
        from torch.autograd.profiler import profile as by_events

        def run(**options):
            with by_events(**options) as profiled:
                torch.ones(2, device="openreg") + 1
            return profiled

        refusal = asked(lambda: run(use_device="openreg"))
        run(use_device="openreg", enabled=False)
        names = [event.key for event in run().key_averages()]
        with warnings.catch_warnings(record=True) as caught:
            by_events(use_device="cuda")
        say([refusal, "aten::add" in names, caught[0].filename])
    """
    (kind, message), shows_host, warned_at = run(script)
    assert kind == "NotImplementedError"
    assert_names_its_section(message, PROFILER)
    assert shows_host
    assert warned_at == "<string>", "PyTorch's own warnings name the caller"


# Graphs

GRAPHS = "A graph is captured"


def test_a_graph_is_refused():
    for make in (torch.accelerator.Graph, lambda: torch.openreg.Event(external=True)):
        with pytest.raises(NotImplementedError, match="captured as a graph") as caught:
            make()
        assert_names_its_section(str(caught.value), GRAPHS)


def test_what_cuda_has_for_graphs_is_not_there_and_says_why():
    names = {
        name
        for name in dir(torch.cuda)
        if "graph" in name.lower() and not name.startswith("_")
    }
    assert {"graph", "make_graphed_callables"} <= names
    for name in names:
        assert not hasattr(torch.openreg, name)
        with pytest.raises(AttributeError, match=f"no attribute '{name}'") as caught:
            getattr(torch.openreg, name)
        assert_names_its_section(str(caught.value), GRAPHS)


# Other processes


@pytest.mark.parametrize("kind", ["Queue", "JoinableQueue"])
def test_a_tensor_in_a_queue_is_refused_though_it_is_the_first(kind):
    """Python looks up ``put`` before it makes the tensor."""
    script = f"""
        import torch.multiprocessing as mp
        queue = mp.get_context("spawn").{kind}()
        queue.put(torch.ones(2))
        say(asked(lambda: queue.put(torch.ones(2, device="openreg"))))
        queue.get()
    """
    kind, message = run(script)
    assert kind == "RuntimeError"
    assert "Send tensor.cpu()" in message
    assert_names_its_section(message, "A tensor is sent to another process")
