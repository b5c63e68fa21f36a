"""Storages, and tensors that get another size, storage or data."""

import gc

import pytest
import torch

FLOATS = [0, 0, 128, 63, 0, 0, 0, 64]  # 1.0 and 2.0


def example(device="openreg:0"):
    return torch.tensor([1.0, 2.0], device=device)


# Storages


@pytest.mark.parametrize("target", ["cpu", "openreg:0", "openreg:1"])
@pytest.mark.parametrize("source", ["cpu", "openreg:0", "openreg:1"])
def test_storages_are_copied_in_every_direction(source, target):
    storage = torch.UntypedStorage(8, device=target)
    assert storage.copy_(example(source).untyped_storage()) is storage
    assert storage.tolist() == FLOATS


def test_storages_of_other_sizes_are_not_copied():
    with pytest.raises(RuntimeError, match="size does not match"):
        torch.UntypedStorage(4, device="openreg").copy_(example().untyped_storage())


def test_storage_without_bytes_is_copied():
    empty = torch.UntypedStorage(0, device="openreg")
    assert empty.copy_(torch.UntypedStorage(0)).nbytes() == 0
    assert empty.cpu().tolist() == []


def test_clone_of_a_storage_has_its_own_memory():
    storage = example().untyped_storage()
    cloned = storage.clone()
    cloned.fill_(0)
    assert str(cloned.device) == "openreg:0"
    assert storage.tolist() == FLOATS


@pytest.mark.filterwarnings("ignore:TypedStorage is deprecated:UserWarning")
def test_typed_storage_is_on_the_device():
    storage = example("openreg:1").storage()
    assert str(storage.device) == "openreg:1"
    assert storage.is_openreg
    assert storage.tolist() == [1.0, 2.0]
    assert storage[1] == 2.0
    assert example("cpu").storage().openreg(1).tolist() == [1.0, 2.0]


# Storages that change their size


def test_storage_grows_and_keeps_its_bytes():
    x = example()
    storage = x.untyped_storage()
    storage.resize_(4096)
    assert storage.nbytes() == 4096
    assert x.tolist() == [1.0, 2.0]


def test_storage_shrinks_and_keeps_what_fits():
    x = torch.arange(100.0, device="openreg:1")
    x.untyped_storage().resize_(8)
    assert x[:2].tolist() == [0.0, 1.0]


def test_storage_of_size_0_gives_its_memory_back():
    """So sharded training frees what it can gather again."""
    x = torch.ones(1 << 20, device="openreg")
    torch.openreg.synchronize()
    before = torch.openreg.memory_allocated()
    x.untyped_storage().resize_(0)
    assert torch.openreg.memory_allocated() == before - x.nbytes
    x.untyped_storage().resize_(x.nbytes)
    assert torch.openreg.memory_allocated() == before
    assert x.fill_(2.0)[-1].item() == 2.0


def test_memory_that_was_given_back_cannot_be_read():
    x = example()
    x.untyped_storage().resize_(0)
    with pytest.raises(RuntimeError):
        x.cpu()


def test_resizing_a_storage_does_not_wait(gate, watch):
    """The bytes are kept in the order of the stream."""
    x, late = torch.zeros(2, device="openreg"), example()
    torch.openreg.synchronize()
    gate.hold()
    x.copy_(late)
    assert watch.returns(lambda: x.untyped_storage().resize_(1024))
    gate.open()
    assert x.tolist() == [1.0, 2.0]


# Tensors that change their size


def resized(device, size, **options):
    """What is left of 24 numbers, and how they lie."""
    x = torch.arange(24.0, device=device).view(2, 3, 4).resize_(size, **options)
    kept = x.as_strided((min(24, x.numel()),), (1,)).tolist()
    return kept, x.shape, x.stride(), x.untyped_storage().nbytes()


@pytest.mark.parametrize(
    "size", [(), (0,), (1,), (2,), (24,), (4, 6), (10, 10), (5, 0, 3)], ids=str
)
def test_resize_does_what_the_cpu_does(size):
    assert resized("openreg", size) == resized("cpu", size)


def test_resize_to_a_memory_format():
    options = {"memory_format": torch.channels_last}
    size = (2, 3, 4, 5)
    assert resized("openreg", size, **options) == resized("cpu", size, **options)


def test_resize_down_and_up_again_keeps_the_numbers():
    x = torch.arange(10.0, device="openreg")
    place = x.data_ptr()
    x.resize_(2)
    assert x.tolist() == [0.0, 1.0]
    x.resize_(10)
    assert x.tolist() == list(range(10))
    assert x.data_ptr() == place


def test_resize_of_a_view_moves_the_storage_of_all():
    x = torch.arange(10.0, device="openreg")
    view = x[4:]
    view.resize_(1000)
    assert x.untyped_storage().nbytes() == 4016
    assert x.tolist() == list(range(10))
    assert view[:6].tolist() == [4.0, 5.0, 6.0, 7.0, 8.0, 9.0]


@pytest.mark.parametrize("size", [(-1,), (2**62,), (2**40, 2**40)], ids=str)
def test_impossible_sizes_are_refused_and_the_tensor_stays(size):
    x = example()
    with pytest.raises(RuntimeError):
        x.resize_(size)
    assert x.tolist() == [1.0, 2.0]


def test_size_that_no_memory_serves_is_refused_and_the_tensor_stays():
    x = example()
    with pytest.raises(torch.OutOfMemoryError):
        x.resize_(1 << 50)
    assert x.shape == (2,)
    assert x.tolist() == [1.0, 2.0]


def test_resize_of_a_tensor_with_a_gradient_is_refused():
    with pytest.raises(RuntimeError, match="resize variables that require grad"):
        torch.ones(2, device="openreg", requires_grad=True).resize_(3)


# Tensors that get another storage


def test_set_shares_the_storage():
    x, y = torch.arange(6.0, device="openreg"), torch.empty(0, device="openreg")
    assert y.set_(x).data_ptr() == x.data_ptr()
    assert y.is_set_to(x)
    y.set_(x.untyped_storage())
    assert y.tolist() == x.tolist()
    y.set_(x.untyped_storage(), 1, (2, 2), (3, 1))
    assert y.tolist() == [[1.0, 2.0], [4.0, 5.0]]
    assert not y.is_set_to(x)


def test_set_without_a_source_gives_an_empty_tensor():
    x = example()
    assert x.set_().shape == (0,)
    assert x.untyped_storage().nbytes() == 0
    assert str(x.device) == "openreg:0"


def test_set_beyond_the_storage_makes_it_larger():
    x = example()
    y = torch.empty(0, device="openreg").set_(x.untyped_storage(), 0, (100,), (1,))
    assert x.untyped_storage().nbytes() == 400
    assert y[:2].tolist() == [1.0, 2.0]
    assert x.tolist() == [1.0, 2.0]


@pytest.mark.parametrize(
    "view",
    [
        (-1, (2,), (1,)),
        (0, (2, 2), (1,)),
        (0, (2, 2), (-3, 1)),
        (0, (2, 2), (2**62, 1)),
        (2**62, (2,), (1,)),
    ],
    ids=str,
)
def test_set_refuses_what_the_cpu_refuses(view):
    with pytest.raises(RuntimeError) as expected:
        torch.empty(0).set_(example("cpu").untyped_storage(), *view)
    with pytest.raises(RuntimeError) as found:
        torch.empty(0, device="openreg").set_(example().untyped_storage(), *view)
    assert str(found.value) == str(expected.value)


@pytest.mark.parametrize("source", ["cpu", "openreg:1"])
def test_set_takes_no_storage_of_another_device(source):
    with pytest.raises(RuntimeError, match="the devices must match"):
        torch.empty(0, device="openreg:0").set_(example(source).untyped_storage())
    with pytest.raises(RuntimeError, match="the devices must match"):
        torch.empty(0, device=source).set_(example("openreg:0").untyped_storage())


# Tensors that get other data


def test_data_of_a_parameter_may_come_from_the_device_and_from_the_host():
    parameter = torch.nn.Parameter(torch.ones(2))
    moved = example("openreg:1")
    parameter.data = moved
    assert parameter.device == moved.device
    assert parameter.data_ptr() == moved.data_ptr()
    parameter.data = torch.zeros(3)
    assert parameter.device.type == "cpu"
    assert parameter.tolist() == [0.0] * 3
    assert parameter.requires_grad


def test_host_and_device_tensors_are_compatible_for_that():
    host, device = torch.ones(1), example()
    assert torch._has_compatible_shallow_copy_type(host, device)
    assert torch._has_compatible_shallow_copy_type(device, host)
    assert torch._has_compatible_shallow_copy_type(device, example("openreg:1"))


def test_parameters_of_a_module_keep_their_identity_when_it_moves():
    module = torch.nn.Linear(2, 2)
    before = list(module.parameters())
    module.to("openreg")
    assert all(a is b for a, b in zip(before, module.parameters(), strict=True))
    module.to("openreg:1").cpu()
    assert all(a is b for a, b in zip(before, module.parameters(), strict=True))


def test_memory_of_replaced_data_is_freed():
    parameter = torch.nn.Parameter(torch.ones(1 << 20, device="openreg"))
    torch.openreg.synchronize()
    before = torch.openreg.memory_allocated()
    parameter.data = torch.zeros(0)
    gc.collect()
    assert torch.openreg.memory_allocated() == before - (4 << 20)
