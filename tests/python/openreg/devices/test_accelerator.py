"""``torch.accelerator`` gives the answers of ``torch.openreg``."""

import gc
import re

import pytest
import torch
from process import run_script

accelerator = torch.accelerator


def test_openreg_is_the_accelerator():
    assert accelerator.current_accelerator() == torch.device("openreg")
    assert accelerator.current_accelerator(check_available=True).type == "openreg"
    assert accelerator.is_available()
    assert accelerator.device_count() == torch.openreg.device_count()


def test_asking_for_the_accelerator_initialises_nothing():
    script = """
        import torch
        torch.accelerator.current_accelerator(check_available=True)
        torch.accelerator.is_available(), torch.accelerator.device_count()
        print(torch.openreg.is_initialized())
    """
    assert run_script(script) == "False\n"


def test_synchronize_before_the_first_use_does_nothing():
    script = """
        import torch, torch_openreg
        torch.accelerator.synchronize()
        print([torch_openreg._C._has_primary_context(i) for i in range(2)])
    """
    assert run_script(script) == "[False, False]\n"


# Devices


@pytest.mark.parametrize("device", [1, "openreg:1", torch.device("openreg:1")])
def test_set_device_index_takes_every_form(device):
    accelerator.set_device_index(device)
    assert accelerator.current_device_index() == 1
    assert torch.openreg.current_device() == 1
    assert str(torch.empty(1, device="openreg").device) == "openreg:1"


@pytest.mark.parametrize("index", [2, 99])
def test_set_device_index_of_no_device_is_an_accelerator_error(index):
    with pytest.raises(torch.AcceleratorError, match="device index is out of range"):
        accelerator.set_device_index(index)
    assert accelerator.current_device_index() == 0


def test_error_of_a_bad_index_is_a_runtime_error_too():
    """Users of older OpenReg versions catch this."""
    with pytest.raises(RuntimeError, match="The device index is out of range"):
        accelerator.set_device_index(2)


def test_negative_index_sets_nothing():
    accelerator.set_device_index(1)
    accelerator.set_device_index(-1)
    assert accelerator.current_device_index() == 1


@pytest.mark.parametrize("device", ["cpu", torch.device("meta")])
def test_device_of_another_kind_is_a_value_error(device):
    for call in (
        accelerator.set_device_index,
        accelerator.synchronize,
        accelerator.current_stream,
        accelerator.get_device_capability,
    ):
        with pytest.raises(ValueError, match="doesn't match the current accelerator"):
            call(device)


def test_deprecated_names_warn_and_work():
    with pytest.warns(FutureWarning, match="set_device_index"):
        accelerator.set_device_idx(1)
    with pytest.warns(FutureWarning, match="current_device_index"):
        assert accelerator.current_device_idx() == 1


def test_device_index_context_changes_and_restores():
    with accelerator.device_index(1):
        assert torch.openreg.current_device() == 1
        with accelerator.device_index(None):
            assert torch.openreg.current_device() == 1
        with accelerator.device_index(0):
            assert torch.openreg.current_device() == 0
        assert torch.openreg.current_device() == 1
    assert torch.openreg.current_device() == 0


def test_device_index_context_of_no_device_is_an_accelerator_error():
    with (
        pytest.raises(torch.AcceleratorError, match="out of range"),
        accelerator.device_index(99),
    ):
        pass
    assert accelerator.current_device_index() == 0


def all_dtypes():
    """Every dtype that the torch module has."""
    return {value for value in vars(torch).values() if isinstance(value, torch.dtype)}


def test_capability_names_every_dtype():
    found = accelerator.get_device_capability("openreg:0")["supported_dtypes"]
    assert found == all_dtypes()
    assert {torch.complex32, torch.qint8, torch.float8_e4m3fn} <= found


def test_capability_of_the_current_device_and_of_each():
    expected = accelerator.get_device_capability("openreg:0")
    assert accelerator.get_device_capability() == expected
    assert accelerator.get_device_capability(1) == expected


def test_capability_of_no_device_is_an_error():
    with pytest.raises(torch.AcceleratorError, match="out of range"):
        accelerator.get_device_capability(99)


# Streams


def test_current_stream_is_the_modules():
    assert accelerator.current_stream() == torch.openreg.current_stream()
    assert accelerator.current_stream(1) == torch.openreg.current_stream(1)
    assert accelerator.current_stream("openreg:1").device_index == 1


def test_current_stream_of_no_device_is_an_error():
    with pytest.raises(torch.AcceleratorError, match="out of range"):
        accelerator.current_stream(99)


def test_set_stream_changes_the_current_stream():
    stream = torch.Stream("openreg:0")
    accelerator.set_stream(stream)
    assert accelerator.current_stream() == stream
    assert torch.openreg.current_stream() == stream


def test_set_stream_of_another_device_switches_the_device():
    stream = torch.Stream("openreg:1")
    accelerator.set_stream(stream)
    assert accelerator.current_device_index() == 1
    assert accelerator.current_stream() == stream
    assert accelerator.current_stream(0) == torch.openreg.default_stream(0)


@pytest.mark.parametrize("device", [None, 0, "openreg:0"])
def test_synchronize_waits_for_every_stream_of_the_device(gate, watch, device):
    stream = torch.Stream("openreg:0")
    gate.hold(stream)
    assert watch.waits(lambda: accelerator.synchronize(device))
    gate.open()
    accelerator.synchronize(device)
    assert stream.query()


def test_synchronize_waits_for_its_device_only(gate, watch):
    gate.hold(torch.Stream("openreg:0"))
    assert watch.returns(lambda: accelerator.synchronize(1))
    with torch.openreg.device(1):
        assert watch.returns(accelerator.synchronize)


def test_synchronize_of_no_device_is_an_error():
    with pytest.raises(torch.AcceleratorError, match="out of range"):
        accelerator.synchronize(99)


# Memory


def test_memory_numbers_are_the_modules():
    keep = torch.empty(1 << 20, device="openreg:1")
    for name in (
        "memory_allocated",
        "max_memory_allocated",
        "memory_reserved",
        "max_memory_reserved",
    ):
        expected = getattr(torch.openreg, name)(1)
        assert expected >= keep.nbytes
        assert getattr(accelerator, name)(1) == expected
        assert getattr(accelerator, name)("openreg:1") == expected
    assert accelerator.get_memory_info(1) == torch.openreg.mem_get_info(1)


def test_memory_stats_are_the_modules():
    keep = torch.empty(1000, device="openreg:0")
    ours, theirs = torch.openreg.memory_stats(0), accelerator.memory_stats(0)
    shared = set(ours) & set(theirs)
    assert {"allocated_bytes.all.current", "num_ooms"} <= shared
    assert {k: ours[k] for k in shared} == {k: theirs[k] for k in shared}
    del keep


def test_empty_cache_gives_unused_memory_back():
    del_me = torch.empty(8 << 20, device="openreg:0")
    del del_me
    gc.collect()
    before = accelerator.memory_reserved(0)
    accelerator.empty_cache()
    assert accelerator.memory_reserved(0) < before


def test_reset_peak_memory_stats_resets_the_modules():
    torch.empty(32 << 20, device="openreg:0")
    accelerator.reset_peak_memory_stats(0)
    current = torch.openreg.memory_allocated(0)
    assert torch.openreg.max_memory_allocated(0) == current


def test_reset_accumulated_memory_stats_resets_the_modules():
    torch.empty(1, device="openreg:0")
    assert torch.openreg.memory_stats(0)["allocation.all.allocated"] > 0
    accelerator.reset_accumulated_memory_stats(0)
    assert torch.openreg.memory_stats(0)["allocation.all.allocated"] == 0


def test_empty_host_cache_gives_unused_pinned_memory_back():
    pinned = torch.empty(1 << 20, pin_memory=True)
    del pinned
    gc.collect()
    before = torch.openreg.host_memory_stats()["allocated_bytes.current"]
    accelerator.empty_host_cache()
    assert torch.openreg.host_memory_stats()["allocated_bytes.current"] < before


def test_memory_of_no_device_is_an_error():
    for name in ("memory_allocated", "get_memory_info", "memory_stats"):
        with pytest.raises(torch.AcceleratorError, match="out of range"):
            getattr(accelerator, name)(99)


# Names


def test_every_name_of_the_module_is_tested_here():
    """What PyTorch adds later shows up here."""
    later = {"Graph"}  # graphs of the device
    text = open(__file__).read()  # noqa: SIM115, PTH123
    for name in set(accelerator.__all__) - later:
        assert re.search(rf"\b{name}\b", text), f"torch.accelerator.{name}"
