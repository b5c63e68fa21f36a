"""The page that tells what a run has found: ``docs/coverage.md``.

The same results give the same page: no times, no dates, nothing that depends on the
machine.
"""

import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

Result = dict[str, Any]

_DATABASES = {
    "op": "operators (`op_db`)",
    "foreach": "foreach functions",
    "module": "modules (`module_db`)",
    "optim": "optimizers (`optim_db`)",
}
_FAILURES = ("different", "crash", "hang", "leak")
_COLUMNS = ("same", "close", "excluded", *_FAILURES)

_HEAD = """\
# Coverage

This page compares PyTorch's own databases of operators, modules, optimizers and
foreach functions (`torch.testing._internal`) on the device with the CPU. The full run
writes it; do not edit it.

```sh
make test-all                                     # runs this among others
.venv/bin/python -m tests.coverage run            # all cases; resumes a stopped run
.venv/bin/python -m tests.coverage run --fresh    # from the start
.venv/bin/python -m tests.coverage run op/add/    # cases with this prefix
.venv/bin/python -m tests.coverage one op/add/float32/out   # here, to debug it
.venv/bin/python -m tests.coverage report         # this page again
```

`make test` runs a fixed sample of the cases that has every entry in it. A *case* is an
entry, a dtype that the CPU supports and a check; a case has a trial for each of the
database's samples. Each trial is one program, run on the CPU and on the device, with
one thread. The run compares values, dtype, shape, strides, offset, layout, lazy
conjugation and negation, `requires_grad`, which tensors are the same or share memory,
what was written, types of exceptions, and warnings. `forward` runs twice on the
device: the second time, the metadata of the outputs is known.

| verdict | meaning |
|---|---|
| same | as on the CPU, values to the bit, or as close as the CPU's own if they vary |
| close | values within PyTorch's tolerance (`nn.GRU`: of the largest), all else same |
| excluded | every sample fails on the CPU, or the database has none |
| different | not as on the CPU |
| crash, hang, leak | of the process, of the case, of device memory |

Trials that the CPU itself gets wrong are left out of their cases: `out=` with
reversed strides of `tril`, `triu`, `lu_unpack` and `linalg.lu`, where it writes
beyond the memory of `out`; the fused `SGD` in half precision, which reads beyond
small buffers; and differentiable optimizers that leak: `Adam` with `amsgrad` and
`weight_decay`, `Adamax` with `weight_decay`, `RMSprop` with `centered` and
`weight_decay`.
"""


def _key(case: str) -> str:
    return case.rsplit("/", 2)[0]


def _table(head: Iterable[str], rows: Iterable[Iterable[object]]) -> list[str]:
    head = list(head)
    lines = [f"| {' | '.join(head)} |", f"|{'---|' * len(head)}"]
    for row in rows:
        cells = (str(cell).replace("|", "\\|") for cell in row)
        lines.append(f"| {' | '.join(cells)} |")
    return lines


def _counts(results: list[Result]) -> list[int]:
    verdicts = Counter(result["verdict"] for result in results)
    return [verdicts[column] for column in _COLUMNS]


def _grouped(
    results: list[Result], by: Callable[[Result], str]
) -> dict[str, list[Result]]:
    groups: dict[str, list[Result]] = defaultdict(list)
    for result in results:
        groups[by(result)].append(result)
    return dict(groups)


def _totals(results: list[Result]) -> list[str]:
    by_database = _grouped(results, lambda r: r["case"].split("/", 1)[0])
    rows: list[list[object]] = [
        [
            title,
            len({_key(r["case"]) for r in by_database[name]}),
            len(by_database[name]),
            sum(r.get("trials", 0) for r in by_database[name]),
            *_counts(by_database[name]),
        ]
        for name, title in _DATABASES.items()
        if name in by_database
    ]
    rows.append(["all", *(sum(int(str(row[i])) for row in rows) for i in range(1, 11))])
    head = ("database", "entries", "cases", "trials", *_COLUMNS)
    by_check = _grouped(results, lambda r: r["case"].rsplit("/", 1)[1])
    checks = (
        [check, len(group), *_counts(group)]
        for check, group in sorted(by_check.items())
    )
    return [
        "## Totals",
        "",
        *_table(head, rows),
        "",
        *_table(("check", "cases", *_COLUMNS), checks),
    ]


def _general(reason: str) -> str:
    """The reason without what differs from sample to sample."""
    first = reason.split(" | ")[0]
    first = re.sub(r"^(sample|error) \d+[^:]*: ", "", first)
    first = re.sub(r"(Mismatched|Greatest|Scalars).*", "", first).rstrip(" ,")
    first = re.sub(r"\b(input|output) \d+", r"\1", first)
    if first.endswith(":"):  # nothing but numbers were told
        first += " rounded in another way"
    return re.sub(r"\d+(\.\d+)?(e[+-]?\d+)?", "N", first)[:160]


def _names(results: list[Result], most: int = 12) -> str:
    """The entries, the checks of each; not more than are readable."""
    checks: dict[str, set[str]] = defaultdict(set)
    for result in results:
        checks[_key(result["case"])].add(result["case"].rsplit("/", 1)[1])
    told = [f"`{key}` ({', '.join(sorted(c))})" for key, c in sorted(checks.items())]
    more = len(told) - most
    return ", ".join(told[:most]) + (f" and {more} more" if more > 0 else "")


def _by_reason(title: str, text: str, results: list[Result]) -> list[str]:
    if not results:
        return []
    groups = _grouped(results, lambda r: _general(r["reason"]))
    order = sorted(groups.items(), key=lambda item: (-len(item[1]), item[0]))
    rows = ([len(group), reason, _names(group)] for reason, group in order)
    return [
        "",
        f"## {title}",
        "",
        text,
        "",
        *_table(("cases", "reason", "entries"), rows),
    ]


def _fallbacks(results: list[Result]) -> list[str]:
    users: dict[str, list[Result]] = defaultdict(list)
    for result in results:
        for name in result.get("fallbacks", {}):
            users[name].append(result)
    lines = ["", "## Fallbacks to the CPU", ""]
    if not users:
        return [*lines, "None."]
    rows = (
        [*name.split(": ", 1), len(group), _names(group, most=4)]
        for name, group in sorted(users.items())
    )
    head = ("operator", "reason", "cases", "entries")
    return [*lines, *_table(head, rows)]


def _status(results: list[Result]) -> str:
    verdicts = {result["verdict"] for result in results}
    if verdicts & set(_FAILURES):
        return "different"
    if any(result.get("fallbacks") for result in results):
        return "fallback"
    if verdicts == {"excluded"}:
        return "excluded"
    return "native"


def _entries(results: list[Result]) -> list[str]:
    groups = _grouped(results, lambda r: _key(r["case"]))
    rows = []
    for key, group in groups.items():
        bad = [r for r in group if r["verdict"] in _FAILURES]
        why = sorted({_general(r["reason"]) for r in bad})
        rows.append([f"`{key}`", _status(group), *_counts(group)[:4], "; ".join(why)])
    head = ("entry", "runs", *_COLUMNS[:4], "why")
    totals = Counter(row[1] for row in rows)
    told = ", ".join(f"{count} {status}" for status, count in sorted(totals.items()))
    return ["", "## Entries", "", f"{told}.", "", *_table(head, rows)]


def page(results: list[Result], limit: int = 0) -> str:
    """The whole page; ``limit`` is that of the samples, 0 for none."""
    tried = f"At most {limit} samples of a case" if limit else "All samples"
    bad = [r for r in results if r["verdict"] in _FAILURES]
    close = [r for r in results if r["verdict"] == "close"]
    excluded = [r for r in results if r["verdict"] == "excluded"]
    lines = [
        _HEAD,
        f"{tried} were tried.\n",
        *_totals(results),
        *_by_reason("Different", "Cases whose result is not the CPU's.", bad),
        *_fallbacks(results),
        *_by_reason(
            "Close",
            "Where PyTorch takes another way for a device than for the CPU, or sums "
            "in another order.",
            close,
        ),
        *_by_reason(
            "Excluded",
            "Cases that fail on the CPU too, or that have no sample, with the reason.",
            excluded,
        ),
        *_entries(results),
    ]
    return "\n".join(lines) + "\n"


def write_report(results: list[Result], limit: int, path: Path) -> None:
    """Write the page."""
    path.write_text(page(results, limit))
