#!/usr/bin/env bash
# Runs the driver's benchmarks in a release build, then those of the installed
# package, and reports both against their targets. Arguments go to
# benchmarks/report.py; build/operators.json gets all that the operators took, on both
# drivers.
set -euo pipefail
cd "$(dirname "$0")/.."
source tools/common.sh

stage "release: configure" configure release
stage "release: build" cmake --build --preset release --target openreg_driver_bench
stage "package: install" tools/install.sh
# A missed target does not keep the rest from being measured.
status=0
(stage "driver: measure" python benchmarks/report.py \
  build/release/benchmarks/openreg_driver_bench "$@") || status=1
(stage "import: measure" python benchmarks/import_report.py) || status=1
(stage "operators: measure" python benchmarks/operators_report.py \
  --json build/operators.json) || status=1
exit "$status"
