"""How many devices there are, and what makes one of them come to life."""

import pytest
import torch
from process import run_script

import torch_openreg

# How many there are


@pytest.mark.parametrize("count", ["1", "2", "5", "64"])
def test_number_of_devices_is_the_environments(count):
    script = """
        import torch
        last = torch.openreg.device_count() - 1
        x = torch.ones(2, device=f"openreg:{last}")
        print(last + 1, x.cpu().tolist(), x.device.index)
    """
    out = run_script(script, env={"OPENREG_DEVICES": count, "OPENREG_MEMORY": "64MiB"})
    assert out == f"{count} [1.0, 1.0] {int(count) - 1}\n"


def test_there_are_two_devices_by_default():
    script = "import torch; print(torch.openreg.device_count())"
    assert run_script(script) == "2\n"


def test_without_devices_it_is_not_available_and_says_so():
    script = """
        import torch
        assert torch.openreg.device_count() == 0
        assert not torch.openreg.is_available()
        assert torch.accelerator.current_accelerator(check_available=True) is None
        try:
            torch.ones(1, device="openreg")
        except RuntimeError as error:
            print(error)
    """
    out = run_script(script, env={"OPENREG_DEVICES": "0"})
    assert "No OpenReg devices are available" in out


# First use

FIRST_USE = """
    import torch
    import torch_openreg
    used = lambda: [torch_openreg._C._has_primary_context(i) for i in range(2)]
"""


def test_first_tensor_initialises_and_nothing_before_does():
    script = """
        import torch
        print(torch.openreg.is_initialized())
        torch.openreg.is_available(), torch.openreg.device_count()
        torch.accelerator.current_accelerator(check_available=True)
        print(torch.openreg.is_initialized())
        torch.ones(1, device="openreg")
        print(torch.openreg.is_initialized())
    """
    assert run_script(script).split() == ["False", "False", "True"]


def test_seed_before_the_first_use_is_kept_and_initialises_nothing():
    script = """
        import torch
        torch.openreg.manual_seed(5)
        print(torch.openreg.is_initialized())
        torch.ones(1, device="openreg")
        print(torch.openreg.initial_seed())
    """
    assert run_script(script).split() == ["False", "5"]


def test_questions_give_a_device_no_context():
    script = (
        FIRST_USE
        + """
    torch.openreg.init()
    torch.openreg.set_device(1)
    torch.openreg.get_device_properties(0)
    torch.openreg.current_stream(0), torch.openreg.default_stream(1)
    torch.openreg.memory_allocated(0), torch.openreg.memory_stats(1)
    torch.openreg.synchronize(0)
    torch.Event(), torch.openreg.Event()
    torch.empty(0, device="openreg:0")
    print(used())
    """
    )
    assert run_script(script) == "[False, False]\n"


@pytest.mark.parametrize(
    "use",
    [
        'torch.empty(1, device="openreg:1")',
        'torch.ones(1).to("openreg:1")',
        'torch.Stream("openreg:1")',
        "torch.openreg.Stream(1)",
        'torch.Event().record(torch.accelerator.current_stream("openreg:1"))',
    ],
)
def test_device_has_a_context_after_its_use_and_the_other_has_none(use):
    assert (
        run_script(FIRST_USE + f"\n    {use}\n    print(used())") == "[False, True]\n"
    )


def test_context_of_a_device_that_does_not_exist_is_an_error():
    with pytest.raises(torch.AcceleratorError, match="out of range"):
        torch_openreg._C._has_primary_context(99)


def test_pinned_memory_is_no_use_of_a_device():
    """A process that pins memory for one device gives no other a context."""
    script = FIRST_USE + "\n    torch.empty(1, pin_memory=True)\n    print(used())"
    assert run_script(script) == "[False, False]\n"
