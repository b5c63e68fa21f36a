"""The code of docs/ecosystem.md works."""

import re
from pathlib import Path

import lightning
import safetensors.torch
import torch

PAGE = Path(__file__).resolve().parents[2] / "docs" / "ecosystem.md"


def test_the_code_of_the_page_works(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    safetensors.torch.save_file({"a": torch.ones(2)}, "model.safetensors")
    names: dict[str, object] = {}
    codes = re.findall(r"^```py\n(.*?)^```", PAGE.read_text(), re.M | re.S)
    assert len(codes) == 3
    for code in codes:
        exec(code, names)
        trainer = names["trainer"]
        assert isinstance(trainer, lightning.Trainer)
        assert trainer.strategy.root_device == torch.device("openreg:0")
    assert str(names["weights"]["a"].device) == "openreg:1"
