"""A build without the simulation: what a vendor starts from.

``OPENREG_SIMULATION=OFF`` leaves ``backend/simulation`` out. The device then has no
kernels: copies go through the driver, generators are the host's, and every operator
goes to the counted fallback, whose report is the list of what is to be written.
"""

import os
import re
import shutil
import subprocess
import sys
import sysconfig
import textwrap
import venv
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
TESTS = ROOT / "tests" / "python" / "openreg"

# The tests of `torch.openreg` that hold for a device without kernels of its own, and
# for every chip. (Those that are not here ask how operators run in the simulation, or
# that the host does not wait for them.) A few take long and say nothing new: data
# loaders, first use, seeds of every kind.
VENDOR_TESTS = (
    "autograd/test_autograd_devices.py",
    "autograd/test_checkpoint.py",
    "behaviour/test_lazy_clones.py",
    "copies/test_copy_lazy.py",
    "devices/test_accelerator.py",
    "devices/test_device_errors.py",
    "devices/test_devices.py",
    "devices/test_threads.py",
    "memory/test_host_memory.py",
    "memory/test_mem_pool.py",
    "memory/test_mem_pool_end.py",
    "memory/test_memory.py",
    "memory/test_memory_history.py",
    "memory/test_memory_stats.py",
    "memory/test_memory_streams.py",
    "memory/test_oom.py",
    "programs/test_optimizers.py",
    "random_numbers/test_generators.py",
    "random_numbers/test_random_operators.py",
    "registration/test_compatibility.py",
    "registration/test_module.py",
    "registration/test_registration.py",
    "streams/test_event_timing.py",
    "streams/test_events.py",
    "streams/test_external_streams.py",
    "streams/test_stream_order.py",
    "streams/test_streams.py",
    "tensors/test_serialization.py",
    "tensors/test_storage.py",
    "tensors/test_tensor.py",
)

# What a vendor deletes first.
SIMULATION = ("backend/simulation", "tests/record", "tests/python/openreg/engine")


@pytest.fixture(scope="module")
def wheel(tmp_path_factory) -> Path:
    """The package, built without the simulation."""
    folder = tmp_path_factory.mktemp("bare")
    options = ("--quiet", "--no-input", "--no-build-isolation", "--no-deps")
    run(
        *(sys.executable, "-m", "pip", "wheel", *options, "--wheel-dir", folder),
        *("--config-settings", "cmake.define.OPENREG_SIMULATION=OFF"),
        *("--config-settings", f"build-dir={folder / 'build'}"),
        ROOT,
    )
    (built,) = folder.glob("*.whl")
    return built


@pytest.fixture(scope="module")
def python(wheel, tmp_path_factory) -> Path:
    """An interpreter that has that package, and else what this one has."""
    folder = tmp_path_factory.mktemp("environment")
    venv.create(folder, with_pip=False)
    version = f"python{sys.version_info.major}.{sys.version_info.minor}"
    # A path in such a file is looked at last, and not for more such files: the
    # editable package of this checkout is not imported.
    base = folder / "lib" / version / "site-packages" / "base.pth"
    base.write_text(sysconfig.get_path("purelib") + "\n")
    made = folder / "bin" / "python"
    options = ("--quiet", "--no-deps", "--no-index")
    run(sys.executable, "-m", "pip", "--python", made, "install", *options, wheel)
    return made


def run(*command: str | Path, cwd: Path | None = None) -> str:
    """Run ``command`` to its end; return what it prints."""
    env = {k: v for k, v in os.environ.items() if not k.startswith("PYTEST_")}
    done = subprocess.run(
        command,
        cwd=cwd,
        env=env,
        capture_output=True,
        text=True,
        stdin=subprocess.DEVNULL,
        timeout=550,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-10_000:] + done.stderr[-10_000:]
    return done.stdout


def script(python: Path, text: str, folder: Path) -> str:
    """Run a script away from this checkout."""
    return run(python, "-c", textwrap.dedent(text), cwd=folder)


def test_the_simulation_is_not_in_it(wheel):
    names = zipfile.ZipFile(wheel).namelist()
    assert any(name.endswith("lib/libtorch_openreg.so") for name in names)
    assert not any("executor" in name for name in names)


def copied_tree(tmp_path: Path) -> Path:
    """Return a copy of this checkout's files, committed in a repository of its own."""
    tree = tmp_path / "tree"
    listed = run("git", "ls-files", "-z", cwd=ROOT).split("\0")
    for name in filter(None, listed):
        if not (ROOT / name).is_file():
            continue
        copy = tree / name
        copy.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, copy)
    run("git", "init", "--quiet", tree)  # the tools ask it for the files
    run("git", "add", "--all", "--force", cwd=tree)
    author = ("-c", "user.name=vendor", "-c", "user.email=vendor@localhost")
    run("git", *author, "commit", "--quiet", "--message=all", cwd=tree)
    return tree


def tree_without(tmp_path: Path, *folders: str) -> Path:
    """Return a copy of this checkout in which somebody has deleted ``folders``."""
    tree = copied_tree(tmp_path)
    for folder in folders:
        shutil.rmtree(tree / folder)
    return tree


def steps_of_the_page() -> list[str]:
    """Return the commands of docs/vendors.md that delete and rename."""
    page = (ROOT / "docs" / "vendors.md").read_text()
    section = page.partition("\n## From OpenReg to your chip\n")[2].partition("\n## ")[
        0
    ]
    blocks = re.findall(r"^ *```sh\n(.*?)^ *```", section, re.M | re.S)
    return [textwrap.dedent(block) for block in blocks]


def test_the_steps_to_a_chip_of_ones_own_leave_a_tree_that_builds(tmp_path):
    """Without the simulation, with another name, tests included."""
    tree = copied_tree(tmp_path)
    steps = steps_of_the_page()
    assert len(steps) == 2
    for step in steps:
        run("bash", "-e", "-o", "pipefail", "-c", step, cwd=tree)
    names = run("git", "ls-files", cwd=tree)
    assert not re.search("openreg|simulation/", names, re.I)
    assert (tree / "torch_nova" / "nova" / "__init__.py").is_file()
    # The packages' licence goes on naming whose work this was.
    assert run("git", "grep", "-il", "openreg", cwd=tree) == "LICENSE\n"
    options = ("-G", "Ninja", "-D", f"Python_EXECUTABLE={sys.executable}")
    cmake = ("cmake", "-S", tree, "-B", tmp_path / "build", *options)
    assert "Generating done" in run(*cmake)
    rules = (tmp_path / "build" / "build.ninja").read_text()
    assert "backend/bare/seam.cpp" in rules
    assert "nova_backend_tests" in rules
    assert "backend/simulation" not in rules
    assert run("tools/check_includes.py", cwd=tree) == ""


@pytest.mark.parametrize("folders", [SIMULATION, (*SIMULATION, "driver")])
def test_what_is_left_keeps_the_rules_of_includes(folders, tmp_path):
    """Without a folder its rules say nothing; the others hold."""
    tree = tree_without(tmp_path, *folders)
    assert run("tools/check_includes.py", cwd=tree) == ""
    pytest_alone = ("pytest", "-q", "-p", "no:cacheprovider", "-p", "no:xdist")
    test = "tests/python/test_includes.py"
    assert " passed" in run(sys.executable, "-m", *pytest_alone, test, cwd=tree)


def test_a_kept_file_that_still_needs_the_simulation_is_found(tmp_path):
    tree = tree_without(tmp_path, *SIMULATION)
    with (tree / "backend/ops/views.cpp").open("a") as source:
        source.write('#include "backend/simulation/host/engine.h"\n')
    with pytest.raises(AssertionError, match=r"views\.cpp:.*may not include"):
        run("tools/check_includes.py", cwd=tree)


def test_a_network_trains_and_the_report_lists_what_is_to_be_written(python, tmp_path):
    printed = script(
        python,
        """
        import torch
        from torch import nn

        def train(device):
            torch.manual_seed(0)
            net = nn.Sequential(
                nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.Flatten(),
                nn.Linear(4 * 36, 2),
            ).to(device)
            x = torch.randn(5, 3, 8, 8).to(device)
            sgd = torch.optim.SGD(net.parameters(), 0.1)
            losses = []
            for _ in range(5):
                sgd.zero_grad()
                loss = net(x).square().mean()
                loss.backward()
                sgd.step()
                losses.append(loss.item())
            return losses

        torch.testing.assert_close(train("openreg"), train("cpu"))
        uses = torch.openreg.fallback_report()
        assert {use.reason for use in uses} == {"no kernel for this device"}
        names = {use.operator for use in uses}
        assert {"aten::convolution", "aten::convolution_backward"} <= names, names
        assert torch.openreg.engine_stats()["launches"] == 0
        print(uses)
        """,
        tmp_path,
    )
    assert re.search(
        r"^aten::convolution +5 .*no kernel for this device", printed, re.M
    )


def test_copies_of_every_kind_give_the_cpus_values(python, tmp_path):
    script(
        python,
        """
        import torch

        def copies(device):
            x = torch.arange(24).reshape(2, 3, 4).to(device)
            gaps = torch.zeros(2, 3, 8).to(device)
            gaps[..., ::2].copy_(x)  # what lies between stays
            z = torch.complex(x.float(), -x.float())
            return (
                x.transpose(0, 2).contiguous(), x.to(torch.float16), gaps,
                z.conj().clone(), z.mH.to(torch.complex128), x.flip(0)[:, 1:],
                x.expand(3, 2, 3, 4).contiguous(), x[0].t(),
            )

        for ours, theirs in zip(copies("openreg"), copies("cpu")):
            torch.testing.assert_close(ours.cpu(), theirs, rtol=0, atol=0)
        """,
        tmp_path,
    )


def test_random_numbers_are_the_hosts(python, tmp_path):
    script(
        python,
        """
        import torch

        torch.manual_seed(3)
        ours = torch.randn(5, device="openreg"), torch.rand(5, device="openreg")
        generator = torch.Generator().manual_seed(3)
        assert ours[0].tolist() == torch.randn(5, generator=generator).tolist()
        assert ours[1].tolist() == torch.rand(5, generator=generator).tolist()
        state = torch.openreg.get_rng_state()
        first = torch.rand(3, device="openreg").tolist()
        torch.openreg.set_rng_state(state)
        assert torch.rand(3, device="openreg").tolist() == first
        """,
        tmp_path,
    )


def test_the_tests_that_a_vendor_keeps_pass(python, tmp_path):
    printed = run(
        *(python, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "no:xdist"),
        *("-c", ROOT / "pyproject.toml", "--rootdir", ROOT),
        *("-o", f"pythonpath={ROOT / 'benchmarks'} {TESTS / 'support'}"),
        *(TESTS / name for name in VENDOR_TESTS),
        cwd=tmp_path,
    )
    (passed,) = re.findall(r"^(\d+) passed", printed, re.M)
    assert int(passed) > 1500
