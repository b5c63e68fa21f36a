"""``python -m torch_openreg info``: what is installed and how the devices do."""

import argparse
import json
import os
import sys
from collections.abc import Sequence

from torch_openreg import info


def _parser() -> argparse.ArgumentParser:
    # The script `openreg` imports this module.
    parser = argparse.ArgumentParser(
        prog="python -m torch_openreg" if __name__ == "__main__" else "openreg",
        description="OpenReg, a simulated accelerator for PyTorch.",
    )
    commands = parser.add_subparsers(dest="command", metavar="command")
    show = commands.add_parser(
        "info", help="print devices, processes, versions and settings"
    )
    show.add_argument("--json", action="store_true", help="print JSON")
    show.add_argument(
        "--no-start",
        action="store_true",
        help="do not begin to use the devices: they have no process then",
    )
    return parser


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; 1 if the devices cannot be used, 2 for bad arguments."""
    try:
        code = _run(arguments)
        sys.stdout.flush()
    except BrokenPipeError:  # who reads has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    return code


def _run(arguments: Sequence[str] | None) -> int:
    parser = _parser()
    options = parser.parse_args(arguments)
    if options.command is None:
        parser.print_help()
        return 0
    found = info.gather(start=not options.no_start)
    print(json.dumps(found, indent=2) if options.json else info.render(found))
    failed = found["error"] is not None or any(
        device["error"] is not None for device in found["devices"]
    )
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
