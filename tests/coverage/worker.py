"""A process that runs cases: one line of JSON in, two lines out.

It announces a case before it runs it, so that the parent knows which one a crash
belongs to. At the end of its input it reports the memory that is left.
"""

import gc
import json
import os
import sys
from typing import Any, TextIO


def _replies() -> TextIO:
    """The parent's end of standard output; what kernels print goes to the errors."""
    kept = os.dup(1)
    os.dup2(2, 1)
    return os.fdopen(kept, "w", buffering=1)


def main() -> None:
    """Serve until the input ends."""
    replies = _replies()

    def reply(message: dict[str, Any]) -> None:
        replies.write(json.dumps(message) + "\n")

    import torch

    from tests.coverage.cases import prepare, run_case, run_on_cpu

    prepare()
    torch.openreg.init()
    gc.collect()
    gc.freeze()
    before = torch.openreg.memory_allocated()
    reply({"ready": True})
    for line in sys.stdin:
        order = json.loads(line)
        reply({"start": order["case"]})
        if order["on_cpu"]:
            run_on_cpu(order["case"], order["limit"])
            reply({"result": {}})
        else:
            reply({"result": run_case(order["case"], order["limit"]).as_json()})
    gc.collect()
    torch.openreg.synchronize()
    reply({"left": torch.openreg.memory_allocated() - before})


if __name__ == "__main__":
    main()
