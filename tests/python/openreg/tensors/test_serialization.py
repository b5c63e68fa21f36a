"""``torch.save`` and ``torch.load``: where tensors come back, and what goes wrong."""

import io
from pathlib import Path

import pytest
import torch
from process import run_script
from torch import nn, openreg

VALUES = [1.0, 2.0, 3.0]


def make(device: str = "openreg:1") -> torch.Tensor:
    return torch.tensor(VALUES, device=device)


def saved(value: object, **options) -> io.BytesIO:
    buffer = io.BytesIO()
    torch.save(value, buffer, **options)
    buffer.seek(0)
    return buffer


def reload(value: object, **options) -> object:
    return torch.load(saved(value), **options)


@pytest.fixture(params=["zip", "legacy"])
def file(request) -> io.BytesIO:
    """A tensor of the second device in a file, of either format."""
    return saved(make(), _use_new_zipfile_serialization=request.param == "zip")


# Where tensors come back


@pytest.mark.parametrize(
    "options", [{}, {"weights_only": True}, {"weights_only": False}]
)
def test_a_tensor_comes_back_on_its_device(file, options):
    loaded = torch.load(file, **options)
    assert str(loaded.device) == "openreg:1"
    assert loaded.tolist() == VALUES


@pytest.mark.parametrize(
    ("map_location", "device"),
    [
        ("cpu", "cpu"),
        (torch.device("cpu"), "cpu"),
        ({"openreg:1": "cpu"}, "cpu"),
        (lambda storage, _: storage, "cpu"),
        ("openreg", "openreg:0"),
        ("openreg:0", "openreg:0"),
        (torch.device("openreg"), "openreg:0"),
        (torch.device("openreg", 0), "openreg:0"),
        ({"openreg:1": "openreg:0"}, "openreg:0"),
        (lambda storage, _: storage.openreg(0), "openreg:0"),
        # What is not mapped stays where it was.
        (None, "openreg:1"),
        ({"openreg:0": "cpu"}, "openreg:1"),
        (lambda storage, _: None, "openreg:1"),
        ("meta", "meta"),
    ],
    ids=lambda value: "function" if callable(value) else str(value),
)
def test_every_form_of_map_location_places_the_tensor(file, map_location, device):
    loaded = torch.load(file, map_location=map_location)
    assert str(loaded.device) == device
    if device != "meta":
        assert loaded.tolist() == VALUES


@pytest.mark.parametrize("map_location", ["openreg", torch.device("openreg")])
def test_a_location_without_an_index_is_the_current_device(map_location):
    with openreg.device(1):
        loaded = reload(torch.ones(2), map_location=map_location)
    assert str(loaded.device) == "openreg:1"


@pytest.mark.parametrize("map_location", ["openreg", {"cpu": "openreg:0"}])
def test_a_file_of_the_cpu_is_loaded_to_the_device(map_location):
    loaded = reload(torch.tensor(VALUES), map_location=map_location)
    assert str(loaded.device) == "openreg:0"
    assert loaded.tolist() == VALUES


def test_a_map_location_function_sees_the_tag_and_a_storage_of_the_cpu():
    seen = []

    def look(storage: torch.UntypedStorage, tag: str) -> torch.UntypedStorage:
        seen.append((tag, str(storage.device)))
        return storage

    reload([make("openreg:0"), make("openreg:1"), torch.ones(1)], map_location=look)
    assert seen == [("openreg:0", "cpu"), ("openreg:1", "cpu"), ("cpu", "cpu")]


def test_the_current_device_does_not_move_what_is_loaded():
    with torch.device("openreg:1"), openreg.device(1):
        assert str(reload(make("openreg:0")).device) == "openreg:0"
        assert str(reload(torch.ones(1, device="cpu")).device) == "cpu"
    assert openreg.current_device() == 0


# Files from a machine with more devices


@pytest.mark.parametrize("weights_only", [True, False])
@pytest.mark.parametrize(
    "map_location",
    ["openreg:99", torch.device("openreg:99"), {"openreg:1": "openreg:99"}],
)
def test_a_device_that_does_not_exist_is_an_error_that_says_what_to_pass(
    file, map_location, weights_only
):
    message = (
        r"Attempting to deserialize object on OPENREG device 99 but "
        r"torch\.openreg\.device_count\(\) is 2\. Please use torch\.load with "
        r"map_location to map your storages to an existing device\."
    )
    used = [openreg.memory_allocated(index) for index in range(2)]
    with pytest.raises(RuntimeError, match=message):
        torch.load(file, map_location=map_location, weights_only=weights_only)
    assert [openreg.memory_allocated(index) for index in range(2)] == used
    assert openreg.current_device() == 0


@pytest.mark.parametrize(
    ("devices", "message"),
    [("1", "map_location to map your storages"), ("0", "map_location=torch.device")],
)
def test_a_file_of_a_missing_device_is_an_error_and_is_loaded_with_a_map(
    tmp_path, devices, message
):
    path = tmp_path / "tensor.pt"
    torch.save(make("openreg:1"), path)
    script = """
        import sys, torch
        try:
            torch.load(sys.argv[1])
        except RuntimeError as error:
            print(error)
        print(torch.load(sys.argv[1], map_location="cpu").tolist())
    """
    printed = run_script(script, str(path), env={"OPENREG_DEVICES": devices})
    assert message in printed
    assert printed.endswith(f"{VALUES}\n")


@pytest.mark.parametrize("location", ["openreg:x", "openreg:-1", "openreg:"])
def test_a_location_that_is_no_device_is_an_error(file, location):
    with pytest.raises(RuntimeError, match="Invalid device string"):
        torch.load(file, map_location=location)


def test_an_unknown_location_is_an_error():
    with pytest.raises(RuntimeError, match="don't know how to restore data location"):
        reload(make(), map_location="nonsense")


# What a file holds


def test_tensors_that_share_memory_share_it_again():
    base = make()
    first, part = reload([base, base[1:]])
    first[1] = 9
    assert part.tolist() == [9, 3]
    assert part.untyped_storage().data_ptr() == first.untyped_storage().data_ptr()


@pytest.mark.parametrize(
    "make_tensor",
    [
        lambda d: torch.arange(6.0, device=d).reshape(2, 3).t(),
        lambda d: torch.arange(6, device=d)[1::2],
        lambda d: torch.arange(3, device=d).expand(2, 3),
        lambda d: torch.empty(0, 3, device=d),
        lambda d: torch.tensor(4, device=d),
        lambda d: torch.tensor([1 + 2j], device=d).conj(),
        lambda d: torch.tensor([True, False], device=d),
        lambda d: torch.tensor(VALUES, dtype=torch.bfloat16, device=d),
    ],
    ids=[
        "transposed",
        "slice",
        "expanded",
        "empty",
        "scalar",
        "conjugated",
        "bool",
        "bfloat16",
    ],
)
def test_layout_dtype_and_value_are_kept(make_tensor):
    loaded, expected = reload(make_tensor("openreg")), make_tensor("cpu")
    assert loaded.is_openreg
    assert (loaded.dtype, loaded.shape) == (expected.dtype, expected.shape)
    assert loaded.stride() == expected.stride()
    assert loaded.storage_offset() == expected.storage_offset()
    assert torch.equal(loaded.cpu(), expected)


def test_parameters_and_gradients_flags_are_kept():
    loaded = reload(nn.Parameter(make()))
    assert isinstance(loaded, nn.Parameter)
    assert loaded.requires_grad
    assert str(loaded.device) == "openreg:1"


@pytest.mark.filterwarnings("ignore:TypedStorage is deprecated")
def test_storages_come_back_on_the_device():
    loaded = reload(make().untyped_storage(), weights_only=False)
    assert str(loaded.device) == "openreg:1"
    assert loaded.tolist() == make().untyped_storage().tolist()
    typed = reload(make().storage(), weights_only=False)
    assert (typed.dtype, str(typed.device)) == (torch.float32, "openreg:1")
    assert typed.tolist() == VALUES


def test_saving_takes_the_values_of_queued_work(gate):
    """In the order of the stream, so nothing has to be synchronised before."""
    source, target = make("openreg:0"), torch.zeros(3, device="openreg:0")
    gate.hold()
    target.copy_(source)
    gate.open()
    assert reload(target).tolist() == VALUES


# Memory-mapped files


@pytest.fixture
def path(tmp_path) -> Path:
    base = make()
    torch.save([base, base[1:]], tmp_path / "tensors.pt")
    return tmp_path / "tensors.pt"


@pytest.mark.parametrize(
    ("map_location", "device"),
    [(None, "openreg:1"), ("cpu", "cpu"), ("openreg", "openreg:0")],
)
def test_a_mapped_file_is_loaded_to_where_it_belongs(path, map_location, device):
    first, part = torch.load(path, mmap=True, map_location=map_location)
    assert str(first.device) == str(part.device) == device
    assert (first.tolist(), part.tolist()) == (VALUES, VALUES[1:])
    assert part.data_ptr() - first.data_ptr() == 4


# Modules and optimizers


def test_a_models_state_moves_between_devices(path):
    model = nn.Linear(2, 2, device="openreg:1")
    torch.save(model.state_dict(), path)
    host = nn.Linear(2, 2)
    host.load_state_dict(torch.load(path, map_location="cpu"))
    assert torch.equal(host.weight, model.weight.cpu())
    other = nn.Linear(2, 2, device="openreg:0")
    other.load_state_dict(torch.load(path))
    assert str(other.weight.device) == "openreg:0"
    assert torch.equal(other.weight.cpu(), model.weight.cpu())


def test_a_whole_model_comes_back_on_its_device():
    model = nn.Linear(2, 2, device="openreg:1")
    loaded = reload(model, weights_only=False)
    assert str(loaded.bias.device) == "openreg:1"
    assert torch.equal(loaded.weight, model.weight)


@pytest.mark.parametrize("map_location", [None, "cpu"])
def test_an_optimizers_state_follows_the_parameters(map_location):
    model = nn.Linear(2, 2, device="openreg:0")
    optimizer = torch.optim.Adam(model.parameters())
    model(torch.ones(1, 2, device="openreg:0")).sum().backward()
    optimizer.step()
    state = reload(optimizer.state_dict(), map_location=map_location)
    other = torch.optim.Adam(nn.Linear(2, 2, device="openreg:1").parameters())
    other.load_state_dict(state)
    (first, *_) = other.state.values()
    devices = {name: str(value.device) for name, value in first.items()}
    assert devices == {"exp_avg": "openreg:1", "exp_avg_sq": "openreg:1", "step": "cpu"}
