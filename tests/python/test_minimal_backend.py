"""The minimal backend: built, installed, and used as the device of a process."""

import re
import sys
import textwrap
from pathlib import Path

import pytest
from packages import install, run

ROOT = Path(__file__).resolve().parents[2]
EXAMPLE = ROOT / "examples" / "minimal_backend"
CPP = sorted((EXAMPLE / "csrc").iterdir())
PYTHON = sorted(EXAMPLE.rglob("*.py"))
BUILD = [EXAMPLE / "CMakeLists.txt", EXAMPLE / "pyproject.toml"]

# There is one PrivateUse1 per process: torch_openreg must not take it.
ALONE = {"TORCH_DEVICE_BACKEND_AUTOLOAD": "0"}


@pytest.fixture(scope="module")
def installed(tmp_path_factory) -> Path:
    """A folder that holds the package, built against the installed driver."""
    return install(EXAMPLE, tmp_path_factory)


HEAD = """
import os
import sys

import torch
import torch_acme


def same(function, *tensors, device="acme"):
    '''Compare what `function` gives on the device with what it gives on the CPU.'''
    ours = function(*(tensor.to(device) for tensor in tensors))
    assert ours.device.type == "acme", ours.device
    torch.testing.assert_close(
        ours.cpu(), function(*(t.clone() for t in tensors)), equal_nan=True
    )


def refused(call, message):
    try:
        call()
    except RuntimeError as error:
        assert message in str(error), error
    else:
        raise AssertionError("it was not refused")
"""


def use(installed: Path, script: str) -> str:
    """Run ``script`` with the package; return what it prints."""
    code = HEAD + textwrap.dedent(script)
    python = (sys.executable, "-W", "error", "-c", code)
    return run(*python, PYTHONPATH=str(installed), **ALONE).stdout


def test_training_gives_the_cpus_losses(installed):
    """Both columns fall; the program itself compares every step."""
    program = EXAMPLE / "train_acme.py"
    done = run(sys.executable, program, PYTHONPATH=str(installed), **ALONE)
    assert done.stderr == ""
    rows = re.findall(r"^ +\d+  (\d\.\d+)  (\d\.\d+)$", done.stdout, re.M)
    assert len(rows) == 10
    ours, host = ([float(row[column]) for row in rows] for column in (0, 1))
    assert ours == pytest.approx(host, rel=1e-3, abs=2e-6)
    assert ours[-1] < ours[0] / 100
    assert done.stdout.endswith("as on the CPU.\n")


def test_it_stands_on_the_driver_alone(installed):
    use(
        installed,
        """
        from pathlib import Path

        torch.ones(2, device="acme").relu()
        loaded = Path("/proc/self/maps").read_text()
        assert "/libopenreg.so" in loaded
        assert "libtorch_openreg" not in loaded
        assert not [name for name in sys.modules if name.startswith("torch_openreg")]
        """,
    )


def test_operators_by_hand_give_the_cpus_results(installed):
    use(
        installed,
        """
        nan, inf = float("nan"), float("inf")
        for shape in ((), (0,), (7,), (3, 5), (2, 3, 4)):
            x, y = torch.randn(2, *shape)
            for device in ("acme:0", "acme:1"):
                same(torch.add, x, y, device=device)
                same(torch.relu, x, device=device)
                same(lambda x: x.fill_(2.5), x, device=device)
        x, y = torch.randn(3, 1), torch.randn(4)
        same(lambda x, y: torch.add(x, y, alpha=-0.5), x, y)
        same(lambda x, y: torch.add(x, y, out=x.new_empty(0)), x, y)
        same(lambda x: 1.5 + x + 2, x)
        same(lambda x: x.add_(x), torch.randn(3, 4).T)
        same(torch.relu, torch.randn(3, 4)[:, ::2])
        same(torch.relu, torch.tensor([nan, -inf, inf, -1.0, 0.0]))
        same(lambda x: x[:, 1:].fill_(7), torch.randn(3, 4))
        for dtype in (torch.bool, torch.uint8, torch.half, torch.complex128):
            same(lambda x: x.fill_(1), torch.zeros(5, dtype=dtype))
        """,
    )


def test_other_dtypes_of_these_operators_fall_back(installed):
    use(
        installed,
        """
        for dtype in (torch.int64, torch.half, torch.double, torch.complex64):
            x = torch.arange(6).to(dtype)
            same(torch.add, x, x)
            same(lambda x: x + 1, x)
        same(torch.add, torch.randn(3), torch.arange(3))
        same(torch.relu, torch.randn(5).double())
        """,
    )


def test_kernels_are_queued_and_the_host_does_not_wait(installed):
    """A fallback would wait here for ever: it needs the values."""
    use(
        installed,
        """
        import ctypes

        driver, gate = ctypes.CDLL("libopenreg.so"), ctypes.c_void_p()
        x = torch.randn(3, 4)
        y = x.to("acme")
        first = y.relu()  # loads the kernels
        assert driver.orTestingGateCreate(ctypes.byref(gate)) == 0
        assert driver.orTestingGateHold(gate, None, 0) == 0
        sum, positive, packed = y + y, y.relu(), y.T.contiguous()
        assert driver.orStreamQuery(None) == 5  # orErrorNotReady
        assert driver.orTestingGateOpen(gate) == 0
        torch.acme.synchronize()
        assert driver.orStreamQuery(None) == 0
        assert sum.cpu().equal(x + x)
        assert positive.cpu().equal(x.relu())
        assert packed.cpu().equal(x.T)
        """,
    )


def test_a_reset_device_gets_its_kernels_again(installed):
    use(
        installed,
        """
        import ctypes

        x = torch.ones(3, device="acme")
        assert (x + x).tolist() == [2.0] * 3
        del x
        assert ctypes.CDLL("libopenreg.so").orDeviceReset() == 0
        x = torch.ones(3, device="acme")
        assert (x + x).tolist() == [2.0] * 3
        """,
    )


def test_other_operators_fall_back_to_the_cpu(installed):
    use(
        installed,
        """
        x, y = torch.randn(2, 5, 5)
        same(torch.matmul, x, y)
        same(lambda x: x.softmax(dim=1).mul_(2), x)
        same(lambda x: x.sort(dim=1).values, x)
        same(lambda x: torch.cat([x, x.T]), x)
        same(lambda x: torch.exp(x, out=torch.empty_like(x)), x)
        same(lambda x: x[x > 0], x)
        assert torch.arange(5, device="acme").tolist() == [0, 1, 2, 3, 4]
        same(lambda x: torch.autograd.grad(x.requires_grad_().sin().sum(), x)[0], x)
        """,
    )


def test_views_share_memory_and_copies_take_any_strides(installed):
    use(
        installed,
        """
        host = torch.arange(24.0).reshape(2, 3, 4)
        x = host.to("acme")
        for view in (
            lambda t: t.view(6, 4),
            lambda t: t.transpose(0, 2),
            lambda t: t[:, 1:, ::2],
            lambda t: t.reshape(-1)[5:],
            lambda t: t.unfold(2, 2, 1),
            lambda t: t.expand(5, 2, 3, 4),
        ):
            assert view(x).data_ptr() - x.data_ptr() == (
                view(host).data_ptr() - host.data_ptr()
            )
            assert view(x).cpu().equal(view(host))
            assert view(x).clone().cpu().equal(view(host))
        x[0].T.fill_(1)
        x.permute(2, 0, 1)[3].copy_(torch.zeros(2, 3))
        host[0].fill_(1)
        host[:, :, 3] = 0
        assert x.cpu().equal(host)
        refused(lambda: x[:1].expand(2, 3, 4).copy_(x), "single memory location")
        refused(lambda: x.copy_(x.cpu()[:, :2]), "must match the existing size")
        """,
    )


def test_copies_convert_and_cross_devices(installed):
    use(
        installed,
        """
        x = torch.randn(3, 4)
        for dtype in (torch.double, torch.half, torch.int32, torch.bool):
            same(lambda t: t.to(dtype), x)
            assert x.to("acme", dtype).cpu().equal(x.to(dtype))
            assert torch.empty(3, 4, dtype=dtype).copy_(x.to("acme")).equal(x.to(dtype))
        there = x.to("acme:0").T.to("acme:1")
        assert str(there.device) == "acme:1"
        assert there.cpu().equal(x.T)
        z = torch.randn(4, dtype=torch.complex64)
        same(torch.conj, z)
        same(lambda z: z.conj().imag, z)
        same(lambda z: z.conj().clone(), z)
        same(lambda z: torch.zeros_like(z).conj().copy_(z), z)
        """,
    )


def test_tensors_are_printed_and_read(installed):
    printed = use(
        installed,
        """
        print(torch.tensor([[1.5, -2.0], [0.0, 3.0]], device="acme:1"))
        print(torch.tensor([1 + 2j], device="acme"))
        assert torch.tensor(3, device="acme").item() == 3
        assert torch.tensor([True, False], device="acme").tolist() == [True, False]
        """,
    )
    assert "tensor([[ 1.5000, -2.0000],\n" in printed
    assert "        [ 0.0000,  3.0000]], device='acme:1')\n" in printed
    assert "tensor([1.+2.j], device='acme:0')\n" in printed


def test_tensors_and_storages_are_resized(installed):
    use(
        installed,
        """
        x = torch.tensor([1.0, 2.0], device="acme")
        x.resize_(3, 2)
        assert x.shape == (3, 2)
        assert x[0].tolist() == [1.0, 2.0]
        x.untyped_storage().resize_(8)
        assert x.untyped_storage().nbytes() == 8
        y = torch.empty(0, device="acme").set_(x.untyped_storage(), 1, (1,), (1,))
        assert y.tolist() == [2.0]
        refused(lambda: x.resize_(-1), "negative dimension")
        """,
    )


def test_modules_are_copied_saved_and_loaded(installed):
    use(
        installed,
        """
        import copy
        import io

        model = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.BatchNorm1d(4))
        device_model = copy.deepcopy(model).to("acme")
        other = copy.deepcopy(device_model)
        for mine, copied in zip(device_model.parameters(), other.parameters()):
            assert copied.is_acme
            assert copied.data_ptr() != mine.data_ptr()
            assert copied.cpu().equal(mine.cpu())

        file = io.BytesIO()
        torch.save(device_model.state_dict(), file)
        for where, device in ((None, "acme"), ("cpu", "cpu"), ("acme:1", "acme")):
            file.seek(0)
            state = torch.load(file, map_location=where)
            assert {tensor.device.type for tensor in state.values()} == {device}
            for name, tensor in model.state_dict().items():
                assert state[name].cpu().equal(tensor), name
        other.load_state_dict(state)
        """,
    )


def test_seeds_are_reproducible(installed):
    """A seed gives the CPU's numbers."""
    use(
        installed,
        """
        def draw(device="acme", generator=None):
            normal = torch.randn(5, device=device, generator=generator)
            order = torch.randperm(5, device=device, generator=generator)
            return torch.cat([normal.cpu(), order.cpu()])

        expected = draw("cpu", torch.Generator().manual_seed(7))
        generator = torch.Generator("acme:1")
        assert str(generator.device) == "acme:1"
        assert draw("acme:1", generator.manual_seed(7)).equal(expected)
        assert not draw("acme:1", generator).equal(expected)
        for device in ("acme:0", "acme:1"):
            torch.manual_seed(7)
            assert draw(device).equal(expected)
        torch.acme.manual_seed(7)
        state = torch.acme.get_rng_state()
        first = draw()
        torch.acme.set_rng_state(state)
        assert draw().equal(first)
        copied = generator.clone_state()
        assert draw(generator=generator).equal(draw(generator=copied))
        """,
    )


def test_the_module_manages_devices(installed):
    use(
        installed,
        """
        assert torch.acme.is_available()
        assert torch.acme.device_count() == torch.accelerator.device_count() == 2
        assert torch.acme.current_device() == 0
        with torch.acme.device("acme:1"):
            assert torch.ones(1, device="acme").get_device() == 1
        torch.acme.set_device(1)
        assert torch.acme.current_device() == 1
        assert torch.ones(1, device="acme").get_device() == 1
        torch.acme.synchronize(0)
        torch.accelerator.current_stream().synchronize()
        assert torch.accelerator.current_accelerator().type == "acme"
        """,
    )


def test_mistakes_raise_the_drivers_words(installed):
    use(
        installed,
        """
        x = torch.ones(3, device="acme")
        refused(lambda: x + torch.ones(3), "on the same device")
        refused(lambda: x + torch.ones(3, device="acme:1"), "on the same device")
        refused(lambda: torch.ones(1, device="acme:9"), "there are 2 devices")
        refused(lambda: torch.empty(2**50, device="acme"), "has not enough memory")
        refused(lambda: torch.Stream("acme"), "doesn't support")
        """,
    )


def test_importing_torch_is_enough(installed):
    """The entry point is called; the backend that comes second warns."""
    script = """
    import importlib.metadata

    import torch

    found = importlib.metadata.entry_points(group="torch.backends", name="torch_acme")
    (entry,) = found
    name = torch._C._get_privateuse1_backend_name()
    assert name in ("acme", "openreg")
    assert torch.ones(2, device=name).tolist() == [1.0, 1.0]
    entry.load()()
    """
    done = run(
        *(sys.executable, "-c", textwrap.dedent(script)), PYTHONPATH=str(installed)
    )
    assert "is not available" in done.stderr


def test_a_second_backend_is_refused_by_name(installed):
    script = """
    import torch

    torch.utils.rename_privateuse1_backend("other")
    try:
        import torch_acme
    except ImportError as error:
        assert "'other'" in str(error)
    else:
        raise AssertionError("it was not refused")
    """
    code = textwrap.dedent(script)
    run(sys.executable, "-c", code, PYTHONPATH=str(installed), **ALONE)


def test_the_code_of_its_readme_works(installed):
    (code,) = re.findall(
        r"^```py\n(.*?)^```", (EXAMPLE / "README.md").read_text(), re.M | re.S
    )
    assert use(installed, code).startswith("tensor([[")


def test_it_is_as_small_as_it_says():
    def lines(files: list[Path]) -> int:
        return sum(len(file.read_text().splitlines()) for file in files)

    assert lines(CPP) <= 600
    assert lines(PYTHON) <= 150


@pytest.mark.parametrize("file", CPP + PYTHON + BUILD, ids=lambda file: file.name)
def test_every_file_names_its_full_form(file: Path):
    """In its first line; what is named exists."""
    text = file.read_text()
    first = text.splitlines(keepends=True)[0]
    assert re.search(r"^\W*\w.*\. Full form: .*\.[\s\"]", first), "not in one line"
    for sentence in re.findall(r"Full form:(.*?)\.[\s\"]", text):
        named = re.findall(r"[\w/]+(?:/(?!\w)|\.(?:cpp|h|py|txt|toml))", sentence)
        assert named
        folder = Path()
        for name in named:  # a name without a folder is in that of the one before
            folder = folder if "/" not in name else Path(name).parent
            assert (ROOT / folder / Path(name).name).exists(), name


def test_its_readme_leads_to_the_full_form():
    first = (EXAMPLE / "README.md").read_text().splitlines()[0]
    assert "full form: " in first
    assert "(../../backend)" in first


def test_the_links_of_its_readme_lead_to_files():
    links = re.findall(r"\]\(([^)#\s]+)\)", (EXAMPLE / "README.md").read_text())
    assert [link for link in links if not (EXAMPLE / link).exists()] == []
