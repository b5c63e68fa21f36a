"""What registering the device gives tensors, storages, sequences and modules.

Names and errors of the registration itself are in test_module.py.
"""

import pytest
import torch
from pages import assert_names_its_section
from process import run_script
from torch import nn
from torch.nn.utils.rnn import PackedSequence, pack_padded_sequence

pytestmark = pytest.mark.filterwarnings("ignore:TypedStorage is deprecated")


def packed() -> PackedSequence:
    return pack_padded_sequence(torch.ones(3, 2, 1), [3, 2])


MAKERS = {
    "tensor": lambda: torch.ones(3),
    "parameter": lambda: nn.Parameter(torch.ones(3)),
    "untyped storage": lambda: torch.ones(3).untyped_storage(),
    "typed storage": lambda: torch.ones(3).storage(),
    "sequence": packed,
    "module": lambda: nn.Linear(2, 2),
}


def device_of(value: object) -> str:
    if isinstance(value, nn.Module):
        value = value.weight
    if isinstance(value, PackedSequence):
        value = value.data
    return str(value.device)


@pytest.mark.parametrize("make", MAKERS.values(), ids=MAKERS.keys())
@pytest.mark.parametrize(
    ("arguments", "device"),
    [
        ((), "openreg:0"),
        ((1,), "openreg:1"),
        (("openreg:1",), "openreg:1"),
        ((torch.device("openreg:1"),), "openreg:1"),
        ((torch.device("openreg"),), "openreg:0"),
    ],
    ids=str,
)
def test_everything_moves_to_the_device_by_its_name(make, arguments, device):
    assert device_of(make().openreg(*arguments)) == device


@pytest.mark.parametrize("make", MAKERS.values(), ids=MAKERS.keys())
def test_without_an_argument_it_is_the_current_device(make):
    with torch.openreg.device(1):
        assert device_of(make().openreg()) == "openreg:1"


@pytest.mark.parametrize("make", MAKERS.values(), ids=MAKERS.keys())
@pytest.mark.parametrize("index", [2, 99])
def test_moving_to_no_device_is_an_accelerator_error(make, index):
    with pytest.raises(torch.AcceleratorError, match="device index is out of range"):
        make().openreg(index)


@pytest.mark.parametrize(
    "make",
    [MAKERS[name] for name in ("tensor", "untyped storage", "typed storage", "module")],
)
def test_moving_to_another_kind_of_device_is_refused(make):
    for device in ("cpu", torch.device("meta")):
        with pytest.raises(RuntimeError, match="must be openreg device"):
            make().openreg(device)


@pytest.mark.parametrize(
    "make", [make for name, make in MAKERS.items() if name != "module"]
)
def test_everything_says_whether_it_is_on_the_device(make):
    value = make()
    moved = value.openreg()
    assert (value.is_openreg, moved.is_openreg) == (False, True)
    with pytest.raises(AttributeError):
        moved.is_openreg = False


def test_what_is_on_the_device_already_is_not_copied():
    tensor = torch.ones(3).openreg()
    assert tensor.openreg() is tensor
    assert tensor.openreg(0) is tensor
    assert tensor.openreg(1) is not tensor
    storage = tensor.untyped_storage()
    assert storage.openreg() is storage
    sequence = packed().openreg()
    assert sequence.openreg() is sequence


def test_a_tensor_takes_the_options_of_to():
    tensor = torch.ones(1, 2, 3, 4).pin_memory()
    moved = tensor.openreg(1, non_blocking=True, memory_format=torch.channels_last)
    assert str(moved.device) == "openreg:1"
    assert moved.is_contiguous(memory_format=torch.channels_last)
    assert tensor.openreg(device=1).device.index == 1
    with pytest.raises(TypeError):
        tensor.openreg(nonsense=1)


def test_a_moved_tensor_is_part_of_the_graph():
    leaf = torch.ones(3, requires_grad=True)
    (leaf.openreg(1) * 2).sum().backward()
    assert leaf.grad.tolist() == [2, 2, 2]


def test_a_module_moves_in_place_with_its_buffers_and_children():
    model = nn.Sequential(nn.Linear(2, 2), nn.BatchNorm1d(2))
    model[0].weight.grad = torch.ones(2, 2)
    weight = model[0].weight
    assert model.openreg(1) is model
    assert model[0].weight is weight
    places = [*model.parameters(), *model.buffers(), weight.grad]
    assert {str(each.device) for each in places} == {"openreg:1"}


NAMES = {
    torch.float32: "Float",
    torch.float64: "Double",
    torch.float16: "Half",
    torch.bfloat16: "BFloat16",
    torch.uint8: "Byte",
    torch.int8: "Char",
    torch.int16: "Short",
    torch.int32: "Int",
    torch.int64: "Long",
    torch.bool: "Bool",
    torch.complex64: "ComplexFloat",
    torch.complex128: "ComplexDouble",
}


@pytest.mark.parametrize("dtype", NAMES, ids=str)
def test_types_have_the_devices_name(dtype):
    name = f"torch.openreg.{NAMES[dtype]}Tensor"
    tensor = torch.zeros(2, dtype=dtype, device="openreg")
    assert tensor.type() == name
    converted = torch.zeros(2).type(name)
    assert (converted.device.type, converted.dtype) == ("openreg", dtype)
    assert tensor.type(f"torch.{NAMES[dtype]}Tensor").device.type == "cpu"


def test_types_are_taken_from_other_tensors():
    there = torch.ones(2, dtype=torch.half, device="openreg:0")
    assert torch.ones(2).type_as(there).type() == "torch.openreg.HalfTensor"
    assert there.type_as(torch.ones(2)).type() == "torch.FloatTensor"
    with pytest.raises(ValueError, match="invalid type"):
        there.type("torch.openreg.NonsenseTensor")


def test_the_device_answers_to_pytorchs_own_name_for_it():
    assert torch.device("privateuseone:1") == torch.device("openreg:1")
    assert str(torch.ones(1, device="privateuseone").device) == "openreg:0"


def test_the_profiler_knows_the_activity():
    activity = torch.profiler.ProfilerActivity.OPENREG
    assert activity in torch.profiler.supported_activities()
    assert activity.name in ("OPENREG", "PrivateUse1")


def test_a_profiler_of_the_device_is_refused_with_words():
    """PyTorch asks an observer that nobody has registered, and crashes."""
    script = """
        import torch
        from torch.autograd.profiler import (
            ProfilerConfig, ProfilerState, _enable_profiler)
        from torch.profiler import ProfilerActivity, profile
        config = ProfilerConfig(
            ProfilerState.PRIVATEUSE1, False, False, False, False, False,
            torch._C._profiler._ExperimentalConfig(), "")
        for _ in range(2):
            try:
                _enable_profiler(config, {ProfilerActivity.CPU})
            except NotImplementedError as error:
                print(error)
            else:
                raise AssertionError("there is a profiler")
        with profile() as events:  # works as before
            torch.ones(2, device="openreg").tolist()
        print(any(each.key == "aten::ones" for each in events.key_averages()))
    """
    first, second, shows_host = run_script(script).strip().splitlines()
    assert first == second
    assert "'openreg' has none yet" in first
    assert "torch.openreg.Event" in first
    assert_names_its_section(first, "A profile without the device")
    assert shows_host == "True"


def test_methods_cannot_be_generated_twice():
    with pytest.raises(RuntimeError, match="has already been registered"):
        torch.utils.generate_methods_for_privateuse1_backend()


def test_the_name_cannot_be_changed_and_the_device_stays():
    script = """
        import torch
        try:
            torch.utils.rename_privateuse1_backend("other")
        except RuntimeError as error:
            print(error)
        print(torch._C._get_privateuse1_backend_name())
        print(torch.ones(1, device="openreg").device)
    """
    error, name, device = run_script(script).splitlines()
    assert "has already been set" in error
    assert (name, device) == ("openreg", "openreg:0")
