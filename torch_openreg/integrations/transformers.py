"""The memory metrics of transformers' Trainer, for this device.

``TrainingArguments(skip_memory_metrics=False)`` measures the devices that the library
knows by name, and here the host alone. A callback can add the rest:

    trainer = Trainer(..., callbacks=[MemoryMetrics()])
"""

from __future__ import annotations

import gc
from typing import Any

from transformers import TrainerCallback

from torch_openreg import openreg

__all__ = ["MemoryMetrics"]


class MemoryMetrics(TrainerCallback):
    """Adds the device's memory to the metrics at the end of ``Trainer.train``.

    The names and meanings are the library's: ``train_mem_gpu_alloc_delta`` is how many
    bytes more are allocated at the end than at the beginning, and
    ``train_mem_gpu_peaked_delta`` how many more than at the end there were in between.
    As the library does, it empties the cache and resets the peak of the current device.
    Evaluation is not measured: callbacks are not told when it begins.
    """

    _at_start: int | None = None

    def on_train_begin(self, *_args: Any, **_kwargs: Any) -> None:
        """Note how much is allocated."""
        gc.collect()
        openreg.empty_cache()
        openreg.reset_peak_memory_stats()
        self._at_start = openreg.memory_allocated()

    def on_log(self, *_args: Any, **kwargs: Any) -> None:
        """Complete the metrics of the whole training, the last that it logs."""
        logs = kwargs["logs"]
        if self._at_start is None or "train_runtime" not in logs:
            return
        gc.collect()
        now = openreg.memory_allocated()
        peak = openreg.max_memory_allocated()
        logs["train_mem_gpu_alloc_delta"] = now - self._at_start
        logs["train_mem_gpu_peaked_delta"] = max(0, peak - now)
        self._at_start = None
