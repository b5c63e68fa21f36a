"""Files of safetensors: saved from the device, loaded straight to it."""

import pytest
import safetensors.torch
import torch

from torch_openreg.integrations.safetensors import load_file, safe_open

DTYPES = [
    torch.float32,
    torch.float64,
    torch.float16,
    torch.bfloat16,
    torch.int64,
    torch.uint8,
    torch.bool,
    torch.float8_e4m3fn,
]


@pytest.fixture
def tensors() -> dict[str, torch.Tensor]:
    return {
        str(dtype): torch.arange(24).remainder(3).reshape(2, 3, 4).to(dtype)
        for dtype in DTYPES
    } | {"empty": torch.empty(0, 5), "scalar": torch.tensor(2.5)}


@pytest.fixture
def path(tensors, tmp_path):
    file = tmp_path / "model.safetensors"
    safetensors.torch.save_file(tensors, file, metadata={"format": "pt"})
    return file


def test_the_library_itself_refuses_the_device(path):
    """As long as it does, the shim has a reason."""
    with pytest.raises(safetensors.SafetensorError, match="openreg"):
        safetensors.torch.load_file(path, device="openreg:0")


@pytest.mark.parametrize("device", ["openreg", "openreg:1", torch.device("openreg:1")])
def test_a_file_is_loaded_to_the_device(path, tensors, device):
    loaded = load_file(path, device)
    assert loaded.keys() == tensors.keys()
    place = torch.device(device)
    for name, tensor in loaded.items():
        assert tensor.device == torch.device("openreg", place.index or 0)
        assert tensor.dtype == tensors[name].dtype
        # Not torch.equal: it does not know every dtype.
        assert tensor.tolist() == tensors[name].tolist()


def test_parts_of_a_file_are_loaded_by_name_and_slice(path, tensors):
    with safe_open(path, framework="pt", device="openreg") as file:
        assert sorted(file.keys()) == sorted(tensors)
        assert file.metadata() == {"format": "pt"}
        part = file.get_slice("torch.float32")
        assert part.get_shape() == [2, 3, 4]
        assert part.get_dtype() == "F32"
        taken = part[:, 1]
    assert taken.device.type == "openreg"
    assert torch.equal(taken.cpu(), tensors["torch.float32"][:, 1])


def test_tensors_are_saved_from_the_device(path, tensors, tmp_path):
    """The library needs no help for that."""
    copy = tmp_path / "copy.safetensors"
    safetensors.torch.save_file(load_file(path, "openreg:1"), copy, {"format": "pt"})
    assert copy.read_bytes() == path.read_bytes()


def test_a_model_on_the_device_is_saved_and_loaded(tmp_path):
    """Nor for that."""
    file = tmp_path / "linear.safetensors"
    saved, loaded = (torch.nn.Linear(3, 2).to("openreg") for _ in range(2))
    safetensors.torch.save_model(saved, file)
    safetensors.torch.load_model(loaded, file)
    assert loaded.weight.device.type == "openreg"
    assert torch.equal(loaded.weight, saved.weight)


def test_a_missing_device_is_an_error_before_anything_is_read(path):
    with pytest.raises(RuntimeError, match="invalid device ordinal"):
        load_file(path, "openreg:9")
    with pytest.raises(RuntimeError, match="toaster"):
        load_file(path, "toaster")


def test_a_missing_file_a_bad_file_and_a_missing_name_are_errors(path, tmp_path):
    with pytest.raises(FileNotFoundError):
        load_file(tmp_path / "none.safetensors", "openreg")
    bad = tmp_path / "bad.safetensors"
    bad.write_bytes(path.read_bytes()[:40])
    with pytest.raises(safetensors.SafetensorError):
        load_file(bad, "openreg")
    with (
        safe_open(path, device="openreg") as file,
        pytest.raises(safetensors.SafetensorError, match="nobody"),
    ):
        file.get_tensor("nobody")
    with pytest.raises(ValueError, match="framework must be 'pt'"):
        safe_open(path, framework="np")
