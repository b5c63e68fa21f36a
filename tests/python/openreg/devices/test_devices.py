"""Devices: names, the current one, properties."""

import threading

import pytest
import torch
from process import run_script


def in_thread(call):
    """Return what ``call`` returns on a new thread."""
    results = []
    thread = threading.Thread(target=lambda: results.append(call()))
    thread.start()
    thread.join(timeout=60)
    return results[0]


# Names and numbers


def test_device_object_needs_no_device():
    assert str(torch.device("openreg:99")) == "openreg:99"
    assert torch.device("openreg").index is None


def test_index_of_a_device_object_is_one_byte():
    """PyTorch's own arithmetic, the same for every device type."""
    assert str(torch.device("openreg", 300)) == "openreg:44"


def test_number_alone_names_a_device_of_the_accelerator():
    assert str(torch.device(1)) == "openreg:1"
    assert str(torch.empty(1, device=0).device) == "openreg:0"
    assert str(torch.empty(1, device=1).device) == "openreg:1"


def test_get_device_is_the_index_and_minus_one_on_the_host():
    assert torch.ones(1, device="openreg:0").get_device() == 0
    assert torch.ones(1, device="openreg:1").get_device() == 1
    assert torch.ones(1).get_device() == -1


def test_device_module_is_found_by_type_by_device_and_by_default():
    assert torch.get_device_module("openreg") is torch.openreg
    assert torch.get_device_module(torch.device("openreg:1")) is torch.openreg
    assert torch.get_device_module() is torch.openreg


# The current device


def test_tensor_without_an_index_follows_the_current_device():
    assert str(torch.empty(1, device="openreg").device) == "openreg:0"
    torch.openreg.set_device(1)
    assert str(torch.empty(1, device="openreg").device) == "openreg:1"
    assert str(torch.ones(1).to("openreg").device) == "openreg:1"
    assert str(torch.ones(1).openreg().device) == "openreg:1"
    assert str(torch.UntypedStorage(1, device="openreg").device) == "openreg:1"
    assert str(torch.tensor([1], device="openreg").device) == "openreg:1"
    assert torch.Stream("openreg").device_index == 1


def test_tensor_keeps_its_device_when_another_becomes_current():
    x = torch.ones(2, device="openreg:0")
    with torch.openreg.device(1):
        assert str(x.clone().device) == "openreg:0"
        assert str((x + x).device) == "openreg:0"
        assert str(torch.empty_like(x).device) == "openreg:0"
        assert str(x.new_empty(1).device) == "openreg:0"
        assert torch.openreg.current_device() == 1


def test_to_without_an_index_means_the_current_device():
    x = torch.ones(1, device="openreg:0")
    assert x.to("openreg") is x
    with torch.openreg.device(1):
        assert str(x.to("openreg").device) == "openreg:1"


@pytest.mark.parametrize("device", [1, "openreg:1", torch.device("openreg:1")])
def test_set_device_takes_every_form(device):
    torch.openreg.set_device(device)
    assert torch.openreg.current_device() == 1


@pytest.mark.parametrize("device", ["openreg", torch.device("openreg"), None])
def test_set_device_needs_an_index(device):
    with pytest.raises(ValueError, match="specified index"):
        torch.openreg.set_device(device)


def test_negative_index_sets_nothing():
    torch.openreg.set_device(1)
    torch.openreg.set_device(-1)
    assert torch.openreg.current_device() == 1


@pytest.mark.parametrize("device", [1, "openreg:1", torch.device("openreg:1")])
def test_device_context_takes_every_form_and_restores(device):
    with torch.openreg.device(device):
        assert torch.openreg.current_device() == 1
    assert torch.openreg.current_device() == 0


@pytest.mark.parametrize("device", [-1, None, "openreg"])
def test_device_context_may_change_nothing(device):
    torch.openreg.set_device(1)
    with torch.openreg.device(device):
        assert torch.openreg.current_device() == 1
    assert torch.openreg.current_device() == 1


def test_device_contexts_nest_and_restore_after_an_exception():
    def fail():
        with torch.openreg.device(1), torch.openreg.device(0):
            assert torch.openreg.current_device() == 0
            raise KeyError

    with pytest.raises(KeyError):
        fail()
    assert torch.openreg.current_device() == 0


def test_device_of_follows_tensors_and_storages_of_the_device():
    x = torch.ones(1, device="openreg:1")
    for thing in (x, x.untyped_storage()):
        with torch.openreg.device_of(thing):
            assert torch.openreg.current_device() == 1
    with torch.openreg.device_of(torch.ones(1)):
        assert torch.openreg.current_device() == 0


def test_default_device_and_device_context_of_torch_place_tensors():
    with torch.device("openreg:1"):
        assert str(torch.empty(1).device) == "openreg:1"
    torch.set_default_device("openreg:1")
    try:
        assert str(torch.empty(1).device) == "openreg:1"
        assert str(torch.get_default_device()) == "openreg:1"
    finally:
        torch.set_default_device(None)


def test_every_thread_has_its_own_current_device_at_first_0():
    torch.openreg.set_device(1)
    assert in_thread(torch.openreg.current_device) == 0
    assert in_thread(lambda: torch.openreg.set_device(0)) is None
    assert torch.openreg.current_device() == 1


def test_exchange_device_gives_the_one_before():
    assert torch.openreg._exchange_device(1) == 0
    assert torch.openreg._maybe_exchange_device(0) == 1
    assert torch.openreg._exchange_device(-1) == -1
    assert torch.openreg._maybe_exchange_device(-1) == -1
    assert torch.openreg.current_device() == 0


# What a device is


def test_properties_have_cudas_fields():
    properties = torch.openreg.get_device_properties(0)
    assert properties.name == torch.openreg.get_device_name(0)
    capability = (properties.major, properties.minor)
    assert capability == torch.openreg.get_device_capability("openreg:0")
    assert properties.total_memory == torch.openreg.mem_get_info(0)[1]
    assert properties.multi_processor_count >= 1
    assert properties.name in repr(properties)


def test_properties_are_of_the_current_device_by_default():
    script = """
        import torch
        with torch.openreg.device(1):
            print(torch.openreg.get_device_properties().total_memory)
    """
    assert run_script(script, env={"OPENREG_MEMORY": "64MiB"}) == f"{64 << 20}\n"


def test_devices_are_peers_of_each_other_and_not_of_themselves():
    """Unless each is a process of its own, and has its memory to itself."""
    are_peers = not torch.openreg.get_device_properties(0).isolated
    assert torch.openreg.can_device_access_peer(0, 1) == are_peers
    assert torch.openreg.can_device_access_peer("openreg:1", "openreg:0") == are_peers
    assert not torch.openreg.can_device_access_peer(0, 0)


def test_peer_that_does_not_exist_is_an_assertion():
    with pytest.raises(AssertionError, match="Invalid device id 99"):
        torch.openreg.can_device_access_peer(99, 0)
    with pytest.raises(AssertionError, match="Invalid peer device id 99"):
        torch.openreg.can_device_access_peer(0, 99)


def test_bfloat16_is_supported():
    assert torch.openreg.is_bf16_supported()
    assert torch.openreg.is_bf16_supported(including_emulation=False)
