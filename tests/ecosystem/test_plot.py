"""The plot of the example that learns sonnets."""

import importlib
from pathlib import Path

import matplotlib.image
import pytest

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"


@pytest.fixture
def gpt(monkeypatch):
    """The example."""
    monkeypatch.syspath_prepend(EXAMPLES)
    return importlib.import_module("gpt")


def test_the_loss_is_plotted(gpt, tmp_path, capsys):
    path = tmp_path / "loss.png"
    assert gpt.main(["--steps", "2", "--sample", "2", "--plot", str(path)]) == 0
    assert f"The loss is plotted in {path}." in capsys.readouterr().out
    picture = matplotlib.image.imread(path)
    assert picture.shape[0] > 300
    assert picture.shape[1] > 600
    assert len({tuple(pixel) for row in picture for pixel in row.tolist()}) > 10
