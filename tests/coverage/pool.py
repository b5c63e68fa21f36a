"""Worker processes: a crash or a hang of a case is that case's result.

Does not import PyTorch.
"""

import contextlib
import json
import os
import select
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable
from itertools import groupby
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
_READY_SECONDS = 600
_LAST_LINES = 6

Result = dict[str, Any]


class WorkerDiedError(Exception):
    """The worker has ended, or was ended since it took too long."""

    def __init__(self, verdict: str, reason: str) -> None:
        super().__init__(reason)
        self.verdict = verdict


class Worker:
    """One process. Not thread-safe."""

    def __init__(self, checked: bool = False) -> None:
        """With ``checked``, the C library looks after the heap and ends the process."""
        more = {"LD_PRELOAD": "libc_malloc_debug.so.0", "MALLOC_CHECK_": "3"}
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.coverage.worker"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            cwd=ROOT,
            env={**os.environ, **(more if checked else {})},
        )
        self._pending = b""
        self._read(_READY_SECONDS)

    def run(
        self, case: str, limit: int, seconds: float, on_cpu: bool = False
    ) -> Result:
        """Run a case. Raises ``WorkerDiedError`` if it does not come back."""
        order = json.dumps({"case": case, "limit": limit, "on_cpu": on_cpu}) + "\n"
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(order.encode())
            self._process.stdin.flush()
        except BrokenPipeError:
            raise self._died() from None
        self._read(seconds)
        result: Result = self._read(seconds)["result"]
        return result

    def finish(self) -> int:
        """End the process; returns the bytes of device memory that were left."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        left: int = self._read(_READY_SECONDS)["left"]
        self._process.wait(_READY_SECONDS)
        self._close()
        return left

    def kill(self) -> None:
        """End the process, whatever it does."""
        self._process.kill()
        self._process.wait()
        self._close()

    def _close(self) -> None:
        for stream in (self._process.stdin, self._process.stdout, self._errors):
            if stream is not None:
                with contextlib.suppress(BrokenPipeError):
                    stream.close()

    def _read(self, seconds: float) -> dict[str, Any]:
        """The next line. Raises ``WorkerDiedError`` at the end and after the time."""
        assert self._process.stdout is not None
        handle = self._process.stdout.fileno()
        end = time.monotonic() + seconds
        while b"\n" not in self._pending:
            left = max(0.0, end - time.monotonic())
            if not select.select([handle], [], [], left)[0]:
                raise WorkerDiedError("hang", f"no result after {seconds:.0f} s")
            chunk = os.read(handle, 1 << 16)
            if not chunk:
                raise self._died()
            self._pending += chunk
        line, self._pending = self._pending.split(b"\n", 1)
        message: dict[str, Any] = json.loads(line)
        return message

    def _died(self) -> WorkerDiedError:
        code = self._process.wait(_READY_SECONDS)
        name = signal.Signals(-code).name if code < 0 else f"exit code {code}"
        self._errors.seek(0)
        lines = self._errors.read().decode(errors="replace").splitlines()
        return WorkerDiedError("crash", " / ".join([name, *lines[-_LAST_LINES:]]))


class Lane:
    """Runs cases one after the other, in a worker that is replaced when it dies."""

    def __init__(self, limit: int, seconds: float, life: int = 4000) -> None:
        self._limit, self._seconds, self._life = limit, seconds, life
        self._worker: Worker | None = None
        self._age = 0

    def run(self, case: str) -> Result:
        """The result of the case, whatever it does."""
        if self._worker is None:
            self._worker, self._age = Worker(), 0
        try:
            result = self._worker.run(case, self._limit, self._seconds)
        except WorkerDiedError as death:
            self._worker.kill()
            self._worker = None
            return self._blame(case, death)
        self._age += 1
        if self._age >= self._life and (left := self.finish()) > 0:
            result["verdict"] = "leak"
            result["reason"] = f"{left} bytes are left at the end of the worker"
        return result

    def _blame(self, case: str, death: WorkerDiedError) -> Result:
        """The result of a case that did not come back: maybe the CPU's fault."""
        worker = Worker(checked=True)
        try:
            worker.run(case, self._limit, self._seconds, on_cpu=True)
        except WorkerDiedError as again:
            reason = f"on the CPU too: {again.verdict}"
            return {"case": case, "verdict": "excluded", "reason": reason}
        finally:
            worker.kill()
        return {"case": case, "verdict": death.verdict, "reason": str(death)}

    def finish(self) -> int:
        """End the worker, if there is one; returns the bytes that were left."""
        worker, self._worker = self._worker, None
        try:
            return worker.finish() if worker is not None else 0
        except WorkerDiedError:
            assert worker is not None
            worker.kill()
            return -1


def run_all(
    cases: Iterable[str],
    report: Callable[[Result], None],
    *,
    lanes: int = 1,
    limit: int = 0,
    seconds: float = 120,
) -> int:
    """Run the cases in ``lanes`` processes; ``report`` is called for one at a time.

    The cases of an entry stay together: they share samples. Returns the bytes of
    device memory that were left at the end.
    """
    work = deque(list(g) for _, g in groupby(cases, lambda c: c.rsplit("/", 2)[0]))
    lock = threading.Lock()
    left = [0] * lanes

    def drive(number: int) -> None:
        lane = Lane(limit, seconds)
        try:
            while True:
                with lock:
                    if not work:
                        break
                    group = work.popleft()
                for case in group:
                    result = lane.run(case)
                    with lock:
                        report(result)
        finally:
            left[number] = lane.finish()

    threads = [threading.Thread(target=drive, args=(i,)) for i in range(lanes)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return sum(left)


def list_cases() -> list[str]:
    """All cases, from a process of its own: the databases change PyTorch's settings."""
    command = [sys.executable, "-m", "tests.coverage", "list"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    return done.stdout.split()
