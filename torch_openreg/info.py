"""Collects the versions, the settings and the state of the devices."""

import os
import platform
from collections.abc import Iterable, Sequence
from dataclasses import asdict
from typing import Any

__all__ = ["VARIABLES", "gather", "misspelled", "render"]

VARIABLES: dict[str, tuple[str, str]] = {
    "OPENREG_DEVICES": ("2", "how many devices there are, 0 to 64"),
    "OPENREG_MEMORY": ("", "memory of one device, such as 4GiB; a share if unset"),
    "OPENREG_DRIVER": ("inprocess", "inprocess: threads; isolated: processes"),
    "OPENREG_ERRORS": ("early", "early: as soon as known; gpu: late and sticky"),
    "OPENREG_LAUNCH_BLOCKING": ("0", "1: every launch waits until it is done"),
    "OPENREG_FAULT_HANDLER": ("1", "0: no report if the host touches device memory"),
    "OPENREG_HEARTBEAT_LIMIT": ("1000", "ms until a silent device is lost; 0: never"),
    "OPENREG_DEVICE_PROGRAM": ("", "the device's program, if not the installed one"),
    "OPENREG_STRICT": ("0", "1: a fallback to the CPU is an error"),
}
"""The environment variables, each with its default and its meaning."""


def gather(start: bool = True) -> dict[str, Any]:
    """Return everything as plain values, as ``info --json`` prints it.

    With ``start``, begins to use every device, so that its process is there.
    """
    import torch

    import torch_openreg
    from torch_openreg import _C, openreg

    driver = _C._driver_version()
    result: dict[str, Any] = {
        "versions": {
            "torch_openreg": torch_openreg.__version__,
            "driver": f"{driver // 10000}.{driver // 100 % 100}.{driver % 100}",
            "torch": torch.__version__,
            "python": platform.python_version(),
        },
        "environment": _environment(),
        "hints": _hints(os.environ),
        "settings": _settings(),
        "process": os.getpid(),
        "error": None,
        "devices": [],
    }
    try:
        openreg.init()
    except RuntimeError as error:
        result["error"] = str(error)
        return result
    result["settings"]["strict"] = str(openreg.is_strict())
    result["devices"] = [
        _device(index, start) for index in range(openreg.device_count())
    ]
    return result


def _environment() -> dict[str, str | None]:
    """Return each variable and its value; None if it is not set."""
    return {name: os.environ.get(name) for name in VARIABLES}


def _hints(environment: Iterable[str]) -> list[str]:
    """Return what is wrong with the names of variables."""
    hints = []
    for name, meant in _unknown(environment):
        question = f" Did you mean {meant}?" if meant else ""
        hints.append(f"{name} is not an OpenReg variable.{question}")
    return hints


def misspelled(environment: Iterable[str]) -> list[str]:
    """Return a warning for each name that is nearly one of ours."""
    return [
        f"{name} is not an OpenReg variable. Did you mean {meant}? "
        "`python -m torch_openreg info` lists the variables."
        for name, meant in _unknown(environment)
        if meant and not name.startswith("OPENREG_TEST_")
    ]


def _unknown(environment: Iterable[str]) -> list[tuple[str, str]]:
    """Return each unknown ``OPENREG_…`` and the nearest known name."""
    names = [name for name in environment if name.startswith("OPENREG_")]
    unknown = sorted(set(names) - VARIABLES.keys())
    if not unknown:
        return []
    import difflib

    return [
        (name, next(iter(difflib.get_close_matches(name, VARIABLES, 1, 0.8)), ""))
        for name in unknown
    ]


def _settings() -> dict[str, str]:
    """Return the settings of the process that change what operators give."""
    import torch

    return {
        "default dtype": str(torch.get_default_dtype()).removeprefix("torch."),
        "threads": str(torch.get_num_threads()),
        "deterministic": str(torch.are_deterministic_algorithms_enabled()),
        "matmul precision": torch.get_float32_matmul_precision(),
        "mkldnn": str(torch.backends.mkldnn.enabled),
    }


def _device(index: int, start: bool) -> dict[str, Any]:
    """Return the state of one device."""
    import torch

    from torch_openreg import openreg

    error = None
    if start:
        try:
            torch.ones(1, device=f"openreg:{index}")
            openreg.synchronize(index)
        except RuntimeError as failure:
            error = str(failure)
    process = asdict(openreg.process_info(index))
    return {"index": index, **process, "error": error}


def render(info: dict[str, Any]) -> str:
    """Return what :func:`gather` gave as text for people."""
    versions = info["versions"]
    lines = [
        f"OpenReg {versions['torch_openreg']} (driver {versions['driver']}), "
        f"torch {versions['torch']}, Python {versions['python']}",
        "",
    ]
    if info["error"] is not None:
        lines += [f"The devices cannot be used: {_indent(info['error'])}", ""]
    elif info["devices"]:
        lines += [*_device_table(info), ""]
    lines += ["Settings of this process"]
    lines += [f"  {name:<18}{value}" for name, value in info["settings"].items()]
    lines += ["", *_environment_table(info["environment"])]
    lines += [f"Hint: {hint}" for hint in info["hints"]]
    return "\n".join(lines)


def _device_table(info: dict[str, Any]) -> list[str]:
    """Return one line per device, below a head."""
    rows = [_device_row(device, info["process"]) for device in info["devices"]]
    failures = [
        f"openreg:{device['index']}: {_indent(device['error'])}"
        for device in info["devices"]
        if device["error"] is not None
    ]
    head = (
        "device",
        "driver",
        "pid",
        "process memory",
        "threads",
        "streams",
        "queued",
        "device memory",
        "life",
    )
    return [*_table([head, *rows]), *failures]


def _device_row(device: dict[str, Any], own_pid: int) -> tuple[str, ...]:
    """Return the cells of one device."""
    name, driver = f"openreg:{device['index']}", device["driver"]
    if not device["is_open"]:
        return (name, driver, "not started", "", "", "", "", "", "")
    pid = f"{device['pid']}" if device["pid"] else "ended"
    return (
        name,
        driver,
        f"{pid} (this)" if device["pid"] == own_pid else pid,
        _bytes(device["resident_memory"]),
        f"{device['threads']}",
        f"{device['streams']}",
        f"{device['queued_commands']}",
        f"{_bytes(device['memory_used'])} of {_bytes(device['memory_limit'])}",
        f"{device['life']}",
    )


def _indent(text: str) -> str:
    """Return ``text`` with its lines below the first one moved in."""
    return text.replace("\n", "\n  ")


def _environment_table(environment: dict[str, str | None]) -> list[str]:
    """Return one line per variable, below a head."""
    rows = []
    for name, value in environment.items():
        default, meaning = VARIABLES[name]
        shown = value if value is not None else f"({default})" if default else ""
        rows.append((name, shown, meaning))
    return _table([("environment", "value", "meaning (a default in brackets)"), *rows])


def _bytes(count: int) -> str:
    """Return ``count`` in a unit that leaves few digits."""
    scaled = float(count)
    for unit in ("B", "KiB", "MiB"):
        if scaled < 1024:
            return f"{scaled:.0f} {unit}"
        scaled /= 1024
    return f"{scaled:.1f} GiB"


def _table(rows: Sequence[Sequence[str]]) -> list[str]:
    """Return the rows with their columns aligned, and a line below the first."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = [
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True))
        for row in rows
    ]
    lines.insert(1, "  ".join("-" * width for width in widths))
    return [line.rstrip() for line in lines]
