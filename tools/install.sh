#!/usr/bin/env bash
# Builds the Python package and installs it into .venv, editable. The build is
# incremental; the Python files are used where they lie, the libraries are copied.
# Prints what is compiled, and everything if that fails.
set -euo pipefail
cd "$(dirname "$0")/.."
source tools/common.sh

log=build/install.log
mkdir -p build
pip install --verbose --disable-pip-version-check --no-build-isolation --no-deps \
  --editable . 2>&1 | tee "$log" | sed -un 's/^ *\(\[[0-9]*\/[0-9]*\]\)/  \1/p' || {
  cat "$log" >&2
  exit 1
}
