#!/usr/bin/env bash
# Runs the tests: the driver's and the launch record's under each build preset, the
# backend's under `dev`, then those of the Python package, and builds the site of the
# documentation. Tests that use devices run on both drivers, those of Python that take
# long on one of them. With --all also the tests with other libraries and what
# takes long: all of PyTorch's databases, a thousand killed devices, a soak of the stream
# and event tests and the stress tests at ten times their size. Stops at the first failure.
set -euo pipefail
cd "$(dirname "$0")/.."
source tools/common.sh

all=false
case "${1-}" in
  "") ;;
  --all) all=true ;;
  *)
    echo "usage: tools/test.sh [--all]" >&2
    exit 2
    ;;
esac

readonly PRESETS=(dev asan tsan ubsan)
readonly DRIVERS=(inprocess isolated)

for preset in "${PRESETS[@]}"; do
  stage "$preset: configure" configure "$preset"
  stage "$preset: build" cmake --build --preset "$preset"
  stage "$preset: test" ctest --preset "$preset"
done

stage "python: install" tools/install.sh
for driver in "${DRIVERS[@]}"; do
  stage "python: test, $driver" env OPENREG_DRIVER="$driver" \
    python -m pytest $($all || echo --shared)
done
tools/docs.sh

if $all; then
  tools/test_ecosystem.sh
  stage "python: coverage" \
    python -m tests.coverage run --report docs/coverage.md
  stage "python: 1000 kills" env OPENREG_TEST_KILLS=1000 \
    python -m pytest tests/python/isolated -k random_moments
  for preset in dev tsan; do
    stage "$preset: soak" ctest --preset "$preset" -C Soak -L '^soak$'
    stage "$preset: stress" \
      env OPENREG_STRESS_SCALE=10 ctest --preset "$preset" -L 'stress$'
  done
fi

printf 'All tests passed (%s, python%s) in %d s.\n' \
  "$(IFS=,; echo "${PRESETS[*]}" | sed 's/,/, /g')" \
  "$($all && echo ', coverage, kills, soak, stress')" "$SECONDS"
