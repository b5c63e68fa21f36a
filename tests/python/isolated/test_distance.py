"""Device memory is nowhere in the program: another process has it."""

import re
from pathlib import Path

import torch
from programs import running

BYTES = 1 << 20


def contains(pid: int, patterns: list[bytes]) -> list[str]:
    """Return the mappings of a process in which one of ``patterns`` occurs."""
    found = []
    maps = Path(f"/proc/{pid}/maps").read_text().splitlines()
    with Path(f"/proc/{pid}/mem").open("rb", buffering=0) as memory:
        for line in maps:
            match = re.match(r"([0-9a-f]+)-([0-9a-f]+) r\S* ", line)
            if match is None:
                continue
            start, end = (int(number, 16) for number in match.groups())
            if has_any(memory, start, end, patterns):
                found.append(line)
    return found


def has_any(memory, start: int, end: int, patterns: list[bytes]) -> bool:
    """Whether one of ``patterns`` lies between two addresses that can be read."""
    step = 16 << 20
    overlap = max(len(pattern) for pattern in patterns)
    for begin in range(start, end, step):
        try:
            memory.seek(begin)
            data = memory.read(min(step + overlap, end - begin))
        except (OSError, ValueError):
            return False  # vsyscall and the like
        if any(pattern in data for pattern in patterns):
            return True
    return False


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
