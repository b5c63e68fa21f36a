#!/usr/bin/env bash
# Runs the driver's benchmarks in a release build, then those of the installed
# package, and reports both against their targets; then, without targets, the slowest of
# some hundred common calls. build/operators.json, build/first_time.json and build/sweep.json
# get all that was measured of operators, on both drivers. `--sweep` measures the common calls alone, and
# passes what follows to benchmarks/sweep_report.py; other arguments go to
# benchmarks/report.py.
set -euo pipefail
cd "$(dirname "$0")/.."
source tools/common.sh

sweep() {
  stage "sweep: measure" python benchmarks/sweep_report.py --json build/sweep.json "$@"
}

if [[ ${1:-} == --sweep ]]; then
  shift
  stage "package: install" tools/install.sh
  sweep "$@"
  exit
fi
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
(stage "first time: measure" python benchmarks/first_time.py \
  --json build/first_time.json) || status=1
(sweep) || status=1
exit "$status"
