"""``torch.openreg`` has the names of ``torch.cuda``, with their signatures."""

import ast
import inspect
from pathlib import Path
from types import ModuleType

import pytest
import torch
from torch import openreg

import torch_openreg
from torch_openreg import _C

# What libraries call on a device module.
EXPECTED = {
    "devices": """is_available device_count current_device set_device device device_of
        get_device_name get_device_properties get_device_capability
        can_device_access_peer is_bf16_supported is_tf32_supported init
        is_initialized synchronize""",
    "streams": """Stream Event StreamContext ExternalStream stream set_stream
        current_stream default_stream get_stream_from_external
        is_current_stream_capturing""",
    "memory": """empty_cache memory_allocated max_memory_allocated memory_reserved
        max_memory_reserved memory_stats memory_stats_as_nested_dict memory_summary
        memory_snapshot mem_get_info reset_peak_memory_stats
        reset_accumulated_memory_stats reset_max_memory_allocated
        set_per_process_memory_fraction get_per_process_memory_fraction
        caching_allocator_alloc caching_allocator_delete host_memory_stats
        host_memory_stats_as_nested_dict reset_peak_host_memory_stats
        reset_accumulated_host_memory_stats OutOfMemoryError AcceleratorError""",
    "random": """manual_seed manual_seed_all seed seed_all initial_seed get_rng_state
        set_rng_state get_rng_state_all set_rng_state_all default_generators""",
    "amp": "amp get_amp_supported_dtype",
    "parts": "memory random streams",
}

# What PyTorch itself looks up, though the names look private.
LOOKED_UP_BY_PYTORCH = (
    "_lazy_init",
    "_lazy_call",
    "_is_in_bad_fork",
    "_initialized",
    "_exchange_device",
    "_maybe_exchange_device",
    "_get_generator",
    "_sleep",
)


def public_names(module: ModuleType) -> list[str]:
    return [name for name in dir(module) if not name.startswith("_")]


def parameters(function: object) -> list[tuple[str, object, object]]:
    """Names, kinds and defaults, with our device in the place of CUDA's."""
    found = inspect.signature(function).parameters.values()
    return [
        (item.name, item.kind, "openreg" if item.default == "cuda" else item.default)
        for item in found
    ]


def shared_names() -> list[str]:
    """The functions and classes that both modules define."""
    theirs = {name: getattr(torch.cuda, name, None) for name in openreg.__all__}
    return [
        name
        for name, value in theirs.items()
        if inspect.isfunction(value)
        or (inspect.isclass(value) and not issubclass(value, Exception))
        if not name.endswith("Tensor")  # CUDA's have no signature
    ]


@pytest.mark.parametrize("area", EXPECTED)
def test_every_name_that_libraries_call_is_there(area):
    names = EXPECTED[area].split()
    assert [name for name in names if name not in openreg.__all__] == []


def test_all_is_sorted_and_complete():
    assert sorted(openreg.__all__) == openreg.__all__
    ours = {
        name
        for name in public_names(openreg)
        if getattr(getattr(openreg, name), "__module__", "").startswith("torch_openreg")
    }
    assert ours - set(openreg.__all__) == set()
    assert [name for name in openreg.__all__ if not hasattr(openreg, name)] == []


@pytest.mark.parametrize("part", ["devices", "memory", "random", "streams", "amp"])
def test_the_names_of_each_part_are_names_of_the_module(part):
    module = getattr(torch_openreg.openreg, part)
    for name in module.__all__:
        assert getattr(module, name) is getattr(openreg, name, getattr(module, name))
    if part != "amp":  # torch.cuda keeps those apart as well
        assert set(module.__all__) <= set(openreg.__all__)


@pytest.mark.parametrize("name", openreg.__all__)
def test_everything_is_documented(name):
    value = getattr(openreg, name)
    assert inspect.getdoc(value)
    if inspect.isclass(value) and value.__module__.startswith("torch_openreg"):
        methods = [item for item in vars(value) if not item.startswith("_")]
        assert [item for item in methods if not getattr(value, item).__doc__] == []


@pytest.mark.parametrize("name", shared_names())
def test_signatures_are_those_of_cuda(name):
    assert parameters(getattr(openreg, name)) == parameters(getattr(torch.cuda, name))


@pytest.mark.parametrize("name", ["_record_memory_history", "_snapshot"])
def test_signatures_of_the_memory_history_are_those_of_cuda(name):
    theirs = parameters(getattr(torch.cuda.memory, name))
    assert parameters(getattr(openreg.memory, name)) == theirs


@pytest.mark.parametrize("name", ["Stream", "Event"])
def test_methods_are_those_of_cuda(name):
    ours, theirs = getattr(openreg, name), getattr(torch.cuda, name)
    methods = [item for item in vars(theirs) if not item.startswith("_")]
    for method in methods:
        assert parameters(getattr(ours, method)) == parameters(getattr(theirs, method))


@pytest.mark.parametrize("name", ["autocast", "GradScaler"])
def test_signatures_of_amp_are_those_of_cuda(name):
    theirs = parameters(getattr(torch.cuda.amp, name))
    assert parameters(getattr(openreg.amp, name)) == theirs


@pytest.mark.parametrize("name", LOOKED_UP_BY_PYTORCH)
def test_names_that_pytorch_looks_up_are_there(name):
    assert hasattr(openreg, name)


def test_an_unknown_name_is_an_attribute_error():
    with pytest.raises(AttributeError, match="no attribute 'nonsense'"):
        _ = openreg.nonsense


def test_the_module_is_pytorchs_device_module():
    assert torch.get_device_module("openreg") is openreg
    assert torch.get_device_module() is openreg
    assert torch_openreg.openreg is openreg


@pytest.mark.parametrize("part", ["amp", "memory", "random", "streams"])
def test_parts_are_imported_once(part):
    name = f"torch.openreg.{part}"
    assert __import__(name, fromlist=["x"]) is getattr(torch_openreg.openreg, part)


def test_errors_are_pytorchs():
    assert openreg.OutOfMemoryError is torch.OutOfMemoryError
    assert openreg.AcceleratorError is torch.AcceleratorError


def test_the_type_stub_describes_the_extension():
    stub = Path(torch_openreg.openreg.__file__).parents[1] / "_C.pyi"
    tree = ast.parse(stub.read_text(encoding="utf-8"))
    functions = {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}
    classes = {
        node.name: {
            item.name for item in node.body if isinstance(item, ast.FunctionDef)
        }
        for node in tree.body
        if isinstance(node, ast.ClassDef)
    }
    real = {name for name in vars(_C) if not name.startswith("__")}
    assert functions | set(classes) == real
    for name, fields in classes.items():
        described = vars(getattr(_C, name))
        public = {item for item in described if not item.startswith("_")}
        assert fields - {"__init__"} == public


def test_the_package_is_marked_as_typed():
    package = Path(torch_openreg.openreg.__file__).parents[1]
    assert (package / "py.typed").is_file()


def test_exceptions_of_the_extension_are_pytorchs():
    with pytest.raises(torch.AcceleratorError, match="device index is out of range"):
        openreg.set_device(99)
    with pytest.raises(torch.OutOfMemoryError, match="Tried to allocate"):
        openreg.caching_allocator_alloc(1 << 50)
    with pytest.raises(RuntimeError, match="is no live block"):
        openreg.caching_allocator_delete(4096)
    with pytest.raises(ValueError, match="expected enabled to be 'state', 'all'"):
        openreg.memory._record_memory_history("nonsense")
    with pytest.raises(TypeError):
        openreg.Event(enable_timing=True).elapsed_time("nonsense")


@pytest.mark.parametrize(
    "wait",
    [
        openreg.synchronize,
        lambda: openreg.current_stream().synchronize(),
        lambda: openreg.current_stream().record_event().synchronize(),
        openreg.empty_cache,
    ],
    ids=["device", "stream", "event", "empty_cache"],
)
def test_who_waits_lets_other_python_threads_run(gate, watch, wait):
    """Otherwise this thread would never come to open the gate."""
    block = torch.ones(8, device="openreg")
    gate.hold()
    side = openreg.Stream()
    block.record_stream(openreg.current_stream())
    block.record_stream(side)
    del block
    assert watch.waits(wait)
    gate.open()


# Attributes and methods that PyTorch generates for the device.


def test_tensors_storages_and_modules_have_methods_of_the_device():
    tensor = torch.ones(2)
    assert (tensor.is_openreg, tensor.openreg().is_openreg) == (False, True)
    assert tensor.openreg(1).device == torch.device("openreg:1")
    assert tensor.openreg(torch.device("openreg:1")).device.index == 1
    assert tensor.untyped_storage().openreg(1).device.index == 1
    assert tensor.openreg().untyped_storage().is_openreg
    assert torch.nn.Linear(2, 2).openreg(1).weight.device.index == 1
    packed = torch.nn.utils.rnn.pack_padded_sequence(torch.ones(3, 2, 1), [3, 2])
    assert (packed.is_openreg, packed.openreg().is_openreg) == (False, True)
    assert tensor.openreg().type() == "torch.openreg.FloatTensor"


@pytest.mark.filterwarnings("ignore:TypedStorage is deprecated")
def test_typed_storages_have_methods_of_the_device():
    storage = torch.FloatStorage(2)
    assert (storage.is_openreg, storage.openreg().is_openreg) == (False, True)
    assert storage.openreg(1).device.index == 1


def test_enumerations_know_the_device_by_name():
    activity = torch.profiler.ProfilerActivity
    assert activity.PrivateUse1 == activity.OPENREG
    kind = torch._C._autograd.DeviceType
    assert kind.PrivateUse1 == kind.OPENREG


def test_the_name_is_given_once():
    torch.utils.rename_privateuse1_backend("openreg")
    with pytest.raises(RuntimeError, match="has already been set"):
        torch.utils.rename_privateuse1_backend("other")
    with pytest.raises(RuntimeError, match="The runtime module of"):
        torch._register_device_module("openreg", openreg)


def test_functions_of_the_module_are_found_by_name():
    find = torch.utils.backend_registration._get_custom_mod_func
    assert find("device_count")() == openreg.device_count()
    with pytest.raises(RuntimeError, match=r"Try to call torch\.openreg"):
        find("nonsense")


def test_dlpack_knows_the_device():
    tensor = torch.ones(2, device="openreg:1")
    kind, index = tensor.__dlpack_device__()
    assert (kind.name, index) == ("kDLExtDev", 1)
    assert torch.ones(2).__dlpack_device__()[0].name == "kDLCPU"


def test_device_memory_counts_as_shared():
    tensor = torch.ones(2, device="openreg")
    assert tensor.is_shared()
    assert tensor.untyped_storage().is_shared()
    assert tensor.share_memory_() is tensor
    assert not torch.ones(2).is_shared()
    assert torch.ones(2).share_memory_().is_shared()
