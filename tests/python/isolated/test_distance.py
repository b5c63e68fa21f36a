"""Device memory is nowhere in the program: another process has it."""

import os
import re
from collections.abc import Iterator
from pathlib import Path

import numpy
import torch
from programs import running

BYTES = 1 << 20


PAGE = os.sysconf("SC_PAGE_SIZE")
STEP = 4096  # pages that are read at a time


def contains(pid: int, patterns: list[bytes]) -> list[str]:
    """Return where in a process one of ``patterns`` occurs.

    Looks at the pages that it has mapped, and at the memory that it shares with
    others, mapped or not. Untouched pages are left alone: reading would make them.
    """
    return private_places(pid, patterns) + shared_places(pid, patterns)


def private_places(pid: int, patterns: list[bytes]) -> list[str]:
    """Return the mappings with one of ``patterns``."""
    found = []
    root = Path(f"/proc/{pid}")
    with (
        (root / "mem").open("rb", buffering=0) as memory,
        (root / "pagemap").open("rb", buffering=0) as pagemap,
    ):
        for line in (root / "maps").read_text().splitlines():
            match = re.match(r"([0-9a-f]+)-([0-9a-f]+) r\S* .*", line)
            if match is None or line.endswith(("[vsyscall]", "[vvar]")):
                continue
            start, end = (int(number, 16) // PAGE for number in match.groups())
            for first, count in present_runs(pagemap, start, end):
                if any(pattern in read(memory, first, count) for pattern in patterns):
                    found.append(line)
                    break
    return found


def present_runs(pagemap, start: int, end: int) -> Iterator[tuple[int, int]]:
    """Yield the runs of pages that are there, as the first one and their number."""
    for at in range(start, end, STEP):
        pagemap.seek(at * 8)
        entries = numpy.frombuffer(pagemap.read(8 * min(STEP, end - at)), "<u8")
        present = (entries >> numpy.uint64(62)) != 0  # in memory, or swapped out
        edges = numpy.flatnonzero(numpy.diff(present, prepend=False, append=False))
        for first, last in edges.reshape(-1, 2):
            yield at + int(first), int(last - first)


def read(memory, first: int, count: int) -> bytes:
    """Return the bytes of pages; empty if the system has its own plans with them."""
    try:
        memory.seek(first * PAGE)
        return memory.read(count * PAGE)
    except OSError:
        return b""


def shared_places(pid: int, patterns: list[bytes]) -> list[str]:
    """Return the open files in memory with one of ``patterns``."""
    found = []
    for link in Path(f"/proc/{pid}/fd").iterdir():
        name = str(link.readlink())
        if not name.startswith("/memfd:"):
            continue
        with link.open("rb", buffering=0) as file:
            if any(pattern in data for data in extents(file) for pattern in patterns):
                found.append(name)
    return found


def extents(file) -> Iterator[bytes]:
    """Yield what a sparse file holds."""
    end = 0
    while True:
        try:
            start = os.lseek(file.fileno(), end, os.SEEK_DATA)
        except OSError:
            return  # no more
        end = os.lseek(file.fileno(), start, os.SEEK_HOLE)
        yield os.pread(file.fileno(), end - start, start)


def test_a_tensor_is_found_in_the_device_process_and_nowhere_else():
    """The same seed gives the same bytes here, so that the program has no copy."""
    torch.manual_seed(1234)
    expected = torch.rand(BYTES // 4).numpy().tobytes()
    patterns = [expected[at : at + 32] for at in range(4096, BYTES, BYTES // 16)]
    script = f"""
        torch.openreg.manual_seed(1234)
        x = torch.rand({BYTES // 4}, device="openreg:0")
        y = x.clone()
        total = (x + y).sum().item()
        torch.openreg.synchronize(0)
        print(pid_of(0), flush=True)
        sys.stdin.readline()
        # It was the pattern that was looked for.
        print(x[1024:1032].tolist(), flush=True)
    """
    with running(script) as program:
        device = int(program.read_line())
        assert device != program.pid
        assert contains(device, patterns) != [], "the pattern is wrong"
        assert contains(program.pid, patterns) == []
        program.write_line()
        values = torch.frombuffer(bytearray(expected), dtype=torch.float32)
        assert program.read_line() == str(values[1024:1032].tolist())
