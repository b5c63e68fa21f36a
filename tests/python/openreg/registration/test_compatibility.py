"""What programs rely on that were written for the earlier OpenReg, by name and message.

What is tested in depth elsewhere is here in short, so that one file shows that ours
takes the other's place. ``docs/compatibility.md`` has what differs.
"""

import io
from pathlib import Path

import pytest
import torch
from compare import DEVICE
from torch.nn.attention import SDPBackend
from torch.utils import backend_registration

HERE: list[tuple[object, ...]] = [(), (0,), (torch.device(DEVICE, 0),)]


def saved(x: torch.Tensor, **options: object) -> torch.Tensor:
    """The tensor, saved and loaded."""
    file = io.BytesIO()
    torch.save(x, file)
    file.seek(0)
    return torch.load(file, **options)


# Registration


def test_the_names_are_taken():
    torch.utils.rename_privateuse1_backend(DEVICE)
    with pytest.raises(RuntimeError, match="has already been set"):
        torch.utils.rename_privateuse1_backend("other")
    with pytest.raises(RuntimeError, match="The runtime module of"):
        torch._register_device_module(DEVICE, torch.openreg)
    assert torch.profiler.ProfilerActivity.OPENREG
    assert torch._C._autograd.DeviceType.OPENREG


def test_functions_of_the_module_are_found_by_name():
    find = backend_registration._get_custom_mod_func
    assert find("device_count")() == torch.openreg.device_count()
    with pytest.raises(RuntimeError, match=r"Try to call torch\.openreg\.nothing"):
        find("nothing")


@pytest.mark.filterwarnings("ignore:TypedStorage is deprecated")
@pytest.mark.parametrize("place", HERE, ids=str)
def test_everything_that_holds_data_has_the_method_and_the_attribute(place):
    x = torch.ones(2)
    holders = [
        x,
        x.untyped_storage(),
        x._typed_storage(),
        torch.nn.utils.rnn.pack_sequence([x]),
    ]
    assert not any(holder.is_openreg for holder in holders)
    assert all(holder.openreg(*place).is_openreg for holder in holders)
    assert torch.nn.Linear(2, 2).openreg(*place).weight.is_openreg
    assert x.openreg().type() == "torch.openreg.FloatTensor"


# Devices, streams and events


def test_two_devices_that_take_every_dtype():
    assert torch.accelerator.device_count() == 2
    with pytest.raises(RuntimeError, match="The device index is out of range"):
        torch.accelerator.set_device_index(2)
    assert torch.accelerator.current_device_index() == 0
    dtypes = {value for value in vars(torch).values() if isinstance(value, torch.dtype)}
    capability = torch.accelerator.get_device_capability("openreg:0")
    assert dtypes <= set(capability["supported_dtypes"])


def test_a_stream_is_made_in_every_way_and_says_what_it_is():
    stream = torch.Stream(device="openreg:1")
    same = torch.Stream(
        stream_id=stream.stream_id,
        device_type=stream.device_type,
        device_index=stream.device_index,
    )
    assert same == stream != torch.Stream(1)
    assert "torch.Stream device_type=openreg, device_index=1" in repr(stream)


def test_an_event_has_a_number_once_it_is_recorded():
    first, last = torch.Event(), torch.Event()
    assert (first.device.type, first.device.index, first.event_id) == (DEVICE, None, 0)
    assert first.query()
    first.record()
    last.record()
    assert first.device.index == 0
    assert 0 not in {first.event_id, last.event_id}
    assert first.event_id != last.event_id
    message = "Both events must be created with argument 'enable_timing=True'."
    last.synchronize()
    with pytest.raises(ValueError, match=message):
        first.elapsed_time(last)


# Memory


def test_data_moves_between_kinds_of_tensors():
    host, ours = torch.zeros(2), torch.zeros(2, device=DEVICE)
    assert torch._has_compatible_shallow_copy_type(host, ours)
    host.data, ours.data = torch.ones(3, device=DEVICE), torch.ones(3)
    assert (host.device.type, ours.device.type) == (DEVICE, "cpu")
    assert host.tolist() == ours.tolist() == [1.0] * 3


def test_memory_is_kept_where_it_is():
    x = torch.ones(8, device=DEVICE)
    place = x.data_ptr()
    assert x.add_(1)[2:].data_ptr() == place + 8
    assert x.resize_(2).resize_(8).data_ptr() == place
    assert x.tolist() == [2.0] * 8
    assert torch.ones(8, device="openreg:1").data_ptr() != place


@pytest.mark.filterwarnings("ignore:TypedStorage is deprecated")
def test_tensors_storages_and_their_parts_are_pinned():
    x, storage = torch.ones(8).pin_memory(), torch.ones(8).untyped_storage()
    assert x.is_pinned()
    assert x[2:5].is_pinned()
    assert x.view(2, 4).untyped_storage().is_pinned()
    assert storage.pin_memory().is_pinned()
    assert torch.ones(8)._typed_storage().pin_memory().is_pinned()


# Operators


@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("custom_abs", "(Tensor input) -> Tensor"),
        ("custom_autograd_fn_returns_self", "(Tensor input) -> Tensor"),
        ("custom_autograd_fn_aliasing", "(Tensor(a) input) -> Tensor(a)"),
    ],
)
def test_an_operator_has_its_schema(name: str, arguments: str):
    schema = getattr(torch.ops.openreg, name).default._schema
    assert str(schema) == f"openreg::{name}{arguments}"


def test_attention_is_the_overrideable_one_with_all_its_values():
    q = torch.linspace(-1, 1, 256).view(1, 2, 8, 16)
    ours = q.to(DEVICE)
    assert torch._fused_sdp_choice(ours, ours, ours) == SDPBackend.OVERRIDEABLE.value
    attention = torch.ops.aten._scaled_dot_product_fused_attention_overrideable
    values = attention(ours, ours, ours)
    assert len(values) == 9

    host = q.clone().requires_grad_()
    expected = torch.nn.functional.scaled_dot_product_attention(host, host, host)
    expected.sum().backward()
    torch.testing.assert_close(values[0].cpu(), expected.detach())

    out, logsumexp, *lengths, seed, offset, _ = values
    backward = torch.ops.aten._scaled_dot_product_fused_attention_overrideable_backward
    three = (ours, ours, ours)
    needed = [True, True, True, False]
    drop, causal = 0.0, False
    kept = (out, logsumexp, *lengths, drop, causal, seed, offset)
    gradients = backward(torch.ones_like(ours), *three, None, needed, *kept)
    assert len(gradients) == 4
    torch.testing.assert_close(sum(g.cpu() for g in gradients[:3]), host.grad)


# Files


def test_locations_and_metadata_are_saved():
    restored = torch.serialization.default_restore_location(
        torch.ones(2).untyped_storage(), "openreg:1"
    )
    assert restored.device == torch.device("openreg:1")
    x = torch.ones(2, device=DEVICE)
    assert torch._utils.get_tensor_metadata(x) == {}
    metadata = {"version_number": True, "format_number": True}
    torch._utils.set_tensor_metadata(x, metadata)
    assert torch._utils.get_tensor_metadata(saved(x)) == metadata
    assert torch._utils.get_tensor_metadata(saved(x, map_location="cpu")) == {}


# Autograd


def test_every_device_has_a_thread_for_its_gradients():
    leaf = torch.ones(2, device="openreg:1", requires_grad=True)
    (leaf * 2).sum().backward()
    tasks = Path("/proc/self/task").iterdir()
    names = {(task / "comm").read_text().strip() for task in tasks}
    assert {"pt_autograd_0", "pt_autograd_1"} <= names


# Where the earlier one failed


def test_what_crashed_or_was_wrong_works():
    c = torch.tensor([[1 + 2j, 3.0], [0.5j, 1.0]])
    ours = c.to(DEVICE)
    torch.testing.assert_close((ours.conj() + 1).cpu(), c.conj() + 1)
    torch.testing.assert_close((ours @ ours.mH).cpu(), c @ c.mH)
    found = torch.empty(0, dtype=torch.long, device=DEVICE)
    torch.nonzero(ours.real > 0, out=found)
    assert found.tolist() == (c.real > 0).nonzero().tolist()
    square = torch.eye(2, device=DEVICE) * 4
    factor = torch.empty(2, 2, device=DEVICE)
    assert torch.linalg.cholesky(square, out=factor).tolist() == [[2, 0], [0, 2]]
    storage = torch.ones(2, device=DEVICE).untyped_storage()
    storage.resize_(100)
    assert storage.nbytes() == 100
    x = torch.linspace(-1, 1, 3, dtype=torch.double, device=DEVICE, requires_grad=True)
    assert torch.autograd.gradcheck(torch.sin, x)
