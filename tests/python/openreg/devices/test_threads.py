"""Threads that use the device at the same time."""

import gc

import torch
from in_threads import in_threads
from process import run_script
from torch import openreg


def test_the_first_use_may_come_from_several_threads_at_once():
    script = """
        import threading, torch
        torch.manual_seed(3)
        start, results = threading.Barrier(8), []
        def work(index):
            start.wait()
            with torch.openreg.device(index % 2):
                results.append(torch.full((2,), 1.0, device="openreg").tolist())
        threads = [threading.Thread(target=work, args=(i,)) for i in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        print(results == [[1.0, 1.0]] * 8, torch.openreg.initial_seed())
    """
    assert run_script(script) == "True 3\n"


def test_threads_do_not_get_each_others_memory():
    """Each writes its number, and finds it after the others have written theirs."""
    gc.collect()
    before = [openreg.memory_allocated(device) for device in range(2)]

    def work(index: int) -> None:
        openreg.set_device(index % 2)
        with openreg.stream(openreg.Stream() if index > 1 else None):
            for step in range(50):
                size = 1 + (step * 7919 + index * 104729) % 100_000
                tensor = torch.full((size,), float(index), device="openreg")
                copy = tensor.clone()
                del tensor
                assert copy.cpu().eq(index).all()

    in_threads(work)
    assert [openreg.memory_allocated(device) for device in range(2)] == before


def test_a_tensor_may_be_used_and_freed_by_another_thread():
    gc.collect()
    before = openreg.memory_allocated()
    tensors = [torch.full((1000,), float(i), device="openreg") for i in range(4)]
    sums = [0.0] * 4

    def work(index: int) -> None:
        tensor = tensors[index]
        tensors[index] = None
        sums[index] = tensor.sum().item()

    in_threads(work)
    assert sums == [0, 1000, 2000, 3000]
    assert openreg.memory_allocated() == before


def test_threads_record_blocks_on_each_others_streams():
    gc.collect()
    before = openreg.memory_stats()["active_bytes.all.current"]
    streams = [openreg.Stream() for _ in range(4)]

    def work(index: int) -> None:
        mine, other = streams[index], streams[index - 1]
        for _ in range(50):
            with openreg.stream(mine):
                tensor = torch.full((500,), float(index), device="openreg")
            other.wait_stream(mine)
            with openreg.stream(other):
                copy = torch.empty_like(tensor)
                copy.copy_(tensor)
            tensor.record_stream(other)
            del tensor
            with openreg.stream(other):
                assert copy.cpu().eq(index).all()

    in_threads(work)
    openreg.synchronize()
    openreg.empty_cache()
    assert openreg.memory_stats()["active_bytes.all.current"] == before


def test_questions_and_settings_may_come_from_any_thread():
    def work(index: int) -> None:
        for _ in range(20):
            openreg.memory_stats(index % 2)
            openreg.memory_snapshot()
            openreg.empty_cache()
            openreg.reset_peak_memory_stats(index % 2)
            torch.empty(1000, device=f"openreg:{index % 2}")
            torch.empty(1000, pin_memory=True)

    in_threads(work)


def test_the_history_is_recorded_from_every_thread():
    memory = openreg.memory
    memory._record_memory_history(stacks="python")

    def work(index: int) -> None:
        for _ in range(20):
            torch.empty(1000, device="openreg")
            memory._snapshot()

    try:
        in_threads(work)
        trace = memory._snapshot()["device_traces"][0]
    finally:
        memory._record_memory_history(None)
    allocations = [entry for entry in trace if entry["action"] == "alloc"]
    assert len(allocations) == 80
    assert all(entry["frames"][0]["name"] == "work" for entry in allocations)
