"""Storages, typed and untyped, are read, written, resized and shared as on the CPU."""

import copy
import pickle

import pytest
import torch
from compare import DEVICE
from observe import assert_same_behaviour


def ones(device: str, dtype: torch.dtype = torch.float) -> torch.Tensor:
    return torch.ones(3, device=device, dtype=dtype)


def written(x: torch.Tensor, write: object) -> torch.Tensor:
    """``x`` after ``write`` of its untyped storage."""
    write(x.untyped_storage())
    return x


UNTYPED = {
    "bytes": lambda d: list(ones(d).untyped_storage()),
    "one byte": lambda d: ones(d).untyped_storage()[3],
    "some bytes": lambda d: ones(d).untyped_storage()[2:4].tolist(),
    "sizes": lambda d: (lambda s: (len(s), s.nbytes(), s.size(), s.element_size()))(
        ones(d).untyped_storage()
    ),
    "write": lambda d: written(ones(d), lambda s: s.__setitem__(3, 0)),
    "fill": lambda d: written(ones(d), lambda s: s.fill_(0)),
    "copy": lambda d: written(
        ones(d), lambda s: s.copy_(torch.zeros(3).untyped_storage())
    ),
    "byteswap": lambda d: written(ones(d), lambda s: s.byteswap(torch.float)),
    "grow": lambda d: written(ones(d), lambda s: s.resize_(32)),
    "clone": lambda d: list(ones(d).untyped_storage().clone()),
    "new": lambda d: [
        torch.UntypedStorage(*arguments, device=d).nbytes()
        for arguments in ((), (0,), (100,), ([1, 2, 3],))
    ],
    "identity": lambda d: (lambda x: x[1:].untyped_storage()._cdata)(ones(d)) != 0,
}


@pytest.mark.parametrize("name", UNTYPED)
def test_untyped_storages_are_as_on_the_cpu(name):
    assert_same_behaviour(UNTYPED[name])


TYPED = {
    "elements": lambda d: ones(d).storage().tolist(),
    "one": lambda d: ones(d).storage()[1],
    "write": lambda d: (lambda x: (x.storage().__setitem__(1, 5.0), x))(ones(d)),
    "resize": lambda d: (lambda s: (s.resize_(5), len(s))[1])(ones(d).storage()),
    "deepcopy": lambda d: copy.deepcopy(ones(d).storage()).tolist(),
    "pickle": lambda d: pickle.loads(pickle.dumps(ones(d).storage())).tolist(),
    "half": lambda d: ones(d).storage().half().tolist(),
    "a tensor of it": lambda d: torch.tensor(ones(d).storage(), device=d),
    "of another dtype": lambda d: torch.tensor([], device=d).set_(
        ones(d, torch.int).storage()
    ),
    "set": lambda d: torch.tensor([], device=d).set_(ones(d).storage(), 1, (2,), (1,)),
}


@pytest.mark.parametrize("name", TYPED)
def test_typed_storages_are_as_on_the_cpu(name):
    assert_same_behaviour(TYPED[name])


@pytest.mark.parametrize("name", torch.openreg.storage.__all__)
def test_every_class_of_typed_storages_makes_and_knows_its_own(name):
    kind, on_host = getattr(torch.openreg, name), getattr(torch, name)
    made = kind([0, 1, 1])
    assert made.device.type == DEVICE
    assert made.dtype == kind.dtype == on_host.dtype
    assert made.tolist() == on_host([0, 1, 1]).tolist()
    assert isinstance(made, kind)
    assert not isinstance(made, on_host)
    assert not isinstance(on_host(3), kind)
    assert made.type() == f"torch.openreg.{name}"


def test_the_class_of_a_storage_is_that_of_the_device_and_equals_the_hosts():
    found = ones(DEVICE).storage_type()
    assert found is torch.openreg.FloatStorage
    assert found == torch.FloatStorage
    assert hash(found) == hash(torch.FloatStorage)
    assert found != torch.openreg.IntStorage
    with pytest.raises(RuntimeError, match="Not available for OpenReg storage"):
        torch.openreg.FloatStorage.from_buffer(b"1234")


def test_views_share_a_storage_that_counts_its_users():
    def program(device):
        x = torch.zeros(4, device=device)
        first = torch._C._storage_Use_Count(x.untyped_storage()._cdata)
        view = x.view(2, 2)
        return first, torch._C._storage_Use_Count(view.untyped_storage()._cdata)

    first, second = assert_same_behaviour(program)["result"]
    assert second == first + 1


@pytest.mark.parametrize("bytes_left", [0, 4])
@pytest.mark.parametrize("is_known", [False, True])
def test_a_tensor_that_lost_its_memory_is_refused_and_the_device_goes_on(
    bytes_left, is_known
):
    shape = (3, 2 + bytes_left, 1 + is_known)  # of no other test
    if is_known:
        torch.ones(shape, device=DEVICE).add(1)
    x = torch.ones(shape, device=DEVICE)
    x.untyped_storage().resize_(bytes_left)
    with pytest.raises(RuntimeError, match="storage"):
        x.add(1)
    with pytest.raises(RuntimeError):
        x.add_(1)
    assert ones(DEVICE).add(1).tolist() == [2.0] * 3


def test_tensors_that_are_set_to_each_other_are_found():
    def program(device):
        x, y = torch.ones(2, device=device), torch.zeros(3, device=device)
        x.set_(y)
        return x.is_set_to(y), y.is_set_to(x), x.is_set_to(y[1:]), x.is_set_to(y + 0)

    assert assert_same_behaviour(program)["result"] == [True, True, False, False]
