"""Operators that the program has and a device in another process has not."""

from process import run_script

SCRIPT = """
    import torch

    library = torch.library.Library("vendor", "DEF")
    library.define("twice(Tensor x) -> Tensor")
    library.define("fill(Tensor(a!) x, float value) -> Tensor(a!)")
    library.impl("twice", lambda x: x * 2, "CPU")
    library.impl("fill", lambda x, value: x.fill_(value), "CPU")
    import torch_openreg  # after the operators: it takes them as its own

    x = torch.arange(3.0, device="openreg")
    print(torch.ops.vendor.twice(x).tolist())
    print(torch.ops.vendor.twice(x + 1).tolist())
    print(torch.ops.vendor.fill(x, 7.0).tolist(), x.tolist())
    for use in sorted(torch.openreg.fallback_report(), key=lambda use: use.operator):
        print(use.operator, use.count, use.reason)
    with torch.openreg.strict():
        try:
            torch.ops.vendor.twice(x)
        except NotImplementedError as error:
            print("strict:", "the device has no such operator" in str(error))
    torch.openreg.synchronize()
"""


def test_they_run_on_the_cpu_and_are_counted():
    """The device says which operators it has, so nothing fails on its side."""
    env = {"OPENREG_DRIVER": "isolated", "TORCH_DEVICE_BACKEND_AUTOLOAD": "0"}
    assert run_script(SCRIPT, env=env).splitlines() == [
        "[0.0, 2.0, 4.0]",
        "[2.0, 4.0, 6.0]",
        "[7.0, 7.0, 7.0] [7.0, 7.0, 7.0]",
        "vendor::fill 1 the device has no such operator",
        "vendor::twice 2 the device has no such operator",
        "strict: True",
    ]
