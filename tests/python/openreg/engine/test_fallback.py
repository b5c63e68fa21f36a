"""Operators that run on the CPU, on copies: counted, reported, refused if strict."""

from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from compare import DEVICE, failure_of
from process import run_script
from torch import openreg

import torch_openreg

Tensor = torch.Tensor


@pytest.fixture(scope="module", autouse=True)
def _late_operators() -> None:
    """Operators that are registered after the backend, with kernels for the CPU."""
    torch_openreg._C._register_late_operators()


@pytest.fixture(autouse=True)
def _clean_report() -> Iterator[None]:
    openreg.reset_fallback_report()
    assert not openreg.is_strict()
    yield
    openreg.set_strict(False)
    openreg.reset_fallback_report()


def test_nothing_is_reported_where_nothing_fell_back():
    x = torch.ones(3, 4, device=DEVICE)
    (x @ x.t()).softmax(0).sum().item()
    x.nonzero()
    assert openreg.fallback_report() == ()
    assert str(openreg.fallback_report()) == "No operator has run on the CPU."
    assert openreg.engine_stats()["fallbacks"] == 0


def test_a_later_operator_falls_back_to_the_cpus_kernel():
    x = torch.arange(3.0, device=DEVICE)
    y = torch.ops.openreg_late.double(x)
    assert y.device == x.device
    assert y.tolist() == [0.0, 2.0, 4.0]
    assert x.tolist() == [0.0, 1.0, 2.0]


def test_a_fallback_in_place_changes_its_argument():
    x = torch.arange(3.0, device=DEVICE)
    assert torch.ops.openreg_late.double_(x) is x
    assert x.tolist() == [0.0, 2.0, 4.0]


def test_a_fallback_waits_for_the_work_before_it(gate, watch):
    x = torch.ones(3, device=DEVICE)
    gate.hold()
    x.add_(1)
    results: list[Tensor] = []
    assert watch.waits(lambda: results.append(torch.ops.openreg_late.double(x)))
    gate.open()
    watch.finish()
    assert results[0].tolist() == [4.0] * 3


def test_uses_are_counted_with_bytes_and_the_place_of_the_first():
    x = torch.ones(100, device=DEVICE)
    for _ in range(3):
        torch.ops.openreg_late.double(x)
    torch.ops.openreg_late.total([x, x])
    double, total = openreg.fallback_report()
    assert double.operator == "openreg_late::double"
    assert double.count == 3
    assert double.bytes == 3 * 400
    assert (total.operator, total.count) == ("openreg_late::total", 1)
    assert total.bytes == 800
    name, line = double.where.rsplit(":", 1)
    assert Path(name).name == "test_fallback.py"
    assert (
        "openreg_late.double(x)"
        in Path(__file__).read_text().splitlines()[int(line) - 1]
    )
    assert double.reason
    assert openreg.engine_stats()["fallbacks"] == 4


def test_the_report_is_a_table_with_the_most_frequent_first():
    x = torch.ones(100_000, device=DEVICE)
    torch.ops.openreg_late.total([x])
    for _ in range(2):
        torch.ops.openreg_late.double(x)
    head, rule, first, second = str(openreg.fallback_report()).splitlines()
    assert head.split()[:3] == ["operator", "count", "bytes"]
    assert set(rule) == {"-", " "}
    assert first.split()[:3] == ["openreg_late::double", "2", "800,000"]
    assert second.split()[:3] == ["openreg_late::total", "1", "400,000"]
    assert "test_fallback.py:" in first


def test_a_reset_forgets_the_uses():
    torch.ops.openreg_late.double(torch.ones(3, device=DEVICE))
    openreg.reset_fallback_report()
    assert openreg.fallback_report() == ()
    assert openreg.engine_stats()["fallbacks"] == 0


def test_an_earlier_report_does_not_change():
    x = torch.ones(3, device=DEVICE)
    torch.ops.openreg_late.double(x)
    report = openreg.fallback_report()
    torch.ops.openreg_late.double(x)
    assert report[0].count == 1
    with pytest.raises(AttributeError):
        report[0].count = 5


def test_a_kernel_that_fails_on_the_cpu_raises_its_error():
    with pytest.raises(ValueError, match="this kernel fails"):
        torch.ops.openreg_late.fail(torch.ones(3, device=DEVICE))


# Strict mode


def test_strict_mode_refuses_and_changes_nothing():
    x = torch.arange(3.0, device=DEVICE)
    with openreg.strict():
        assert openreg.is_strict()
        for call in (
            torch.ops.openreg_late.double,
            torch.ops.openreg_late.double_,
        ):
            with pytest.raises(NotImplementedError, match="openreg_late::double"):
                call(x)
        assert (x + 1).tolist() == [1.0, 2.0, 3.0]
    assert not openreg.is_strict()
    assert x.tolist() == [0.0, 1.0, 2.0]
    assert torch.ops.openreg_late.double(x).tolist() == [0.0, 2.0, 4.0]


def test_strict_blocks_nest_and_end_after_an_exception():
    with openreg.strict():
        with openreg.strict(False):
            assert not openreg.is_strict()
            torch.ops.openreg_late.double(torch.ones(1, device=DEVICE))
        assert openreg.is_strict()
    with pytest.raises(ZeroDivisionError), openreg.strict():
        raise ZeroDivisionError
    assert not openreg.is_strict()


def test_strict_mode_can_be_set_for_all_threads(watch):
    openreg.set_strict(True)
    assert openreg.is_strict()
    x = torch.ones(1, device=DEVICE)
    errors: list[Exception] = []
    assert watch.returns(
        lambda: errors.append(failure_of(lambda: torch.ops.openreg_late.double(x)))
    )
    assert type(errors[0]) is NotImplementedError
    openreg.set_strict(False)
    assert not openreg.is_strict()


def test_strict_mode_holds_for_backward():
    class Double(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 2

        @staticmethod
        def backward(ctx, gradient):
            return torch.ops.openreg_late.double(gradient)

    x = torch.ones(3, device=DEVICE, requires_grad=True)
    with openreg.strict(), pytest.raises(NotImplementedError):
        Double.apply(x).sum().backward()
    assert x.grad is None


STRICT_SCRIPT = """
    import torch, torch_openreg
    print("imported", torch.openreg.is_available())
    try:
        x = torch.ones(2, device="openreg") + 1
        torch_openreg._C._register_late_operators()
        print(torch.ops.openreg_late.double(x).tolist(), torch.openreg.is_strict())
    except Exception as error:
        print(type(error).__name__, error)
"""


@pytest.mark.parametrize("value", ["0", ""])
def test_the_environment_allows_fallbacks(value):
    found = run_script(STRICT_SCRIPT, env={"OPENREG_STRICT": value})
    assert found.splitlines() == ["imported True", "[4.0, 4.0] False"]


def test_the_environment_makes_the_mode_strict():
    found = run_script(STRICT_SCRIPT, env={"OPENREG_STRICT": "1"}).splitlines()
    assert found[0] == "imported True"
    assert found[1].startswith("NotImplementedError")
    assert "openreg_late::double" in found[1]


def test_a_bad_value_in_the_environment_is_an_error_at_first_use():
    found = run_script(STRICT_SCRIPT, env={"OPENREG_STRICT": "yes"}).splitlines()
    assert found[0] == "imported True"
    assert found[1].startswith("AcceleratorError OpenReg error: ")
    assert found[2] == "OPENREG_STRICT='yes' is not valid: expected 0 or 1"
