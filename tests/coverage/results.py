"""The file that a run fills, one line of JSON a case, and from which it resumes."""

import json
from pathlib import Path
from typing import Any

Result = dict[str, Any]


class ResultFile:
    """Results by case. A second run with the same ``settings`` goes on where it ended.

    The first line holds the settings; a file of others is begun anew.
    """

    def __init__(self, path: Path, settings: dict[str, Any]) -> None:
        self._path = path
        self.results: dict[str, Result] = {}
        path.parent.mkdir(parents=True, exist_ok=True)
        if not self._read(settings):
            self.results = {}
            path.write_text(json.dumps({"settings": settings}) + "\n")
        self._stream = path.open("a", buffering=1)

    def _read(self, settings: dict[str, Any]) -> bool:
        if not self._path.exists():
            return False
        lines = self._path.read_text().splitlines(keepends=True)
        # A run that was killed may have left half a line.
        whole = [line for line in lines if line.endswith("\n")]
        if len(whole) != len(lines):
            self._path.write_text("".join(whole))
        parsed = [json.loads(line) for line in whole]
        if not parsed or parsed[0].get("settings") != settings:
            return False
        self.results = {result["case"]: result for result in parsed[1:]}
        return True

    def add(self, result: Result) -> None:
        """Keep a result, at once."""
        self.results[result["case"]] = result
        self._stream.write(json.dumps(result) + "\n")

    def close(self) -> None:
        """Close the file."""
        self._stream.close()


def read_results(path: Path) -> tuple[list[Result], dict[str, Any]]:
    """All results of a file, the last one of each case, and its settings."""
    first, *rest = (json.loads(line) for line in path.read_text().splitlines())
    return list({result["case"]: result for result in rest}.values()), first["settings"]
