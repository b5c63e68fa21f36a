"""The usage examples of the documents that OpenReg started from, as they are."""

from process import run_script

# The examples' own lines; the second names the package `pytorch_openreg`.
README = """
import torch

if not torch.openreg.is_available():
    print("OpenReg backend is not available in this build.")
    exit()

print("OpenReg backend is available!")

device = torch.device("openreg")

x = torch.tensor([[1., 2.], [3., 4.]], device=device)
y = x + 2
print("Result y:\\n", y)
print(f"Device of y: {y.device}")

z = y.cpu()
print("Result z:\\n", z)
print(f"Device of z: {z.device}")
"""

BLOG = """
import torch
import torch_openreg

if __name__ == "__main__":
   print(torch.ones(1, 2, device='openreg'))
"""

HOOKS = """
import torch
torch.openreg.manual_seed(42)
print(torch.openreg.initial_seed())
"""


def test_the_example_of_the_readme():
    assert run_script(README).splitlines() == [
        "OpenReg backend is available!",
        "Result y:",
        " tensor([[3., 4.],",
        "        [5., 6.]], device='openreg:0')",
        "Device of y: openreg:0",
        "Result z:",
        " tensor([[3., 4.],",
        "        [5., 6.]])",
        "Device of z: cpu",
    ]


def test_the_use_case_of_the_blog_with_the_packages_new_name():
    assert run_script(BLOG) == "tensor([[1., 1.]], device='openreg:0')\n"


def test_the_seed_of_the_hooks_document():
    assert run_script(HOOKS) == "42\n"
