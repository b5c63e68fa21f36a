"""Trains, is deprived of its device at a random moment, and trains on.

A program: ``kill_loop.py SEED KILLS``. Prints a summary as JSON, or ends with the
traceback of what went wrong.
"""

import copy
import gc
import json
import os
import random
import signal
import sys
import threading
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import nn

DEVICE = "openreg:0"
STEPS = 6
CHECKPOINT = 3  # steps before it

# What the driver promises between a death and the error of the next call.
PROMPTLY = 1.0


class Training:
    """A small network with dropout, so that random numbers count as well."""

    def __init__(self) -> None:
        """Begin anew."""
        torch.manual_seed(0)
        self.model = nn.Sequential(
            nn.Linear(32, 64), nn.GELU(), nn.Dropout(0.2), nn.Linear(64, 8)
        ).to(DEVICE)
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=0.01)
        self.step = 0

    def run(self, until: int) -> list[float]:
        """Train up to step ``until``; the losses come last, so steps overlap."""
        losses = []
        while self.step < until:
            x = torch.full((16, 32), 0.1 * self.step, device=DEVICE)
            loss = self.model(x).square().mean()
            self.optimizer.zero_grad()
            loss.backward()
            self.optimizer.step()
            losses.append(loss.detach())
            self.step += 1
        return torch.stack(losses).tolist()

    def save(self) -> dict[str, Any]:
        """Take everything to the host."""
        return to_host(
            {
                "model": self.model.state_dict(),
                "optimizer": self.optimizer.state_dict(),
                "random": torch.openreg.get_rng_state(0),
                "step": self.step,
            }
        )

    def load(self, saved: dict[str, Any]) -> None:
        """Go on from there."""
        # load_state_dict would turn every error into a RuntimeError of its own.
        for name, tensor in self.model.state_dict().items():
            tensor.copy_(saved["model"][name])
        # The optimizer keeps tensors of the CPU and counts in them.
        self.optimizer.load_state_dict(copy.deepcopy(saved["optimizer"]))
        torch.openreg.set_rng_state(saved["random"], 0)
        self.step = saved["step"]


def to_host(value: Any) -> Any:
    """Copy the tensors of a structure to the CPU."""
    return torch.utils._pytree.tree_map_only(
        torch.Tensor, lambda tensor: tensor.cpu().clone(), value
    )


class Killer:
    """Kills the device after a delay, and knows when."""

    def __init__(self, delay: float) -> None:
        """Begin to wait."""
        self.pid = torch.openreg.process_info(0).pid
        self.killed_at = float("inf")
        self._delay = delay
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _run(self) -> None:
        time.sleep(self._delay)
        self.killed_at = time.monotonic()
        os.kill(self.pid, signal.SIGKILL)

    def join(self) -> None:
        """Wait for the kill."""
        self._thread.join()


def train_until_lost(saved: dict[str, Any], killer: Killer) -> float:
    """Train over and over; return how long after the kill the error came."""
    while True:
        try:
            training = Training()
            training.load(saved)
            training.run(STEPS)
        except torch.AcceleratorError as error:
            came = time.monotonic()
            killer.join()
            message = str(error)
            expected = f"process {killer.pid} was killed by signal 9 (SIGKILL)"
            assert "device 0 is lost" in message, message
            assert expected in message, message
            return came - killer.killed_at
        overdue = time.monotonic() - killer.killed_at
        assert overdue < PROMPTLY, f"{overdue} s after the kill all is well"


def resident_bytes() -> int:
    """Return what this process has in memory."""
    pages = Path("/proc/self/statm").read_text().split()[1]
    return int(pages) * os.sysconf("SC_PAGE_SIZE")


def count(folder: str) -> int:
    """Return how many entries a folder has."""
    return len(list(Path(folder).iterdir()))


def expect_lost(use: Callable[[], object]) -> None:
    """Call ``use``, which must fail because of the device."""
    try:
        use()
    except torch.AcceleratorError as error:
        message = str(error)
    else:
        message = "it worked"
    assert "device 0 is lost" in message, message


def main(seed: int, kills: int) -> None:
    """Do it; see above."""
    chance = random.Random(seed)
    training = Training()
    training.run(CHECKPOINT)
    saved = training.save()
    begin = time.monotonic()
    expected = training.run(STEPS)
    length = time.monotonic() - begin
    other = torch.arange(1000.0, device="openreg:1")

    latencies, descriptors, memory, threads = [], [], [], []
    for number in range(kills):
        killer = Killer(chance.uniform(0, 4 * length))
        latencies.append(train_until_lost(saved, killer))
        # Nothing of the device works, and the other one goes on.
        expect_lost(partial(training.run, STEPS + 1))
        assert other.sum().item() == 499500
        torch.openreg.reset_device(0)
        training = Training()
        training.load(saved)
        assert training.run(STEPS) == expected, f"kill {number}"
        gc.collect()
        descriptors.append(count("/proc/self/fd"))
        threads.append(count("/proc/self/task"))
        memory.append(resident_bytes())
    summary = {
        "latencies": latencies,
        "descriptors": descriptors,
        "threads": threads,
        "memory": memory,
    }
    print(json.dumps(summary))


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]))
