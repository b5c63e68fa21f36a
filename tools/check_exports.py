#!/usr/bin/env python3
"""Check what a built libopenreg.so shows to the dynamic linker.

It exports exactly the functions that the public headers declare, and it depends
on the C and C++ runtimes alone: above all on no library of PyTorch.

Usage: check_exports.py <libopenreg.so> <include/openreg>
"""

import re
import subprocess
import sys
from pathlib import Path

ALLOWED_LIBRARIES = re.compile(
    r"(ld-linux.*|libc|libdl|libgcc_s|libm|libpthread|librt|libstdc\+\+"
    r"|lib[alt]san|libubsan)\.so(\.\d+)*"
)


def run(*command: str) -> str:
    """Return what ``command`` prints."""
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def exported_symbols(library: str) -> set[str]:
    """Return the names that ``library`` defines for others."""
    lines = run("nm", "--dynamic", "--defined-only", "--format=posix", library)
    return {line.split()[0].split("@")[0] for line in lines.splitlines()}


def needed_libraries(library: str) -> set[str]:
    """Return the libraries that ``library`` is linked to."""
    lines = run("readelf", "--dynamic", "--wide", library)
    return set(re.findall(r"\(NEEDED\).*\[(.+)\]", lines))


def declared_functions(headers: Path) -> set[str]:
    """Return the functions that ``headers`` declare with OPENREG_API."""
    names: set[str] = set()
    for header in headers.glob("*.h"):
        text = header.read_text(encoding="utf-8")
        text = re.sub(r"/\*.*?\*/|//[^\n]*", " ", text, flags=re.DOTALL)
        text = re.sub(r"^[ \t]*#(?:[^\n]*\\\n)*[^\n]*", "", text, flags=re.MULTILINE)
        names.update(re.findall(r"\bOPENREG_API\b[^;{(]*?\b(\w+)\s*\(", text))
    return names


def problems(library: str, headers: Path) -> list[str]:
    """Return one line for each thing that is wrong with ``library``."""
    exported = exported_symbols(library)
    declared = declared_functions(headers)
    found = [
        f"exports {name}, which no header declares" for name in exported - declared
    ]
    found += [f"lacks {name}, which a header declares" for name in declared - exported]
    found += [
        f"declares {name}, which is not named or*"
        for name in declared
        if not re.fullmatch(r"or[A-Z]\w*", name)
    ]
    found += [
        f"needs {name}, which is not a library of the C or C++ runtime"
        for name in needed_libraries(library)
        if not ALLOWED_LIBRARIES.fullmatch(name)
    ]
    if not declared:
        found.append(f"no header in {headers} declares a function")
    return sorted(found)


def main() -> int:
    """Print the problems, if any, and return the exit status."""
    if len(sys.argv) != 3:
        print(__doc__, file=sys.stderr)
        return 2
    library, headers = sys.argv[1:]
    found = problems(library, Path(headers))
    for problem in found:
        print(f"{library}: {problem}", file=sys.stderr)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
