"""The code of docs/ecosystem.md works."""

import re
from pathlib import Path

import lightning
import pytest
import safetensors.torch
import torch
from accelerate.state import AcceleratorState

from torch_openreg.integrations import safetensors as shim

PAGE = Path(__file__).resolve().parents[2] / "docs" / "ecosystem.md"


@pytest.fixture
def _alone(monkeypatch):
    """Run accelerate on the device; it and safetensors are afterwards as they were."""
    AcceleratorState._reset_state(reset_partial_state=True)
    monkeypatch.setenv("ACCELERATE_TORCH_DEVICE", "openreg")
    yield
    shim.uninstall()
    AcceleratorState._reset_state(reset_partial_state=True)


@pytest.mark.usefixtures("_alone")
def test_the_code_of_the_page_works(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    safetensors.torch.save_file({"a": torch.ones(2)}, "model.safetensors")
    names: dict[str, object] = {}
    codes = re.findall(r"^```py\n(.*?)^```", PAGE.read_text(), re.M | re.S)
    assert len(codes) == 6
    trainers = 0
    for code in codes:
        exec(code, names)
        trainer = names.pop("trainer", None)
        if trainer is not None:
            trainers += 1
            assert isinstance(trainer, lightning.Trainer)
            assert trainer.strategy.root_device == torch.device("openreg:0")
    assert trainers == 2
    assert names["accelerator"].device.type == "openreg"
    assert len(names["callbacks"]) == 1
    assert str(names["weights"]["a"].device) == "openreg:1"
    loaded = safetensors.torch.load_file("model.safetensors", device="openreg:1")
    assert loaded["a"].tolist() == [1.0, 1.0]
