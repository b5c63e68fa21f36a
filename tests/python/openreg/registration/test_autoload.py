"""How PyTorch comes to know the device, and how processes start with it."""

import json
import os
import re
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from process import run_script

from torch_openreg import _registration

CHECKOUT = Path(__file__).parents[4]
SUPPORT = Path(__file__).parents[1] / "support"


PRELUDE = "import json, os, sys\ndef say(value): print(json.dumps(value))\n"


def run(script: str, **env: str) -> Any:
    """Run ``script`` in a new interpreter and return what it says, last."""
    printed = run_script(PRELUDE + textwrap.dedent(script), env=env)
    return json.loads(printed.splitlines()[-1])


ZYGOTE = """
import signal, torch, traceback
o = torch.openreg
for line in sys.stdin:
    if os.fork() == 0:
        signal.alarm(60)
        try:
            exec(json.loads(line))
        except BaseException:
            say({"failed": traceback.format_exc()})
        sys.stdout.flush()
        os._exit(0)
    if os.wait()[1] != 0:
        say({"failed": "the child was killed"})
"""


class Zygote:
    """An interpreter that has imported torch and used no device.

    Each script runs in a fork of it, which costs less than a new interpreter.
    """

    def __init__(self) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-u", "-c", PRELUDE + ZYGOTE],
            env=os.environ | {"PYTHONPATH": str(SUPPORT)},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def __call__(self, script: str) -> Any:
        """Return what ``script`` says; ``torch`` and ``o`` are there already."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps(textwrap.dedent(script)) + "\n")
        self._process.stdin.flush()
        said = json.loads(self._process.stdout.readline())
        if isinstance(said, dict) and "failed" in said:
            pytest.fail(said["failed"])
        return said

    def end(self) -> None:
        """End the interpreter."""
        self._process.communicate(timeout=60)


@pytest.fixture(scope="module")
def fresh() -> Iterator[Zygote]:
    """Runs scripts where torch is imported and no device was used."""
    made = Zygote()
    yield made
    made.end()


AUTOLOAD = {"on": {}, "off": {"TORCH_DEVICE_BACKEND_AUTOLOAD": "0"}}
USE = "say(torch.ones(2, device='openreg').tolist())"


def test_importing_torch_is_enough():
    assert run("import torch\n" + USE) == [1, 1]


@pytest.mark.parametrize("autoload", ["on", "off"])
@pytest.mark.parametrize(
    "package", ["torch_openreg", "torch_openreg.openreg", "torch_openreg._C"]
)
def test_importing_the_package_first_is_enough(package, autoload):
    script = f"import {package}\nimport torch\n" + USE
    assert run(script, PYTHONWARNINGS="error", **AUTOLOAD[autoload]) == [1, 1]


def test_autoload_can_be_switched_off():
    script = """
        import torch
        say(hasattr(torch, "openreg") or "torch_openreg" in sys.modules)
    """
    assert run(script, **AUTOLOAD["off"]) is False


def test_without_autoload_the_package_can_be_imported_later():
    script = "import torch\nimport torch_openreg\n" + USE
    assert run(script, **AUTOLOAD["off"]) == [1, 1]


def test_loading_imports_nothing_else_and_starts_no_thread():
    script = """
        import torch
        modules, threads = set(sys.modules), os.listdir("/proc/self/task")
        import torch_openreg
        new = set(sys.modules) - modules
        ours = ("torch_openreg", "torch.openreg")
        say([
            [name for name in new if not name.startswith(ours)],
            len(os.listdir("/proc/self/task")) - len(threads),
            "torch._dynamo" in sys.modules,
        ])
    """
    assert run(script, **AUTOLOAD["off"]) == [[], 0, False]


def test_loading_touches_no_device(fresh):
    script = """
        from driver import counters
        now = counters()
        say([torch.openreg.is_initialized(), torch.openreg._initialized] + [
            getattr(now, name) for name, _ in now._fields_ if name != "queue_chunks"
        ])
    """
    assert fresh(script) == [False, False] + [0] * 10


def test_questions_before_the_first_use_initialise_nothing(fresh):
    script = """
        from driver import counters
        asked = [o.device_count(), o.is_available(), o.memory_allocated(),
                 o.max_memory_reserved(), o.memory_stats(), o.host_memory_stats(),
                 o.is_current_stream_capturing(), len(o.default_generators)]
        o.empty_cache()
        torch.manual_seed(3)
        o.manual_seed(3)
        say([asked, o.is_initialized(), counters().open_devices])
    """
    asked = [2, True, 0, 0, {}, {}, False, 2]
    assert fresh(script) == [asked, False, 0]


@pytest.mark.parametrize(
    "use",
    [
        "torch.ones(1, device='openreg')",
        "o.init()",
        "o.current_device()",
        "o.synchronize()",
        "o.set_device(0)",
        "o.Stream()",
        "o.Event().record()",
        "o.get_rng_state()",
        "o.mem_get_info()",
    ],
)
def test_the_first_use_initialises(fresh, use):
    script = f"""
        {use}
        say([o.is_initialized(), o._initialized])
    """
    assert fresh(script) == [True, True]


def test_seeds_of_before_the_first_use_are_kept_in_their_order(fresh):
    script = """
        o.manual_seed(1)
        o.manual_seed_all(2)
        o.manual_seed(3)
        say([generator.initial_seed() for generator in o.default_generators])
    """
    assert fresh(script) == [3, 2]
    assert fresh(script.replace("o.manual_seed(3)", "")) == [2, 2]


def test_a_state_of_before_the_first_use_is_kept_as_it_was(fresh):
    script = """
        state = torch.Generator().manual_seed(5).get_state()
        o.set_rng_state(state, 1)
        state.zero_()
        say(o.default_generators[1].initial_seed())
    """
    assert fresh(script) == 5


def test_a_queued_call_that_fails_says_where_it_was_made(fresh):
    script = """
        def careless():
            torch.openreg.set_rng_state(torch.zeros(3, dtype=torch.uint8))
        careless()
        try:
            torch.openreg.init()
        except RuntimeError as error:
            say([str(error), torch.ones(1, device="openreg").tolist()])
    """
    message, works = fresh(script)
    assert "in careless" in message
    assert "RNG state" in message
    assert works == [1]


BAD_VALUE = """
    import torch
    o = torch.openreg
    before = [o.device_count(), o.is_available(), torch.accelerator.is_available()]
    messages = []
    for use in (lambda: torch.ones(1, device="openreg"), o.init, o.Stream):
        try:
            use()
        except torch.AcceleratorError as error:
            messages.append(str(error))
    torch.nn.Linear(2, 2)(torch.ones(2)).sum().backward()
    torch.manual_seed(1)
    say([before, messages])
"""


@pytest.mark.parametrize("variable", ["OPENREG_DEVICES", "OPENREG_MEMORY"])
def test_a_bad_value_is_an_error_at_the_first_use(variable):
    before, messages = run(BAD_VALUE, **{variable: "nonsense"})
    assert before == [0, False, False]
    assert len(messages) == 3
    assert all(f"{variable}='nonsense'" in message for message in messages)


@pytest.mark.parametrize("warnings", ["default", "error"])
def test_a_broken_installation_does_not_break_torch(warnings):
    script = """
        sys.modules["torch_openreg._C"] = None
        import torch
        say([hasattr(torch, "openreg"), torch.ones(2).tolist()])
    """
    assert run(script, PYTHONWARNINGS=warnings) == [False, [1, 1]]


def test_a_broken_installation_is_an_error_for_who_imports_the_package():
    script = """
        sys.modules["torch_openreg._C"] = None
        try:
            import torch_openreg
        except ImportError as error:
            say(str(error))
    """
    assert "_C" in run(script, PYTHONWARNINGS="ignore")


@pytest.mark.parametrize(
    ("preparation", "expected"),
    [
        ("torch.utils.rename_privateuse1_backend('other')", "'other' has it"),
        ("torch.__version__ = '1.2.3'", "this is 1.2.3"),
    ],
)
def test_a_torch_that_does_not_fit_is_refused_before_anything_is_loaded(
    preparation, expected
):
    script = f"""
        import torch
        {preparation}
        try:
            import torch_openreg
        except ImportError as error:
            say([str(error), "torch_openreg._C" in sys.modules])
    """
    message, loaded = run(script, **AUTOLOAD["off"])
    assert expected in message
    assert not loaded


def test_the_versions_of_torch_agree():
    version = _registration._TORCH_VERSION
    project = (CHECKOUT / "pyproject.toml").read_text(encoding="utf-8")
    assert set(re.findall(r'"torch==([^"]+)"', project)) == {version}


IN_A_FORKED_CHILD = """
    {before}
    reader, writer = os.pipe()
    if os.fork() == 0:
        try:
            value = {child}
        except Exception as error:
            value = [type(error).__name__, str(error)]
        os.write(writer, json.dumps(value).encode())
        os._exit(0)
    os.close(writer)
    value = json.loads(os.read(reader, 65536))
    os.wait()
    say([value, torch.ones(2, device="openreg").tolist()])
"""


def fork(fresh: Zygote, before: str, child: str) -> Any:
    """Evaluate ``child`` in a forked child; the parent must work afterwards."""
    value, parent = fresh(IN_A_FORKED_CHILD.format(before=before, child=child))
    assert parent == [1, 1]
    return value


USED = "x = torch.ones(2, device='openreg')"


@pytest.mark.parametrize(
    "child", ["o.init()", "torch.ones(2, device='openreg')", "o.current_device()"]
)
def test_a_child_forked_after_the_first_use_is_refused(fresh, child):
    kind, message = fork(fresh, USED, child)
    assert kind == "RuntimeError"
    assert message == (
        "Cannot re-initialize OpenReg in forked subprocess. To use OpenReg with "
        "multiprocessing, you must use the 'spawn' start method"
    )


def test_a_child_forked_after_the_first_use_cannot_use_its_parents_tensors(fresh):
    kind, message = fork(fresh, USED, "(x + 1).tolist()")
    assert kind == "AcceleratorError"
    assert "forked" in message


def test_a_child_forked_after_the_first_use_works_on_the_cpu(fresh):
    child = """[
        o._is_in_bad_fork(), o.is_initialized(), o._lazy_init is not None,
        torch.manual_seed(1).initial_seed(), (torch.ones(2) + 1).tolist(),
        o.memory_allocated(), o.device_count(),
    ]"""
    assert fork(fresh, USED, child) == [True, False, True, 1, [2, 2], 0, 2]


def test_a_child_forked_before_the_first_use_may_use_the_device(fresh):
    asked = "o.device_count(); torch.manual_seed(4)"
    child = "[torch.ones(2, device='openreg').tolist(), o.initial_seed()]"
    assert fork(fresh, asked, child) == [[1, 1], 4]


def test_a_spawned_child_may_use_the_device(tmp_path):
    script = tmp_path / "spawn.py"
    script.write_text(
        textwrap.dedent("""
            import torch
            import torch.multiprocessing as mp

            def work(queue):
                queue.put((torch.ones(2, device="openreg") + 1).tolist())

            if __name__ == "__main__":
                torch.ones(2, device="openreg")
                context = mp.get_context("spawn")
                queue = context.SimpleQueue()
                child = context.Process(target=work, args=(queue,))
                child.start()
                print(queue.get())
                child.join()
        """),
        encoding="utf-8",
    )
    done = subprocess.run(
        [sys.executable, str(script)], capture_output=True, text=True, timeout=120
    )
    assert done.stdout == "[2.0, 2.0]\n", done.stderr
