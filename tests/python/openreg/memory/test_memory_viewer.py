"""PyTorch's viewer of CUDA's memory opens our snapshots."""

import base64
import gc
import json
import pickle
import re

import pytest
import torch
from process import run_script
from torch import openreg
from torch.cuda import _memory_viz as viz
from torch.openreg.memory import _dump_snapshot, _record_memory_history, _snapshot

MIB = 1 << 20


@pytest.fixture(autouse=True)
def _no_history():
    """Every test starts with empty caches and ends without a history."""
    gc.collect()
    openreg.empty_cache()
    yield
    _record_memory_history(None)


def block(size: int, device: str = "openreg:0") -> torch.Tensor:
    return torch.empty(size, dtype=torch.uint8, device=device)


def use_and_free() -> None:
    tensor = block(12 * MIB)
    del tensor
    openreg.empty_cache()


@pytest.fixture
def snapshot() -> dict:
    """One with every kind of action, of both devices."""
    _record_memory_history(stacks="python")
    use_and_free()
    with pytest.raises(torch.OutOfMemoryError):
        block(1 << 50)
    kept = block(3 * MIB), block(100, "openreg:1")
    taken = _snapshot()
    del kept
    return taken


def test_the_viewer_prints_segments_and_the_trace(snapshot):
    printed = viz.segsum(snapshot)
    assert f"segments: {len(snapshot['segments'])}\n" in printed
    assert "20.0MiB allocated" in printed
    printed = viz.trace(snapshot)
    assert "Device 0 ---" in printed
    assert "Device 1 ---" in printed
    assert re.search(r"\w+ = \w+\[0:3\.0MiB\]", printed)
    assert re.search(r"raise OutOfMemoryError # .+ requested, .+ free", printed)


@pytest.mark.parametrize(
    ("plot", "kind"),
    [
        (viz.trace_plot, "Active Memory Timeline"),
        (lambda data: viz.trace_plot(data, plot_segments=True), "Active Cached Memory"),
        (
            lambda data: viz.trace_plot(data, filter_freed=True),
            "Active Memory Timeline",
        ),
        (viz.segment_plot, "Allocator State History"),
    ],
)
def test_the_viewer_makes_pages_that_hold_the_snapshot(snapshot, plot, kind, capsys):
    page = plot(snapshot)
    assert kind in page
    (files,) = re.findall(r"local_files = (.*)", page)
    encoded = base64.b64decode(json.loads(files)[0]["base64"])
    assert pickle.loads(encoded)["segments"] == snapshot["segments"]
    assert capsys.readouterr().out == ""  # no free without its request


def test_the_viewer_draws_flame_graphs(snapshot):
    for draw in (viz.segments, viz.memory):
        lines = draw(snapshot, format_flamegraph=str.splitlines)
        assert any(re.search(r"viewer\.py:\d+:block", line) for line in lines)
    lines = viz.compare([], snapshot["segments"], format_flamegraph=str.splitlines)
    assert any(line.startswith("only_after;") for line in lines)


def test_a_dumped_snapshot_is_opened_by_the_viewers_program(tmp_path):
    _record_memory_history()
    tensor = block(3 * MIB)
    path = tmp_path / "snapshot.pickle"
    _dump_snapshot(str(path))
    assert set(pickle.loads(path.read_bytes())) == {
        "segments",
        "device_traces",
        "allocator_settings",
        "external_annotations",
    }
    script = """
        import runpy, sys
        sys.argv[0] = "_memory_viz"
        runpy.run_module("torch.cuda._memory_viz", run_name="__main__")
    """
    assert "total_reserved" in run_script(script, "stats", str(path))
    page = tmp_path / "page.html"
    run_script(script, "trace_plot", str(path), "-o", str(page))
    assert "Active Memory Timeline" in page.read_text(encoding="utf-8")
    del tensor
