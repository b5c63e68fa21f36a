"""What ``torch.openreg`` tells about device memory: statistics, peaks, a table."""

import gc

import pytest
import torch
from blocks import MIB, block, stat
from torch import openreg

pytestmark = pytest.mark.usefixtures("nothing_cached")


def test_peaks_are_kept_until_they_are_reset():
    openreg.reset_peak_memory_stats()
    base, reserved = openreg.memory_allocated(), openreg.memory_reserved()
    tensor = block(30 * MIB)
    del tensor
    assert openreg.max_memory_allocated() == base + 30 * MIB
    assert openreg.max_memory_reserved() == reserved + 30 * MIB
    openreg.empty_cache()
    openreg.reset_peak_memory_stats()
    assert openreg.max_memory_allocated() == base
    assert openreg.max_memory_reserved() == reserved


def test_the_old_name_of_the_reset_warns_and_resets_all_peaks():
    tensor = block(30 * MIB)
    del tensor
    openreg.empty_cache()
    with pytest.warns(FutureWarning, match="reset_peak_memory_stats"):
        openreg.reset_max_memory_allocated(0)
    assert openreg.max_memory_allocated() == openreg.memory_allocated()
    assert openreg.max_memory_reserved() == openreg.memory_reserved()


def test_sums_count_from_their_reset():
    tensor = block(512)
    del tensor
    stats = openreg.memory_stats()
    assert stats["allocated_bytes.all.allocated"] == 512
    assert stats["allocated_bytes.all.freed"] == 512
    openreg.empty_cache()
    assert stat("num_device_free") == 1
    openreg.reset_accumulated_memory_stats()
    after = openreg.memory_stats()
    sums = [name for name in after if name.endswith((".allocated", ".freed"))]
    counts = [name for name in after if name.startswith("num_")]
    assert {after[name] for name in sums + counts} == {0}
    assert after["allocated_bytes.all.current"] == openreg.memory_allocated()


def test_a_reset_concerns_one_device():
    tensors = block(512, "openreg:0"), block(512, "openreg:1")
    openreg.reset_accumulated_memory_stats(1)
    assert stat("allocation.all.allocated", 0) == 1
    assert stat("allocation.all.allocated", 1) == 0
    del tensors


def test_statistics_add_up():
    gc.collect()
    start = openreg.memory_stats_as_nested_dict(1)
    tensors = [block(size, "openreg:1") for size in (1, 700, 3 * MIB, 15 * MIB, MIB)]
    del tensors[::2]
    stats = openreg.memory_stats_as_nested_dict(1)
    for name, pools in stats.items():
        if not isinstance(pools, dict) or "all" not in pools:
            continue
        small, large = pools["small_pool"], pools["large_pool"]
        for which in ("current", "allocated", "freed"):
            assert pools["all"][which] == small[which] + large[which], name
        for pool, value in pools.items():
            grown = value["current"] - start[name][pool]["current"]
            assert grown == value["allocated"] - value["freed"], name
            assert value["peak"] >= value["current"], name
    assert stats["allocated_bytes"]["all"]["current"] == openreg.memory_allocated(1)
    assert stats["reserved_bytes"]["all"]["current"] == openreg.memory_reserved(1)
    inactive = stats["reserved_bytes"]["all"]["current"]
    inactive -= stats["active_bytes"]["all"]["current"]
    assert stats["inactive_split_bytes"]["all"]["current"] <= inactive


# What is asked, and how it is answered


STATISTICS = """active active_bytes allocated_bytes allocation inactive_split
    inactive_split_bytes requested_bytes reserved_bytes segment"""


def test_statistics_have_cudas_names():
    block(1)
    expected = {
        f"{name}.{pool}.{which}"
        for name in STATISTICS.split()
        for pool in ("all", "small_pool", "large_pool")
        for which in ("current", "peak", "allocated", "freed")
    }
    expected |= {
        f"oversize_{name}.{which}"
        for name in ("allocations", "segments")
        for which in ("current", "peak", "allocated", "freed")
    }
    expected |= {
        "max_split_size",
        "num_alloc_retries",
        "num_device_alloc",
        "num_device_free",
        "num_ooms",
        "num_sync_all_streams",
    }
    stats = openreg.memory_stats()
    assert expected - set(stats) == set()
    assert list(stats) == sorted(stats)
    assert stats["max_split_size"] == -1


def test_the_nested_statistics_are_the_same_numbers():
    block(1)
    nested, flat = openreg.memory_stats_as_nested_dict(), openreg.memory_stats()
    assert nested["segment"]["small_pool"]["peak"] == flat["segment.small_pool.peak"]
    assert nested["num_ooms"] == flat["num_ooms"]


QUESTIONS = (
    openreg.memory_allocated,
    openreg.memory_stats,
    openreg.memory_summary,
    openreg.mem_get_info,
    openreg.reset_peak_memory_stats,
    openreg.reset_accumulated_memory_stats,
)


@pytest.mark.parametrize("question", QUESTIONS, ids=lambda each: each.__name__)
def test_questions_take_every_form_of_device(question):
    block(1)
    for device in (None, 0, "openreg", "openreg:1", torch.device("openreg:1")):
        question(device)
    with pytest.raises(torch.AcceleratorError, match="device index is out of range"):
        question(99)
    with pytest.raises(ValueError, match="Expected an openreg device"):
        question("cpu")


def test_a_negative_index_is_the_current_device():
    tensor = block(4096, "openreg:1")
    with openreg.device(1):
        assert openreg.memory_allocated(-1) == openreg.memory_allocated(1) >= 4096
    del tensor


def test_the_summary_is_a_table():
    tensor = block(3 * MIB)
    summary = openreg.memory_summary(0)
    lines = summary.splitlines()
    assert "memory summary, device 0" in lines[1]
    assert {len(line) for line in lines} == {77}
    assert all(line[0] == line[-1] == "|" for line in lines)
    (row,) = (line for line in lines if line.startswith("| Reserved memory"))
    current, peak, *_ = (cell.strip() for cell in row.strip("|").split("|")[1:])
    assert current == peak == f"{openreg.memory_reserved() / MIB:.1f} MiB"
    assert "from large pool" in summary
    short = openreg.memory_summary(0, abbreviated=True)
    assert "from large pool" not in short
    assert len(short.splitlines()) < len(lines)
    del tensor


def test_the_profiler_is_told_of_every_block():
    with torch.autograd.profiler.profile(profile_memory=True) as profiler:
        tensor = block(1000, "openreg:1")
        del tensor
    events = [
        (each.nbytes(), each.device_type().name, each.device_index())
        for each in profiler.kineto_results.events()
        if each.name() == "[memory]"
    ]
    name = torch._C._autograd.DeviceType.OPENREG.name
    assert events == [(1024, name, 1), (-1024, name, 1)]


def test_there_is_one_allocator():
    assert openreg.get_allocator_backend() == "native"
