"""Errors that data decides: an index out of range, in both modes."""

from collections.abc import Callable

import pytest
import torch
from compare import DEVICE, failure_of, numbers
from process import run_script
from promises import assert_same_failure, data_failure_of
from torch.nn import functional

Tensor = torch.Tensor


def data() -> tuple[Tensor, Tensor]:
    """Rows, and indices of which one is out of range."""
    return numbers(3, 4), torch.tensor([1, 7])


# By name, a call with rows and indices, and the operator that finds the error.
OUT_OF_RANGE: dict[str, tuple[Callable[[Tensor, Tensor], object], str]] = {
    "index": (lambda x, i: x[i], "aten::index"),
    "index_select": (lambda x, i: x.index_select(0, i), "aten::index_select"),
    "gather": (lambda x, i: x.gather(0, i[:, None]), "aten::gather"),
    "embedding": (lambda x, i: functional.embedding(i, x), "aten::"),
    "take": (lambda x, i: x.take(i * 10), "aten::take"),
    "scatter_": (lambda x, i: x.scatter_(0, i[:, None], 1.0), "aten::scatter_"),
    "index_put_": (lambda x, i: x.index_put_((i,), x[:2] + 1), "aten::"),
    "index_fill_": (lambda x, i: x.index_fill_(0, i, 1.0), "aten::index_fill_"),
    "index_add_": (lambda x, i: x.index_add_(0, i, x[:2] + 1), "aten::index_add_"),
    "nll_loss": (lambda x, i: functional.nll_loss(x[:2], i), "aten::nll_loss"),
}


@pytest.mark.parametrize("name", OUT_OF_RANGE)
def test_on_an_idle_stream_the_call_raises_what_the_cpu_raises(name):
    """Where the device is in this process; else the next synchronisation tells it."""
    call, _ = OUT_OF_RANGE[name]
    expected = failure_of(lambda: call(*data()))
    x, index = (part.to(DEVICE) for part in data())
    assert_same_failure(data_failure_of(lambda: call(x, index)), expected)
    torch.openreg.synchronize()
    assert torch.equal(torch.ones(2, device=DEVICE).cpu(), torch.ones(2))


def test_a_message_that_names_another_exception_does_not_change_the_type():
    def check(device: str) -> None:
        condition = torch.zeros(1, dtype=torch.bool, device=device)
        torch._assert_async(condition, "IndexError: of a file")

    expected = failure_of(lambda: check("cpu"))
    assert type(expected) is RuntimeError
    assert_same_failure(data_failure_of(lambda: check(DEVICE)), expected)


@pytest.mark.parametrize("name", OUT_OF_RANGE)
def test_on_a_held_stream_the_next_synchronisation_raises_once(gate, watch, name):
    call, operator = OUT_OF_RANGE[name]
    x, index = (part.to(DEVICE) for part in data())
    gate.hold()
    assert watch.returns(lambda: call(x, index))
    gate.open()
    with pytest.raises(torch.AcceleratorError) as error:
        torch.openreg.synchronize()
    assert operator in str(error.value)
    torch.openreg.synchronize()
    assert (torch.ones(2, device=DEVICE) + 1).tolist() == [2.0, 2.0]


@pytest.mark.parametrize(
    "wait",
    [
        torch.openreg.synchronize,
        lambda: torch.openreg.current_stream().synchronize(),
        lambda: torch.ones(1, device=DEVICE).item(),
        lambda: torch.ones(1, device=DEVICE).cpu(),
        lambda: torch.ones(1, device=DEVICE).nonzero(),
        lambda: torch.set_num_threads(torch.get_num_threads()),
    ],
    ids=["device", "stream", "item", "cpu", "nonzero", "setting"],
)
def test_every_synchronisation_tells_of_it_once(gate, wait):
    x, index = (part.to(DEVICE) for part in data())
    gate.hold()
    x[index]
    gate.open()
    with pytest.raises(torch.AcceleratorError, match="aten::index"):
        wait()
    wait()


def test_work_after_the_failure_still_runs(gate):
    x, index = (part.to(DEVICE) for part in data())
    gate.hold()
    x.index_select(0, index)
    y = x * 2
    gate.open()
    with pytest.raises(torch.AcceleratorError):
        torch.openreg.synchronize()
    assert torch.equal(y.cpu(), data()[0] * 2)


def test_a_failed_operator_tells_its_arguments(gate):
    x, index = (part.to(DEVICE) for part in data())
    gate.hold()
    x.index_select(0, index)
    gate.open()
    with pytest.raises(torch.AcceleratorError, match="index out of range") as error:
        torch.openreg.synchronize()
    assert "aten::index_select(Float[3, 4], 0, Long[2])" in str(error.value)


def test_an_error_of_a_large_kernel_is_not_lost():
    """It may come at the call or later, but it comes."""
    x = torch.ones(1000, 1000, device=DEVICE)
    index = torch.full((1000,), 5000, device=DEVICE)

    def work() -> None:
        x.index_select(0, index)
        torch.openreg.synchronize()

    error = failure_of(work)
    assert isinstance(error, IndexError | torch.AcceleratorError)
    torch.openreg.synchronize()


def test_a_failure_on_another_stream_is_told_there(gate):
    x, index = (part.to(DEVICE) for part in data())
    torch.openreg.synchronize()
    side = torch.openreg.Stream()
    gate.hold(side)
    with torch.openreg.stream(side):
        x[index]
    gate.open()
    with pytest.raises(torch.AcceleratorError):
        side.synchronize()
    side.synchronize()


def test_assert_async_fails_later(gate, watch):
    condition = torch.zeros(1, dtype=torch.bool, device=DEVICE)
    gate.hold()
    assert watch.returns(lambda: torch._assert_async(condition))
    gate.open()
    with pytest.raises(torch.AcceleratorError):
        torch.openreg.synchronize()
    torch.openreg.synchronize()


# The other modes, each in a process of its own

PREFIX = """
    import torch
    x = torch.ones(3, 4, device="openreg")
    index = torch.tensor([1, 7], device="openreg")
    def outcome(call):
        try:
            call()
        except Exception as error:
            return type(error).__name__
        return "ok"
"""


def test_as_on_a_gpu_the_error_comes_late_and_stays():
    script = (
        PREFIX
        + """
    print(outcome(lambda: x[index]))
    print(outcome(torch.openreg.synchronize))
    print(outcome(torch.openreg.synchronize))
    print(outcome(lambda: (x + 1).cpu()))
    print(outcome(lambda: torch.ones(2) + 1))
    print(torch.openreg.device_count())
    """
    )
    assert run_script(script, env={"OPENREG_ERRORS": "gpu"}).split() == [
        "ok",
        "AcceleratorError",
        "AcceleratorError",
        "AcceleratorError",
        "ok",
        "2",
    ]


MESSAGE = """
    def message(call):
        try:
            call()
        except Exception as error:
            return f"{type(error).__name__}: {error}"
        return "ok"
"""

GPU = {"OPENREG_ERRORS": "gpu"}
BLOCKING = GPU | {"OPENREG_LAUNCH_BLOCKING": "1"}


def test_as_on_a_gpu_the_message_begins_as_cudas_and_says_what_was_wrong():
    script = (
        PREFIX
        + MESSAGE
        + """
    x[index]
    print(message(torch.openreg.synchronize))
    """
    )
    found = run_script(script, env=GPU)
    assert found.startswith(
        "AcceleratorError: OpenReg error: device-side assert triggered\n"
    )
    assert "IndexError: index 7 is out of bounds for dimension 0 with size 3" in found
    assert "in aten::index.Tensor(Float[3, 4], [Long[2]])" in found
    assert "OPENREG_LAUNCH_BLOCKING=1" in found


@pytest.mark.parametrize(
    "call",
    [
        "x[index]",
        "torch.ones(1000, 1000, device='openreg').index_select(0, index * 1000)",
        "torch._assert_async(torch.zeros(1, device='openreg'))",
    ],
)
def test_as_on_a_gpu_with_blocking_launches_the_call_raises(call):
    """It is the AcceleratorError that would come later, and breaks the device."""
    script = (
        PREFIX
        + MESSAGE
        + f"""
    print(message(lambda: {call}))
    print(outcome(torch.openreg.synchronize))
    print(outcome(lambda: x + 1))
    """
    )
    *told, sync, later = run_script(script, env=BLOCKING).splitlines()
    text = "\n".join(told)
    assert text.startswith(
        "AcceleratorError: OpenReg error: device-side assert triggered\n"
    )
    assert "in aten::" in text
    assert "OPENREG_LAUNCH_BLOCKING" not in text  # it is set, and the call is this one
    assert (sync, later) == ("AcceleratorError", "AcceleratorError")


# By name, an operator that the host waits for and whose data is wrong; the second
# warns before it fails.
WAITED = {
    "silent": "torch.bincount(torch.tensor([-1], device='openreg'))",
    "warned": "torch.cholesky(torch.ones(2, 2, device='openreg'))",
}


@pytest.mark.parametrize("env", [GPU, BLOCKING], ids=["asynchronous", "blocking"])
@pytest.mark.parametrize("name", WAITED)
def test_as_on_a_gpu_a_waited_operator_that_fails_breaks_the_device(name, env):
    script = (
        PREFIX
        + MESSAGE
        + f"""
    torch.set_warn_always(True)
    print(message(lambda: {WAITED[name]}).splitlines()[0])
    for _ in range(2):
        print(message(torch.openreg.synchronize).splitlines()[0])
    print(outcome(lambda: x + 1))
    torch.openreg.reset_device(0)
    print(torch.ones(2, device="openreg").tolist())
    """
    )
    call, first, second, launch, after = run_script(script, env=env).splitlines()
    assert "AcceleratorError" not in call
    assert "Error: " in call
    assert first == second
    assert first.endswith("OpenReg error: device-side assert triggered")
    assert launch == "AcceleratorError"
    assert after == "[1.0, 1.0]"


def test_as_on_a_gpu_a_failure_breaks_the_device_although_its_warning_is_an_error():
    script = (
        PREFIX
        + f"""
    import warnings
    warnings.simplefilter("error")
    torch.set_warn_always(True)
    print(outcome(lambda: {WAITED["warned"]}))
    print(outcome(torch.openreg.synchronize))
    """
    )
    assert run_script(script, env=GPU).split() == ["_LinAlgError", "AcceleratorError"]


@pytest.mark.filterwarnings("ignore:torch.cholesky is deprecated")
def test_a_failure_after_a_warning_is_told_once_and_names_no_call():
    """In the default mode: the exception is the CPU's, and the device goes on."""
    matrix = torch.ones(2, 2)
    expected = failure_of(lambda: torch.cholesky(matrix))
    on_device = matrix.to(DEVICE)
    for _ in range(2):
        found = failure_of(lambda: torch.cholesky(on_device))
        assert type(found) is type(expected)
        assert str(found) == str(expected)
    torch.openreg.synchronize()
    assert (on_device + 1).tolist() == [[2.0, 2.0], [2.0, 2.0]]


def test_division_of_integers_by_zero_is_an_error_in_both_modes():
    """CUDA's kernels find none; docs/differences.md has the reason."""
    script = (
        PREFIX
        + MESSAGE
        + """
    one, zero = (torch.tensor([n], device="openreg") for n in (1, 0))
    def work():
        one // zero
        torch.openreg.synchronize()
    print(message(work))
    """
    )
    assert "ZeroDivisionError" in run_script(script, env={})
    found = run_script(script, env=GPU)
    assert found.startswith("AcceleratorError")
    assert "ZeroDivisionError" in found


def test_as_on_a_gpu_shapes_are_still_checked_at_the_call():
    script = (
        PREFIX
        + """
    print(outcome(lambda: x + torch.ones(3, device="openreg")))
    print(outcome(lambda: x @ x))
    print(outcome(lambda: x + torch.ones(3, 4)))
    print(outcome(torch.openreg.synchronize))
    """
    )
    assert run_script(script, env={"OPENREG_ERRORS": "gpu"}).split() == [
        "RuntimeError",
        "RuntimeError",
        "RuntimeError",
        "ok",
    ]


def test_with_blocking_launches_the_call_raises_what_the_cpu_raises():
    script = (
        PREFIX
        + """
    large = torch.ones(1000, 1000, device="openreg")
    many = torch.full((1000,), 5000, device="openreg")
    print(outcome(lambda: x[index]))
    print(outcome(lambda: large.index_select(0, many)))
    y = large * 2
    print(torch.openreg.current_stream().query())
    """
    )
    found = run_script(script, env={"OPENREG_LAUNCH_BLOCKING": "1"}).split()
    assert found == ["IndexError", "IndexError", "True"]


@pytest.mark.parametrize(
    ("name", "value"), [("OPENREG_ERRORS", "soon"), ("OPENREG_LAUNCH_BLOCKING", "2")]
)
def test_a_bad_value_is_an_error_at_first_use_that_names_it(name, value):
    script = """
        import torch
        print("imported", torch.openreg.is_available())
        try:
            torch.ones(1, device="openreg")
        except Exception as error:
            print(error)
    """
    found = run_script(script, env={name: value})
    assert found.startswith("imported")
    assert name in found
    assert value in found
