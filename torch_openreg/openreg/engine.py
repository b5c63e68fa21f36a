"""How operators run on the device: what was counted, and what fell back to the CPU."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from torch_openreg import _C
from torch_openreg.openreg._lazy import is_initialized

__all__ = [
    "FallbackReport",
    "FallbackUse",
    "engine_stats",
    "fallback_report",
    "get_sync_debug_mode",
    "is_strict",
    "reset_fallback_report",
    "set_strict",
    "set_sync_debug_mode",
    "strict",
]

_SYNC_DEBUG_MODES = ("default", "warn", "error")


@dataclass(frozen=True)
class FallbackUse:
    """One operator that ran on the CPU, on copies."""

    operator: str
    reason: str
    count: int
    bytes: int
    """Copied from the device; what came back is not in it."""
    where: str
    """The file and line of the first use; empty where Python was not running."""


class FallbackReport(tuple[FallbackUse, ...]):
    """The operators that ran on the CPU, the most frequent first.

    A tuple of :class:`FallbackUse`; as text, a table.
    """

    __slots__ = ()

    def __str__(self) -> str:
        """Return the table."""
        if not self:
            return "No operator has run on the CPU."
        head = ("operator", "count", "bytes", "reason", "where first")
        rows = [
            (use.operator, f"{use.count:,}", f"{use.bytes:,}", use.reason, use.where)
            for use in self
        ]
        widths = [max(map(len, column)) for column in zip(head, *rows, strict=True)]
        return "\n".join(
            _line(row, widths)
            for row in (head, tuple("-" * width for width in widths), *rows)
        )


def _line(row: tuple[str, ...], widths: list[int]) -> str:
    """Return a row of the table; the numbers are right-aligned."""
    cells = [
        cell.rjust(width) if column in (1, 2) else cell.ljust(width)
        for column, (cell, width) in enumerate(zip(row, widths, strict=True))
    ]
    return "  ".join(cells).rstrip()


def fallback_report() -> FallbackReport:
    """Return which operators ran on the CPU, on copies, since the last reset.

    ``print(torch.openreg.fallback_report())`` shows a table. An empty report is the
    aim: every use copies its tensors and waits for the device.
    """
    return FallbackReport(
        FallbackUse(
            operator=use["operator"],
            reason=use["reason"],
            count=use["count"],
            bytes=use["bytes"],
            where=_caller(use["frames"]),
        )
        for use in _C._fallback_uses()
    )


def _caller(frames: list[dict[str, object]]) -> str:
    """Return where the innermost Python frame is that is not PyTorch's own."""
    for frame in frames:
        if "/torch/" not in str(frame["filename"]):
            return f"{frame['filename']}:{frame['line']}"
    return f"{frames[0]['filename']}:{frames[0]['line']}" if frames else ""


def reset_fallback_report() -> None:
    """Forget the uses so far."""
    _C._reset_fallback_uses()


def set_strict(strict: bool) -> None:
    """Make every fallback to the CPU an error (NotImplementedError), or allow it.

    For the whole process. ``OPENREG_STRICT=1`` does it from the start.
    """
    _C._set_strict(strict)


def is_strict() -> bool:
    """Return whether a fallback to the CPU is an error."""
    return _C._is_strict()


@contextmanager
def strict(enabled: bool = True) -> Iterator[None]:
    """Within the block, make every fallback to the CPU an error, or allow it.

    Holds for all threads: a backward pass runs on threads of its own.
    """
    before = _C._set_strict(enabled)
    try:
        yield
    finally:
        _C._set_strict(before)


def engine_stats() -> dict[str, int]:
    """Return what was counted since the start.

    ``launches``: operators that were queued without waiting; ``synchronous_runs``:
    operators that were waited for, since data decides what they return (``item()``
    is a copy, and not among them); ``inferred_kinds`` and
    ``rehearsed_kinds``: first calls of a kind whose results' sizes were computed, and
    those for which the host had to try the operator out on zeros; ``fallbacks``:
    operators that ran on the CPU, on copies, since the last
    :func:`reset_fallback_report`; ``cache_hits``, ``cache_misses``,
    ``cache_evictions`` and ``cache_entries``: of the cache of what outputs look like.
    A first call of a kind counts as misses, and as a launch like any other.
    """
    stats = _C._engine_statistics()
    stats["fallbacks"] = sum(use["count"] for use in _C._fallback_uses())
    return stats


def set_sync_debug_mode(debug_mode: int | str) -> None:
    """Say what happens when an operation makes the host wait for the device.

    0 or ``"default"``: nothing; 1 or ``"warn"``: a warning; 2 or ``"error"``: a
    RuntimeError. Concerns operators that wait on the way (``item()``, ``nonzero()``,
    blocking copies) and ``Stream.synchronize``, not waits for a device or an event.
    """
    if isinstance(debug_mode, str):
        if debug_mode not in _SYNC_DEBUG_MODES:
            raise RuntimeError(
                f"invalid value of debug_mode {debug_mode!r}, expected one of "
                f"{', '.join(map(repr, _SYNC_DEBUG_MODES))}"
            )
        debug_mode = _SYNC_DEBUG_MODES.index(debug_mode)
    if debug_mode not in range(len(_SYNC_DEBUG_MODES)):
        raise RuntimeError(f"invalid value of debug_mode {debug_mode}, expected 0 to 2")
    _C._set_sync_debug_mode(debug_mode)


def get_sync_debug_mode() -> int:
    """Return the current mode: 0, 1 or 2, as :func:`set_sync_debug_mode` has them."""
    return _C._get_sync_debug_mode()


def _wait_for_queued_work() -> None:
    """Wait for all devices; nothing to do before the first use."""
    if is_initialized():
        _C._wait_for_queued_work()
