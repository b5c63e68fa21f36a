"""Tensors that are pickled, copied or shared, and the storages behind them."""

import copy
import functools
import pickle
import types
from collections import OrderedDict, defaultdict, deque, namedtuple
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass

import pytest
import torch
from torch import multiprocessing, nn, serialization

VALUES = [1.0, 2.0, 3.0]


def make(device: str = "openreg:1") -> torch.Tensor:
    return torch.tensor(VALUES, device=device)


def repickle(value: object) -> object:
    return pickle.loads(pickle.dumps(value))


# Pickle and copy


@pytest.mark.parametrize("duplicate", [repickle, copy.deepcopy])
def test_a_pickled_or_copied_tensor_is_another_one_on_the_same_device(duplicate):
    tensor = make()
    twin = duplicate(tensor)
    assert twin.device == tensor.device
    assert twin.data_ptr() != tensor.data_ptr()
    tensor.zero_()
    assert twin.tolist() == VALUES


@pytest.mark.parametrize("duplicate", [repickle, copy.deepcopy])
def test_a_pickled_or_copied_model_is_another_one_on_the_same_device(duplicate):
    model = nn.Linear(2, 2, device="openreg:1")
    model.weight.grad = torch.ones_like(model.weight)
    twin = duplicate(model)
    assert twin.weight.device == model.weight.device
    assert twin.weight.data_ptr() != model.weight.data_ptr()
    assert torch.equal(twin.weight, model.weight)


def test_a_deep_copy_keeps_gradient_and_shared_memory():
    base = make().requires_grad_()
    base.grad = make()
    twin = copy.deepcopy(base)
    assert twin.grad.tolist() == VALUES
    assert twin.grad.data_ptr() != base.grad.data_ptr()
    whole = make()
    whole_twin, part_twin = copy.deepcopy([whole, whole[1:]])
    assert part_twin.data_ptr() - whole_twin.data_ptr() == 4


def test_a_shallow_copy_has_the_same_memory():
    tensor = make()
    assert copy.copy(tensor).data_ptr() == tensor.data_ptr()


def test_a_deep_copy_of_a_storage_is_another_one_on_the_same_device():
    storage = make().untyped_storage()
    twin = copy.deepcopy(storage)
    assert (twin.device, twin.nbytes()) == (storage.device, storage.nbytes())
    assert twin.data_ptr() != storage.data_ptr()
    assert twin.tolist() == storage.tolist()


# Sharing: device memory always counts as shared


def test_a_tensor_on_the_device_is_shared_and_stays_what_it_is():
    tensor = make()
    pointer = tensor.data_ptr()
    assert tensor.is_shared()
    assert tensor.share_memory_() is tensor
    assert tensor.is_shared()
    assert (str(tensor.device), tensor.data_ptr()) == ("openreg:1", pointer)
    assert tensor.tolist() == VALUES


@pytest.mark.filterwarnings("ignore:TypedStorage is deprecated")
@pytest.mark.parametrize("kind", ["untyped_storage", "storage"])
def test_a_storage_on_the_device_is_shared_and_stays_what_it_is(kind):
    storage = getattr(make(), kind)()
    assert storage.is_shared()
    pointer = storage.data_ptr()
    storage.share_memory_()
    assert storage.is_shared()
    assert (str(storage.device), storage.data_ptr()) == ("openreg:1", pointer)


def test_a_model_is_shared_where_it_is():
    model = nn.Linear(2, 2, device="openreg")
    assert model.share_memory() is model
    assert model.weight.is_openreg
    assert model.weight.is_shared()


def test_host_memory_is_shared_when_it_is_asked_for():
    tensor = torch.ones(2)
    assert not tensor.is_shared()
    assert tensor.share_memory_().is_shared()
    assert not torch.ones(2).pin_memory().is_shared()


# Sending: refused where it is sent


class Holder:
    """Something with a tensor inside."""

    def __init__(self, tensor: torch.Tensor) -> None:
        self.tensor = tensor

    def use(self) -> torch.Tensor:
        """Return it."""
        return self.tensor


class Slotted:
    """Something with a tensor in a slot; the name of the slot is mangled."""

    __slots__ = ("__tensor",)

    def __init__(self, tensor: torch.Tensor) -> None:
        self.__tensor = tensor


class SlottedChild(Slotted):
    """Has slots of a base class, one of its own that is not set, and attributes."""

    __slots__ = ("__dict__", "unset")


@dataclass(slots=True)
class SlottedData:
    """A dataclass without a ``__dict__``."""

    tensor: torch.Tensor


@dataclass(frozen=True, slots=True)
class FrozenData:
    """A dataclass for which Python writes a ``__getstate__``."""

    tensor: torch.Tensor


class Batch(dict):
    """A dictionary with attributes."""

    def __init__(self, tensor: torch.Tensor) -> None:
        super().__init__(x=1)
        self.tensor = tensor


class OwnError(Exception):
    """An error that tells about a tensor."""


Named = namedtuple("Named", ["tensor"])


def make_recursive() -> list[object]:
    values: list[object] = [make("cpu")]
    values.append(values)
    values.append(make())
    return values


SENT = {
    "a tensor": make,
    "a parameter": lambda: nn.Parameter(make()),
    "an empty tensor": lambda: torch.empty(0, device="openreg"),
    "a sparse tensor": lambda: make().to_sparse(),
    "a storage": lambda: make().untyped_storage(),
    "a batch": lambda: (0, {"x": [make("cpu"), make()]}),
    "a model": lambda: nn.Linear(2, 2, device="openreg"),
    "an object": lambda: Holder(make()),
    "an object with a slot": lambda: Slotted(make()),
    "an object with a slot of its base class": lambda: SlottedChild(make()),
    "a dataclass with slots": lambda: SlottedData(make()),
    "a frozen dataclass with slots": lambda: FrozenData(make()),
    "a namespace": lambda: types.SimpleNamespace(tensor=make()),
    "an error": lambda: OwnError("of a device", make()),
    "a deque": lambda: deque([make("cpu"), make()], maxlen=2),
    "a frozen set": lambda: frozenset([make()]),
    "a named tuple": lambda: Named(make()),
    "an ordered dictionary": lambda: OrderedDict(x=make()),
    "a dictionary with a default": lambda: defaultdict(list, x=[make()]),
    "a dictionary with attributes": lambda: Batch(make()),
    "a method": lambda: Holder(make()).use,
    "a method of a tensor": lambda: make().sum,
    "a partial function": lambda: functools.partial(print, make()),
    "a list in itself": make_recursive,
}
REFUSED = r"Cannot send a tensor on openreg:\d to another process.*Send tensor.cpu\(\)"


@pytest.mark.parametrize("kind", ["Queue", "JoinableQueue", "SimpleQueue"])
@pytest.mark.parametrize("name", SENT)
def test_a_queue_refuses_device_tensors_at_the_put(kind, name):
    queue = getattr(multiprocessing.get_context("spawn"), kind)()
    with pytest.raises(RuntimeError, match=REFUSED):
        queue.put(SENT[name]())
    # The queue goes on, and nothing has come before.
    queue.put((1, "two", None, make("cpu"), Holder(make("cpu"))))
    one, two, none, tensor, holder = queue.get()
    assert (one, two, none) == (1, "two", None)
    assert tensor.tolist() == holder.use().tolist() == VALUES


def test_a_queue_takes_such_values_with_tensors_of_the_host():
    queue = multiprocessing.get_context("spawn").Queue()
    for kind in (SlottedData, FrozenData, Batch):
        queue.put(kind(make("cpu")))
        assert queue.get().tensor.tolist() == VALUES
    queue.put(deque([make("cpu")]))
    assert queue.get().pop().tolist() == VALUES


def test_a_bounded_queue_has_room_for_what_it_did_not_take():
    queue = multiprocessing.get_context("spawn").Queue(maxsize=1)
    for _ in range(3):
        with pytest.raises(RuntimeError, match=REFUSED):
            queue.put(make(), timeout=10)
    queue.put(make("cpu"), timeout=10)
    assert queue.get().tolist() == VALUES


def test_a_connection_refuses_device_tensors():
    here, there = multiprocessing.Pipe()
    with pytest.raises(RuntimeError, match=REFUSED):
        here.send(make())
    here.send(make("cpu"))
    assert there.recv().tolist() == VALUES


def test_a_process_is_not_started_with_device_tensors():
    process = multiprocessing.get_context("spawn").Process(target=print, args=(make(),))
    with pytest.raises(RuntimeError, match=REFUSED):
        process.start()


def test_pools_report_device_tensors_to_who_waits():
    spawn = multiprocessing.get_context("spawn")
    with spawn.Pool(1) as pool:
        with pytest.raises(RuntimeError, match=REFUSED):
            pool.apply(abs, (make(),))
        assert pool.apply(abs, (-1,)) == 1
    with ProcessPoolExecutor(1, mp_context=spawn) as executor:
        with pytest.raises(RuntimeError, match=REFUSED):
            executor.submit(abs, make()).result(timeout=60)
        assert executor.submit(abs, -1).result(timeout=60) == 1


# Storages


def test_a_storage_knows_its_device_and_its_bytes():
    storage = make().untyped_storage()
    assert isinstance(storage, torch.UntypedStorage)
    assert (str(storage.device), storage.get_device()) == ("openreg:1", 1)
    assert len(storage) == storage.nbytes() == storage.size() == 12
    assert storage.element_size() == 1
    assert storage.filename is None
    assert storage.is_openreg
    assert not storage.is_pinned()


def test_bytes_of_a_storage_are_read_and_written_from_python():
    storage = torch.tensor([1.0], device="openreg").untyped_storage()
    assert storage.tolist() == [0, 0, 128, 63]
    assert storage[3] == 63
    storage[3] = 64
    assert storage.tolist() == [0, 0, 128, 64]
    assert repr(storage).startswith(" 0\n 0\n 128\n 64\n[torch.storage.UntypedStorage(")


def test_storages_are_copied_between_devices():
    storage = make().untyped_storage()
    host = storage.cpu()
    assert (str(host.device), host.tolist()) == ("cpu", storage.tolist())
    other = torch.zeros(3, device="openreg:0").untyped_storage()
    other.copy_(storage)
    assert other.tolist() == host.tolist()
    host.fill_(0)
    storage.copy_(host)
    assert storage.tolist() == [0] * 12
    assert other.clone().tolist() == other.tolist()
    assert other.clone().data_ptr() != other.data_ptr()


def test_a_storage_is_moved_by_to_and_by_the_devices_name():
    storage = make("cpu").untyped_storage()
    assert str(storage.to(device="openreg:1").device) == "openreg:1"
    moved = storage.openreg(1, non_blocking=True)
    assert str(moved.device) == "openreg:1"
    assert moved.openreg(1) is moved
    assert str(moved.openreg(0).device) == "openreg:0"
    assert moved.openreg(0).tolist() == storage.tolist()


def test_a_storage_is_resized_and_keeps_what_fits():
    storage = make().untyped_storage()
    before = storage.tolist()
    storage.resize_(8)
    assert storage.tolist() == before[:8]
    storage.resize_(100)
    assert (storage.nbytes(), storage.tolist()[:8]) == (100, before[:8])
    storage.resize_(0)
    assert (storage.nbytes(), storage.data_ptr()) == (0, 0)


def test_device_storages_cannot_be_pinned():
    with pytest.raises(TypeError, match="only CPU memory can be pinned"):
        make().untyped_storage().pin_memory()


# Location tags


@pytest.mark.parametrize("index", [0, 1])
def test_the_location_tag_of_a_storage_is_its_device(index):
    storage = make(f"openreg:{index}").untyped_storage()
    assert serialization.location_tag(storage) == f"openreg:{index}"


@pytest.mark.parametrize(
    ("location", "device"),
    [("openreg:1", "openreg:1"), ("openreg", "openreg:0"), ("cpu", "cpu")],
)
def test_a_storage_is_restored_to_its_location(location, device):
    host = make("cpu").untyped_storage()
    restored = serialization.default_restore_location(host, location)
    assert str(restored.device) == device
    assert restored.tolist() == host.tolist()


def test_a_storage_is_not_restored_to_a_location_that_does_not_exist():
    host = make("cpu").untyped_storage()
    with pytest.raises(RuntimeError, match="OPENREG device 5"):
        serialization.default_restore_location(host, "openreg:5")
    with pytest.raises(RuntimeError, match="Invalid device string: 'openreg:a'"):
        serialization.default_restore_location(host, "openreg:a")
