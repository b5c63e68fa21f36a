"""The table of ``torch.openreg.memory_summary``."""

from collections.abc import Callable, Iterator
from typing import Any

_BYTES, _COUNT = True, False
_ROWS = (
    ("Allocated memory", "allocated_bytes", _BYTES),
    ("Active memory", "active_bytes", _BYTES),
    ("Requested memory", "requested_bytes", _BYTES),
    ("Reserved memory", "reserved_bytes", _BYTES),
    ("Non-releasable memory", "inactive_split_bytes", _BYTES),
    ("Allocations", "allocation", _COUNT),
    ("Active allocs", "active", _COUNT),
    ("Reserved segments", "segment", _COUNT),
    ("Non-releasable allocs", "inactive_split", _COUNT),
)
_OVERSIZE_ROWS = (
    ("Oversize allocations", "oversize_allocations"),
    ("Oversize segments", "oversize_segments"),
)
_COLUMNS = (
    ("Cur Usage", "current"),
    ("Peak Usage", "peak"),
    ("Tot Alloc", "allocated"),
    ("Tot Freed", "freed"),
)
_NAME_WIDTH, _VALUE_WIDTH = 23, 12
_WIDTH = 1 + (_NAME_WIDTH + 1) + len(_COLUMNS) * (_VALUE_WIDTH + 1)


def _format_bytes(value: int) -> str:
    """Write ``value`` with at most four digits before its unit."""
    scaled, unit = float(value), "B"
    for larger in ("KiB", "MiB", "GiB", "TiB", "PiB"):
        if abs(scaled) < 1024:
            break
        scaled, unit = scaled / 1024, larger
    digits = 0 if unit == "B" else 1
    return f"{scaled:.{digits}f} {unit:<3}"


def _format_count(value: int) -> str:
    """Write ``value`` in full up to six digits, then in thousands or millions."""
    for limit, divisor, unit in ((10**6, 1, " "), (10**9, 10**3, "K")):
        if abs(value) < limit:
            return f"{value // divisor} {unit}"
    return f"{value // 10**6} M"


def _line(name: str, values: list[str]) -> str:
    cells = [f" {name}".ljust(_NAME_WIDTH)]
    cells += [f"{value} ".rjust(_VALUE_WIDTH) for value in values]
    return "|" + "|".join(cells) + "|"


def _rule(mark: str) -> str:
    return "|" + mark * (_WIDTH - 2) + "|"


def _row(
    name: str, key: str, stats: dict[str, Any], to_text: Callable[[int], str]
) -> str:
    """Write the line of the statistics that begin with ``key``."""
    values = [stats.get(f"{key}.{which}", 0) for _, which in _COLUMNS]
    return _line(name, [to_text(value) for value in values])


def _lines(index: int, stats: dict[str, Any], abbreviated: bool) -> Iterator[str]:
    events = (
        f" OOMs: {stats.get('num_ooms', 0)}",
        f" Allocation retries: {stats.get('num_alloc_retries', 0)}",
    )
    half = (_WIDTH - 3) // 2
    yield _rule("=")
    yield f"|{f'OpenReg memory summary, device {index}':^{_WIDTH - 2}}|"
    yield _rule("-")
    yield f"|{events[0]:<{half}}|{events[1]:<{_WIDTH - 3 - half}}|"
    yield _rule("=")
    yield _line("Metric", [title for title, _ in _COLUMNS])
    for name, key, is_bytes in _ROWS:
        to_text = _format_bytes if is_bytes else _format_count
        yield _rule("-")
        yield _row(name, f"{key}.all", stats, to_text)
        if not abbreviated:
            yield _row("  from large pool", f"{key}.large_pool", stats, to_text)
            yield _row("  from small pool", f"{key}.small_pool", stats, to_text)
    for name, key in _OVERSIZE_ROWS:
        yield _rule("-")
        yield _row(name, key, stats, _format_count)
    yield _rule("=")


def render_table(index: int, stats: dict[str, Any], abbreviated: bool) -> str:
    """Return ``stats``, which may be empty, as a table for device ``index``."""
    return "\n".join(_lines(index, stats, abbreviated)) + "\n"
