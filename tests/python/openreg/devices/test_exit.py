"""How a process ends: with the exit code it should have, quickly and quietly."""

import json
import signal
import textwrap
from pathlib import Path
from typing import NamedTuple

import pytest
from process import run_script


class Ending(NamedTuple):
    """A program, and how it should end."""

    body: str
    code: int = 7
    printed: str = ""


# Each is the end of a program that has imported torch: what it leaves behind.
ENDINGS = {
    "no use": Ending(""),
    "live tensors": Ending("x = torch.ones(3, device='openreg')"),
    "tensors of both devices": Ending(
        "x = [torch.ones(3, device=f'openreg:{i}') for i in range(2)]"
    ),
    "tensors in a module": Ending("sys.x = torch.ones(3, device='openreg')"),
    "tensors in a cycle": Ending("""
        class Cycle: pass
        cycle = Cycle()
        cycle.self, cycle.x = cycle, torch.ones(3, device='openreg')
    """),
    "streams and events": Ending("stream = o.Stream(); event = stream.record_event()"),
    "memory pools": Ending("""
        pool, other = o.MemPool(), o.MemPool()
        with o.use_mem_pool(pool):
            x = torch.ones(3, device='openreg')
        use = o.use_mem_pool(other)
        use.__enter__()
        y = torch.ones(3, device='openreg')
    """),
    "pinned memory": Ending("pinned = torch.empty(100, pin_memory=True)"),
    "a generator": Ending("generator = torch.Generator('openreg')"),
    "a backward": Ending("""
        x = torch.ones(3, device='openreg:1', requires_grad=True)
        x.sum().backward()
    """),
    "a backward of a failed device": Ending("""
        torch.ones(3, device='openreg', requires_grad=True).sum().backward()
        fail(o.current_stream())
    """),
    "a backward that is queued": Ending("""
        gate = Gate()
        gate.hold()
        torch.ones(3, device='openreg', requires_grad=True).sum().backward()
    """),
    "a backward in anomaly mode": Ending("""
        torch.autograd.set_detect_anomaly(True, check_nan=False)
        torch.ones(3, device='openreg', requires_grad=True).sum().backward()
    """),
    "a backward, and then no more gradients": Ending("""
        torch.ones(3, device='openreg', requires_grad=True).sum().backward()
        torch.set_grad_enabled(False)
        torch.set_default_device('openreg')
    """),
    "a history of memory": Ending("""
        o.memory._record_memory_history()
        x = torch.ones(3, device='openreg')
    """),
    "a use at exit": Ending("""
        import atexit
        atexit.register(lambda: (torch.ones(3, device='openreg') + 1).cpu())
    """),
    # A gate would hold its stream for good: what runs is asked to end, and what
    # is queued is dropped.
    "a kernel that runs": Ending("Gate().hold()"),
    "queued copies": Ending("""
        gate = Gate()
        gate.hold()
        pinned = torch.empty(1 << 20, pin_memory=True)
        x = pinned.to('openreg', non_blocking=True)
        y = x.clone()
    """),
    "freed memory that waits": Ending("""
        gate, side = Gate(), o.Stream()
        gate.hold(side)
        x = torch.ones(3, device='openreg')
        x.record_stream(side)
        del x
    """),
    "freed pinned memory that waits": Ending("""
        gate = Gate()
        gate.hold()
        x = torch.ones(3).pin_memory().to('openreg', non_blocking=True)
    """),
    "a failed device": Ending("fail(o.current_stream())"),
    "a lost error": Ending("""
        try:
            torch.empty(1 << 50, device='openreg')
        except torch.OutOfMemoryError:
            pass
    """),
    "an exception": Ending("1 / 0", code=1, printed="ZeroDivisionError"),
    "os._exit": Ending("x = torch.ones(3, device='openreg'); os._exit(3)", code=3),
    "a signal": Ending(
        "x = torch.ones(3, device='openreg'); os.kill(os.getpid(), signal.SIGTERM)",
        code=-signal.SIGTERM,
    ),
}

# Forks a child for each: it ends as a program of its own would.
SCRIPT = """
    import json, os, signal, sys, time
    sys.path.append(sys.argv[2])
    import torch
    from driver import Gate, fail
    o = torch.openreg
    results = {}
    for name, body in json.loads(sys.argv[1]).items():
        reader, writer = os.pipe()
        start = time.monotonic()
        pid = os.fork()
        if pid == 0:
            signal.alarm(60)
            for stream in (1, 2):
                os.dup2(writer, stream)
            exec(body, globals())
            sys.exit(7)
        os.close(writer)
        with os.fdopen(reader) as pipe:
            printed = pipe.read()
        code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
        results[name] = [code, printed, time.monotonic() - start]
    print(json.dumps(results))
"""


@pytest.fixture(scope="module")
def ended() -> dict[str, list]:
    """Exit code, output and seconds of each."""
    bodies = {name: textwrap.dedent(each.body) for name, each in ENDINGS.items()}
    support = str(Path(__file__).parents[1] / "support")
    return json.loads(run_script(SCRIPT, json.dumps(bodies), support, timeout=300))


@pytest.mark.parametrize("name", ENDINGS)
def test_a_process_ends_as_it_should_with(ended, name):
    code, printed, seconds = ended[name]
    expected = ENDINGS[name]
    assert code == expected.code, printed
    assert expected.printed in printed
    assert expected.printed or printed == ""
    assert seconds < 30


# PyTorch's autograd thread holds a pass longer than backward() takes: it gets no
# time before the main thread sleeps, which it does with the interpreter's lock
# just before Python ends, and without it afterwards.
LATE_AUTOGRAD = """
    import atexit, ctypes, os, sys, time
    from pathlib import Path
    atexit.register(lambda: ctypes.PyDLL(None).usleep(50_000))
    import torch

    class Sleeper:
        def __del__(self, sleep=time.sleep):
            sleep(0.01)

    def backward():
        torch.ones(3, device='openreg', requires_grad=True).sum().backward()

    backward()
    threads = list(Path('/proc/self/task').iterdir())
    late = [t for t in threads if (t / 'comm').read_text().startswith('pt_autograd')]
    for thread in threads:
        os.sched_setaffinity(int(thread.name), {min(os.sched_getaffinity(0))})
    for thread in late:
        os.sched_setscheduler(int(thread.name), os.SCHED_IDLE, os.sched_param(0))
    sys.setswitchinterval(1000)
    sleeper = Sleeper()
    backward()
    print(len(late))
"""


def test_python_waits_for_the_autograd_threads():
    assert run_script(LATE_AUTOGRAD) == "2\n"


# A thread waits for the device when Python begins to end, and is done before the end:
# Python refuses it the interpreter's lock then, and ends the thread.
WAITING_THREAD = """
    import sys, threading, time
    from pathlib import Path
    sys.path.append(sys.argv[1])
    import torch
    from driver import Gate

    gate = Gate()
    gate.hold()
    gate.await_holds()
    thread = threading.Thread(target=torch.openreg.synchronize, daemon=True)
    thread.start()
    stat = Path(f'/proc/self/task/{thread.native_id}/stat')
    while stat.read_text().split()[2] != 'S':
        pass

    class Opener:
        def __del__(self, gate=gate, sleep=time.sleep):
            gate.open()
            sleep(0.05)  # without the lock, which the thread asks for

    opener = Opener()
    print('done')
"""


def test_a_thread_that_python_ends_does_not_end_the_process():
    support = str(Path(__file__).parents[1] / "support")
    assert run_script(WAITING_THREAD, support) == "done\n"
