#!/usr/bin/env bash
# Runs the driver's benchmarks in a release build, leaves the numbers in
# build/bench/driver.json and prints the report. Arguments go to the benchmark.
set -euo pipefail
cd "$(dirname "$0")/.."
source tools/common.sh

readonly RESULTS=build/bench/driver.json
mkdir -p "$(dirname "$RESULTS")"

stage "release: configure" configure release
stage "release: build" cmake --build --preset release
stage "driver benchmarks" build/release/benchmarks/openreg_driver_bench \
  --benchmark_out="$RESULTS" --benchmark_out_format=json "$@"
stage "report" python benchmarks/report.py "$RESULTS"
