"""Operators that the program has and a device in another process has not."""

from process import run_script

SCRIPT = """
    import torch

    library = torch.library.Library("vendor", "DEF")
    library.define("twice(Tensor x) -> Tensor")
    library.impl("twice", lambda x: x * 2, "CPU")
    import torch_openreg  # after the operator: it meets it when it registers its own

    x = torch.arange(3.0, device="openreg")
    try:
        torch.ops.vendor.twice(x)
    except NotImplementedError as error:
        print("its kernel for the CPU is written in Python" in str(error))
    print((x + x).tolist(), len(torch.openreg.fallback_report()))
"""


def test_kernels_in_python_that_came_first_are_refused_before_the_device():
    """The device goes on: nothing has failed on its side."""
    env = {"OPENREG_DRIVER": "isolated", "TORCH_DEVICE_BACKEND_AUTOLOAD": "0"}
    assert run_script(SCRIPT, env=env).splitlines() == ["True", "[0.0, 2.0, 4.0] 0"]
