"""Forked children: what they are refused, and what they may do."""

import json
from typing import Any

import pytest
import torch
from process import run_script

# Forks a child for each expression and prints what became of it.
FORK = """
    import json, os, signal, sys, torch
    o = torch.openreg
    x = torch.ones(3, device="openreg")
    stream, event, pool = o.Stream(), o.Event(), o.MemPool()
    with o.use_mem_pool(pool):
        torch.empty(3, device="openreg")
    pinned = torch.full((3,), 5.0).pin_memory()
    cached = [torch.empty(4096, pin_memory=True) for _ in range(4)]
    del cached
    def outcome(expression):
        try:
            return ["value", eval(expression)]
        except Exception as error:
            return [type(error).__name__, str(error)]
    def in_child(expression):
        reader, writer = os.pipe()
        pid = os.fork()
        if pid == 0:
            signal.alarm(60)
            os.write(writer, json.dumps(outcome(expression)).encode())
            os._exit(0)
        os.close(writer)
        with os.fdopen(reader) as pipe:
            said = pipe.read()
        status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
        return json.loads(said) if status == 0 else ["exit", status]
    results = {each: in_child(each) for each in json.loads(sys.argv[1])}
    results["parent"] = [(x + 1).tolist(), o.memory_allocated(), pinned.tolist()]
    print(json.dumps(results))
"""

NOT_POSSIBLE = (
    "Cannot re-initialize OpenReg in forked subprocess. To use OpenReg with "
    "multiprocessing, you must use the 'spawn' start method"
)

# What needs the device is refused by name,
REFUSED = [
    "o.init()",
    "o.current_device()",
    "o.set_device(0)",
    "o.synchronize()",
    "torch.accelerator.synchronize()",
    "o.current_stream()",
    "o.Stream()",
    "o.Event().record()",
    "o.get_rng_state()",
    "o.initial_seed()",
    "o.mem_get_info()",
    "o.MemPool()",
    "o.use_mem_pool(pool).__enter__()",
    "o.get_device_name()",
    "torch.ones(3, device='openreg')",
    "torch.ones(3).to('openreg')",
    "torch.ones(3).openreg()",
    "torch.nn.Linear(2, 2, device='openreg')",
    "torch.random.fork_rng(device_type='openreg').__enter__()",
]
# what has passed the check once, by the driver.
FAILING = [
    "x + 1",
    "x.cpu()",
    "x.tolist()",
    "x[0].item()",
    "repr(x)",
    "x.clone()",
    "x.copy_(torch.ones(3))",
    "stream.synchronize()",
    "event.record(stream)",
    "torch.ones(3).pin_memory()",
    "torch.empty(4096, pin_memory=True)",
]
# The rest works.
BACKWARD = (
    "[(y := torch.ones(2, requires_grad=True)).sum().backward(), y.grad.tolist()][1]"
)
WORKING: dict[str, Any] = {
    "o._is_in_bad_fork()": True,
    "o.is_initialized()": False,
    "o.is_available()": True,
    "o.device_count()": 2,
    "o.memory_allocated()": 0,
    "o.memory_reserved()": 0,
    "o.memory_stats()": {},
    "o.host_memory_stats()": {},
    "o.empty_cache()": None,
    "o.manual_seed(1)": None,
    "torch.manual_seed(1).initial_seed()": 1,
    "torch.accelerator.empty_host_cache()": None,
    "str(torch.Generator('openreg').device)": "openreg",
    "list(x.shape)": [3],
    "str(x.device)": "openreg:0",
    "globals().pop('x') is None": False,
    "globals().pop('stream') is None": False,
    "globals().pop('event') is None": False,
    "globals().pop('pinned') is None": False,
    "globals().pop('pool') is None": False,
    "pool.use_count()": 1,
    "torch.ones(3).is_pinned()": False,
    # A copy of its own, as of all memory of the host.
    "pinned.tolist()": [5, 5, 5],
    "pinned.fill_(9).tolist()": [9, 9, 9],
    "(torch.ones(3) + 1).tolist()": [2, 2, 2],
    BACKWARD: [1, 1],
    "torch.randn(3, generator=torch.Generator().manual_seed(1)).shape.numel()": 3,
}


@pytest.fixture(scope="module")
def forked() -> dict[str, list]:
    """What became of each expression, in a child of its own."""
    expressions = [*REFUSED, *FAILING, *WORKING]
    return json.loads(run_script(FORK, json.dumps(expressions), timeout=300))


@pytest.mark.parametrize("expression", REFUSED)
def test_a_forked_child_cannot_start_the_device(forked, expression):
    assert forked[expression] == ["RuntimeError", NOT_POSSIBLE]


@pytest.mark.parametrize("expression", FAILING)
def test_a_forked_child_cannot_use_what_its_parent_has(forked, expression):
    kind, message = forked[expression]
    assert kind == "AcceleratorError"
    assert "this process was forked after its parent had used the driver" in message


@pytest.mark.parametrize("expression", WORKING)
def test_a_forked_child_may_do_everything_else(forked, expression):
    assert forked[expression] == ["value", WORKING[expression]]


def test_the_parent_goes_on_after_its_children(forked):
    """Pinned memory that other processes use is one for the children, too."""
    isolated = torch.openreg.get_device_properties(0).isolated
    pinned = [9, 9, 9] if isolated else [5, 5, 5]
    assert forked["parent"] == [[2, 2, 2], 512, pinned]


def test_a_fork_while_threads_use_the_memory_does_not_hang():
    """Locks that those threads hold at the fork are of no concern to the child."""
    script = """
        import os, signal, threading, torch
        stop = threading.Event()
        def work():
            while not stop.is_set():
                x = torch.empty(1000, device="openreg")
                y = torch.empty(1000, pin_memory=True)
                x.copy_(y, non_blocking=True)
        threads = [threading.Thread(target=work) for _ in range(3)]
        for thread in threads:
            thread.start()
        tensor, pinned = torch.ones(3, device="openreg"), torch.ones(3).pin_memory()
        codes = []
        for _ in range(30):
            pid = os.fork()
            if pid == 0:
                signal.alarm(20)
                del tensor, pinned
                os._exit(int((torch.ones(3) + 1).sum().item()))
            codes.append(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
        stop.set()
        for thread in threads:
            thread.join()
        print(set(codes))
    """
    assert run_script(script) == "{6}\n"
