"""Settings of the process hold for the calls made under them, queued or not."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest
import torch
from compare import DEVICE, assert_same, numbers, threads
from torch.nn import functional

Tensor = torch.Tensor


@contextmanager
def kept_settings() -> Iterator[None]:
    """Restores all settings that these tests change."""
    before = (
        torch.get_default_dtype(),
        torch.are_deterministic_algorithms_enabled(),
        torch.is_deterministic_algorithms_warn_only_enabled(),
        torch.utils.deterministic.fill_uninitialized_memory,
        torch.get_num_threads(),
        torch.get_float32_matmul_precision(),
        torch.backends.mkldnn.is_available() and torch.backends.mkldnn.enabled,
        torch.backends.quantized.engine,
    )
    try:
        yield
    finally:
        torch.set_default_dtype(before[0])
        torch.use_deterministic_algorithms(before[1], warn_only=before[2])
        torch.utils.deterministic.fill_uninitialized_memory = before[3]
        torch.set_num_threads(before[4])
        torch.set_float32_matmul_precision(before[5])
        torch._C._set_mkldnn_enabled(before[6])
        torch.backends.quantized.engine = before[7]
        torch.set_flush_denormal(False)


@pytest.fixture(autouse=True)
def _settings(watch) -> Iterator[None]:
    """Around the gate and what waits for it, which must end first."""
    with kept_settings():
        yield


SETTERS: dict[str, Callable[[], object]] = {
    "default dtype": lambda: torch.set_default_dtype(torch.float64),
    "deterministic mode": lambda: torch.use_deterministic_algorithms(True),
    "deterministic warnings": lambda: torch.use_deterministic_algorithms(
        True, warn_only=True
    ),
    "fill": lambda: setattr(
        torch.utils.deterministic, "fill_uninitialized_memory", False
    ),
    "threads": lambda: torch.set_num_threads(1),
    "matmul precision": lambda: torch.set_float32_matmul_precision("medium"),
    "mkldnn": lambda: torch.backends.mkldnn.set_flags(False),
}


@pytest.mark.parametrize("name", SETTERS)
def test_a_setting_waits_for_queued_work(gate, watch, name):
    """The kernels are the CPU's and would read the new value."""
    x = torch.ones(4, device=DEVICE)
    gate.hold()
    y = x + 1
    assert watch.waits(SETTERS[name])
    gate.open()
    watch.finish()
    assert y.tolist() == [2.0] * 4


@pytest.mark.parametrize("name", SETTERS)
def test_a_setting_waits_for_the_side_streams_of_all_devices(gate, watch, name):
    stream = torch.openreg.Stream("openreg:1")
    gate.hold(stream)
    assert watch.waits(SETTERS[name])
    gate.open()
    watch.finish()


@pytest.mark.parametrize("name", SETTERS)
def test_a_setting_returns_when_nothing_is_queued(watch, name):
    torch.ones(4, device=DEVICE)
    torch.openreg.synchronize()
    assert watch.returns(SETTERS[name])


# The same program gives the same on both


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.float16])
def test_the_default_dtype_is_that_of_the_call(dtype):
    def program(device: str) -> list[Tensor]:
        i = torch.arange(3, device=device)
        return [
            torch.ones(3, device=device),
            torch.arange(3.0, device=device),
            torch.full((2,), 1.5, device=device),
            torch.linspace(0, 1, 3, device=device),
            torch.tensor([1.5], device=device),
            torch.scalar_tensor(2.5, device=device),
            torch.eye(2, device=device),
            i / 2,
            i + 1.5,
            i.sqrt(),
            torch.where(i > 1, 1.0, 2.0),
            torch.complex(torch.ones(2, device=device), torch.ones(2, device=device))
            if dtype != torch.float16
            else i,
        ]

    first = program(DEVICE)
    torch.set_default_dtype(dtype)
    assert_same(program(DEVICE), program("cpu"))
    torch.set_default_dtype(torch.float32)
    assert_same(program(DEVICE), program("cpu"))
    assert [x.dtype for x in first] == [x.dtype for x in program("cpu")]


def test_the_default_dtype_changes_while_work_is_queued(gate, watch):
    i = torch.arange(3, device=DEVICE)
    gate.hold()
    before = i / 2
    assert watch.waits(lambda: torch.set_default_dtype(torch.float64))
    gate.open()
    watch.finish()
    after = i / 2
    assert before.dtype == torch.float32
    assert after.dtype == torch.float64
    assert before.tolist() == after.tolist() == [0.0, 0.5, 1.0]


def test_deterministic_mode_refuses_what_the_cpu_refuses():
    """And allows it again when it is left."""
    x = numbers(4).to(DEVICE)
    index = torch.tensor([0, 0, 1, 2], device=DEVICE)
    for _ in range(2):
        torch.use_deterministic_algorithms(False)
        x.clone().put_(index, x)
        torch.use_deterministic_algorithms(True)
        with pytest.raises(RuntimeError, match="deterministic"):
            torch.ones(4).put_(index.cpu(), torch.ones(4))
        with pytest.raises(RuntimeError, match="deterministic"):
            x.clone().put_(index, x)


def test_deterministic_mode_fills_new_memory_as_on_the_cpu():
    torch.use_deterministic_algorithms(True)
    for make in (
        lambda d: torch.empty(5, device=d),
        lambda d: torch.empty(5, dtype=torch.int32, device=d),
        lambda d: torch.ones(2, device=d).resize_(5),
        lambda d: torch.empty_strided((2, 2), (2, 1), device=d),
        lambda d: torch.empty_like(torch.ones(3, device=d)),
        lambda d: torch.ones(3, device=d).new_empty(4),
    ):
        assert_same(make(DEVICE), make("cpu"))


def test_deterministic_mode_accumulates_in_order():
    torch.use_deterministic_algorithms(True)
    index = torch.arange(1000) % 3
    values = numbers(1000)

    def program(device: str) -> Tensor:
        return torch.zeros(3, device=device).index_put_(
            (index.to(device),), values.to(device), accumulate=True
        )

    assert_same(program(DEVICE), program("cpu"))


@pytest.mark.parametrize("count", [1, 2])
def test_kernels_use_the_callers_number_of_threads(count):
    """Sums over many numbers differ by how they are split."""
    x = numbers(300_000)
    with threads(count):
        expected = [x.sum(), x.view(3, -1).sum(1), x.var()]
        ours = x.to(DEVICE)
        assert_same([ours.sum(), ours.view(3, -1).sum(1), ours.var()], expected)


@pytest.mark.parametrize("precision", ["highest", "high", "medium"])
def test_the_matmul_precision_is_that_of_the_call(precision):
    x, y = numbers(64, 64), numbers(64, 64)
    torch.set_float32_matmul_precision(precision)
    assert_same(x.to(DEVICE) @ y.to(DEVICE), x @ y)
    torch.set_float32_matmul_precision("highest")
    assert_same(x.to(DEVICE) @ y.to(DEVICE), x @ y)


@pytest.mark.usefixtures("one_thread")
def test_convolution_follows_the_mkldnn_flag():
    x, w = numbers(2, 3, 9, 9), numbers(4, 3, 3, 3)
    results = []
    for enabled in (True, False, True):
        with torch.backends.mkldnn.flags(enabled=enabled):
            found = functional.conv2d(x.to(DEVICE), w.to(DEVICE))
            assert_same(found, functional.conv2d(x, w))
            results.append(found.cpu())
    assert torch.equal(results[0], results[2])


def test_denormal_numbers_are_flushed_as_the_calling_thread_says():
    x = torch.tensor([1e-40, 1.0])
    ours = x.to(DEVICE)
    if not torch.set_flush_denormal(True):
        pytest.fail("this CPU cannot flush denormal numbers")
    assert_same(ours * 1, x * 1)
    assert (ours * 1)[0].item() == 0.0
    torch.set_flush_denormal(False)
    assert_same(ours * 1, x * 1)
    assert (ours * 1)[0].item() != 0.0


def test_denormal_numbers_behind_a_held_stream(gate):
    """Each kernel runs as at its call, whichever thread runs it."""
    x = torch.tensor([1e-40], device=DEVICE)
    gate.hold()
    kept = x * 1
    torch.set_flush_denormal(True)
    flushed = x * 1
    torch.set_flush_denormal(False)
    kept_again = x * 1
    gate.open()
    bits = [y.view(torch.int32).item() != 0 for y in (kept, flushed, kept_again)]
    assert bits == [True, False, True]


@pytest.mark.parametrize("engine", torch.backends.quantized.supported_engines)
def test_quantized_operators_use_the_engine_of_the_call(engine):
    """A layer that was packed for one engine runs with that one alone."""
    x = torch.quantize_per_tensor(numbers(3, 4).abs(), 0.1, 0, torch.quint8)
    ours = x.to(DEVICE)
    torch.backends.quantized.engine = engine
    found = torch.ops.quantized.add(ours, ours, 0.2, 3)
    torch.backends.quantized.engine = "x86"
    assert torch.equal(
        found.int_repr().cpu(), torch.ops.quantized.add(x, x, 0.2, 3).int_repr()
    )


def test_a_copy_that_converts_flushes_denormal_numbers_as_the_call_says():
    x = torch.tensor([1e-40, 1.0])
    ours = x.to(DEVICE)
    if not torch.set_flush_denormal(True):
        pytest.fail("this CPU cannot flush denormal numbers")
    flushed = ours.to(torch.float64)
    torch.set_flush_denormal(False)
    kept = ours.to(torch.float64)
    assert [flushed[0].item() == 0, kept[0].item() == 0] == [True, False]


# Modes of the thread


def test_inference_mode_and_no_grad_hold_for_results():
    x = torch.ones(3, device=DEVICE, requires_grad=True)
    with torch.inference_mode():
        y = x * 2
        assert y.is_inference()
    assert not y.requires_grad
    with torch.no_grad():
        assert not (x * 2).requires_grad
    assert (x * 2).requires_grad
