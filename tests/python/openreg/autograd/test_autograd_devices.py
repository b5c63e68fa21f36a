"""Autograd's threads, devices and streams."""

import threading
from pathlib import Path

import pytest
import torch

DEVICES = ["openreg:0", "openreg:1"]


def thread_names():
    """The names of this process's threads, as the system knows them."""
    return {path.read_text().strip() for path in Path("/proc/self/task").glob("*/comm")}


def backward_on(device, look):
    """Return what ``look`` returns inside the backward of a node of ``device``."""
    seen = []

    class Node(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x.clone()

        @staticmethod
        def backward(ctx, grad):
            seen.append(look())
            return grad

    leaf = torch.ones(2, device=device, requires_grad=True)
    Node.apply(leaf).sum().backward()
    assert leaf.grad.tolist() == [1.0, 1.0]
    return seen[0]


@pytest.mark.parametrize("device", DEVICES)
def test_backward_of_a_device_runs_on_a_thread_of_its_own(device):
    assert backward_on(device, threading.get_native_id) != threading.get_native_id()


def test_backward_of_each_device_has_its_own_thread():
    first, second = (backward_on(device, threading.get_native_id) for device in DEVICES)
    assert first != second
    assert backward_on(DEVICES[0], threading.get_native_id) == first


def test_autograd_threads_carry_the_names_of_their_devices():
    backward_on("openreg:0", lambda: None)
    assert {"pt_autograd_0", "pt_autograd_1"} <= thread_names()


def test_backward_of_the_host_stays_on_the_calling_thread():
    assert backward_on("cpu", threading.get_native_id) == threading.get_native_id()


@pytest.mark.parametrize("device", DEVICES)
def test_device_is_current_inside_its_backward(device):
    index = torch.device(device).index
    assert backward_on(device, torch.openreg.current_device) == index
    assert torch.openreg.current_device() == 0


@pytest.mark.parametrize("device", DEVICES)
def test_backward_runs_on_the_stream_of_the_forward(device):
    stream = torch.Stream(device)
    seen = []
    with torch.openreg.stream(stream):
        leaf = torch.ones(2, device=device, requires_grad=True)
        x = leaf * 2
        x.register_hook(lambda grad: seen.append(torch.openreg.current_stream(device)))
        x.sum().backward()
    stream.synchronize()
    assert seen == [stream]
    assert leaf.grad.tolist() == [2.0, 2.0]


def test_gradients_are_where_their_leaves_are():
    leaves = [
        torch.ones(2, device=device, requires_grad=True) for device in ("cpu", *DEVICES)
    ]
    total = sum(leaf.to("openreg:1") * 3 for leaf in leaves)
    total.to("openreg:0").sum().backward()
    for leaf in leaves:
        assert leaf.grad.device == leaf.device
        assert leaf.grad.tolist() == [3.0, 3.0]


def test_gradient_crosses_devices_in_stream_order(gate):
    """The backward copy waits for the gradient that another device still computes."""
    leaf = torch.ones(4, device="openreg:0", requires_grad=True)
    there = leaf.to("openreg:1")
    source = torch.full((4,), 5.0, device="openreg:1")
    gradient = torch.zeros(4, device="openreg:1")
    gate.hold(torch.openreg.default_stream(1))
    with torch.openreg.device(1):
        gradient.copy_(source)
    (result,) = torch.autograd.grad(there, leaf, gradient)
    assert not torch.openreg.default_stream(0).query()
    gate.open()
    assert result.tolist() == [5.0] * 4


def test_copy_is_differentiable_in_every_direction():
    for source, target in [("cpu", DEVICES[0]), (DEVICES[0], "cpu"), DEVICES]:
        leaf = torch.arange(4.0, dtype=torch.float64, device=source, requires_grad=True)
        out = torch.zeros(4, dtype=torch.float32, device=target).copy_(leaf * 2)
        assert str(out.device) == target
        out.sum().backward()
        assert leaf.grad.dtype == torch.float64
        assert str(leaf.grad.device) == source
        assert leaf.grad.tolist() == [2.0] * 4


def test_error_in_a_backward_reaches_the_caller():
    def fail():
        raise ValueError("in backward")

    with pytest.raises(ValueError, match="in backward"):
        backward_on("openreg:1", fail)
    assert backward_on("openreg:1", torch.openreg.current_device) == 1


def test_backward_from_several_threads():
    results = {}

    def train(device):
        leaf = torch.ones(8, device=device, requires_grad=True)
        for _ in range(20):
            (leaf * 2).sum().backward()
        results[device] = leaf.grad.tolist()

    threads = [threading.Thread(target=train, args=(device,)) for device in DEVICES]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=60)
    assert results == {device: [40.0] * 8 for device in DEVICES}


def test_gradient_of_another_device_is_refused():
    parameter = torch.nn.Parameter(torch.ones(2, device="openreg:0"))
    with pytest.raises(RuntimeError, match="attempting to assign a gradient"):
        parameter.grad = torch.ones(2)
    with pytest.raises(RuntimeError, match="attempting to assign a gradient"):
        parameter.grad = torch.ones(2, device="openreg:1")
