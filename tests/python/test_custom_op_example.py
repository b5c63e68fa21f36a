"""The example of an operator in a package of its own: built, installed, used."""

import os
import re
import sys
import textwrap
from pathlib import Path

import pytest
from packages import install, run

ROOT = Path(__file__).resolve().parents[2]
EXAMPLE = ROOT / "examples" / "custom_op"


@pytest.fixture(scope="module")
def installed(tmp_path_factory) -> Path:
    """A folder that holds the package, built against the installed torch_openreg."""
    return install(EXAMPLE, tmp_path_factory)


def use(installed: Path, script: str) -> str:
    """Run ``script`` with the package, in strict mode; return what it prints."""
    head = "import torch\nfrom openreg_silu_mul import silu_mul\n"
    code = head + textwrap.dedent(script)
    support = ROOT / "tests" / "python" / "openreg" / "support"
    paths = f"{installed}{os.pathsep}{support}"
    return run(sys.executable, "-c", code, PYTHONPATH=paths, OPENREG_STRICT="1").stdout


def test_the_operator_gives_the_cpus_results_and_gradients(installed):
    use(
        installed,
        """
        for device in ("openreg:0", "openreg:1"):
            for shape in ((), (0,), (7,), (3, 5), (2, 3, 4)):
                x, gate, grad = torch.randn(3, *shape)
                ours = [t.to(device).requires_grad_() for t in (x, gate)]
                host = [t.clone().requires_grad_() for t in (x, gate)]
                result, expected = silu_mul(*ours), silu_mul(*host)
                assert str(result.device) == device
                result.backward(grad.to(device))
                expected.backward(grad)
                torch.testing.assert_close(result.cpu(), expected)
                for mine, theirs in zip(ours, host, strict=True):
                    torch.testing.assert_close(mine.grad.cpu(), theirs.grad)
        reference = x * torch.nn.functional.silu(gate)
        torch.testing.assert_close(silu_mul(x, gate), reference)
        x, gate = torch.randn(2, 4, 6, device="openreg")
        torch.testing.assert_close(
            silu_mul(x.T, gate.T), x.T * torch.nn.functional.silu(gate.T)
        )
        """,
    )


def test_the_operator_passes_pytorchs_checks(installed):
    """Schema, autograd registration and fake tensors are what torch.compile needs."""
    use(
        installed,
        """
        x, gate = torch.randn(2, 3, 4, device="openreg").unbind()
        inputs = (x.requires_grad_(), gate.requires_grad_())
        # PyTorch's check of the autograd registration knows three devices by name.
        checks = ("test_schema", "test_faketensor", "test_aot_dispatch_dynamic")
        torch.library.opcheck(
            torch.ops.openreg_silu_mul.silu_mul, inputs, test_utils=checks
        )
        """,
    )


def test_the_kernel_is_queued_on_the_current_stream(installed):
    use(
        installed,
        """
        from driver import Gate

        from torch_openreg import testing

        x, gate = torch.randn(2, 1000, device="openreg")
        silu_mul(x, gate)  # loads the kernels
        torch.accelerator.synchronize()
        stream, stop = torch.Stream("openreg:0"), Gate()
        stop.hold(stream)
        with stream, testing.assert_no_sync():
            result = silu_mul(x, gate)
        assert not stream.query()
        stop.open()
        stream.synchronize()
        torch.testing.assert_close(result.cpu(), silu_mul(x.cpu(), gate.cpu()))
        """,
    )


def test_the_operator_works_after_a_reset_of_the_device(installed):
    """A reset unloads the kernels; other devices keep theirs."""
    use(
        installed,
        """
        def works(device):
            x, gate = torch.randn(2, 1000, device=device, requires_grad=True).unbind()
            result = silu_mul(x, gate)
            result.sum().backward()
            torch.testing.assert_close(result.cpu(), silu_mul(x.cpu(), gate.cpu()))

        for device in ("openreg:0", "openreg:1"):
            works(device)
        for _ in range(2):
            torch.openreg.reset_device(0)
            for device in ("openreg:0", "openreg:1"):
                works(device)
        """,
    )


def test_bad_arguments_are_refused_at_the_call(installed):
    use(
        installed,
        """
        def refused(x, gate, message):
            try:
                silu_mul(x, gate)
            except RuntimeError as error:
                assert message in str(error), error
            else:
                raise AssertionError("it was not refused")

        x = torch.ones(3, device="openreg")
        refused(x, x[:2], "x has the sizes [3] and gate [2]")
        refused(x, x.double(), "only float32 is there")
        refused(x, x.cpu(), "x is on openreg:0 and gate on cpu")
        refused(x, x.to("openreg:1"), "x is on openreg:0 and gate on openreg:1")
        """,
    )


def test_the_code_of_its_readme_works(installed):
    (code,) = re.findall(
        r"^```py\n(.*?)^```", (EXAMPLE / "README.md").read_text(), re.M | re.S
    )
    use(installed, code)
