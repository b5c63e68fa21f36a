"""The cases that ``make test`` runs: few, the same every time, and every entry."""

from itertools import groupby

# One case of so many; a prime, so that it does not keep step with the checks.
_STRIDE = 13


def _entry(case: str) -> str:
    return case.rsplit("/", 2)[0]


def sample(cases: list[str]) -> list[str]:
    """Every case at the stride, the errors of every entry, and its float32 forward."""
    chosen = set(cases[::_STRIDE])
    for _, group in groupby(cases, _entry):
        own = list(group)
        plain = [c for c in own if c.endswith(("float32/forward", "float32/train"))]
        chosen.update(plain or own[1:2])
        chosen.update(c for c in own if c.endswith("/errors"))
    return [case for case in cases if case in chosen]
