#!/usr/bin/env bash
# Installs the libraries of requirements-ecosystem.txt into .venv-ecosystem and runs
# the tests that use them, on each driver. Arguments go to pytest.
set -euo pipefail
cd "$(dirname "$0")/.."
source tools/common.sh

stage "ecosystem: install" tools/extra_venv.sh .venv-ecosystem requirements-ecosystem.txt
for driver in inprocess isolated; do
  stage "ecosystem: test, $driver" env OPENREG_DRIVER="$driver" \
    .venv-ecosystem/bin/python -m pytest tests/ecosystem "$@"
done
