#!/usr/bin/env bash
# Builds the Python package and installs it into .venv, editable. The build is
# incremental; the Python files are used where they lie, the library is copied.
set -euo pipefail
cd "$(dirname "$0")/.."

source tools/common.sh
pip install \
  --quiet --disable-pip-version-check --no-build-isolation --no-deps -e .
