#!/usr/bin/env bash
# Builds a wheel of the package into the folder given, or into dist/, and prints
# its path. Compiles through ccache what the editable install has not compiled.
set -euo pipefail
cd "$(dirname "$0")/.."
source tools/common.sh

target=${1:-dist}
pip wheel --quiet --disable-pip-version-check --no-build-isolation --no-deps \
  --wheel-dir "$target" . >&2
ls -t "$target"/torch_openreg-*.whl | head -n 1
