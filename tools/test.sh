#!/usr/bin/env bash
# Runs the tests: the driver's and the launch record's under each build preset, the
# backend's under `dev`, then those of the Python package, and builds the site of the
# documentation: on the in-process driver. With --isolated instead those of the isolated
# one, under `dev`. With --all both, the tests with other libraries, and what takes long:
# all of PyTorch's databases, a thousand killed devices, a soak of the stream and event
# tests and the stress tests at ten times their size. Stops at the first failure.
set -euo pipefail
cd "$(dirname "$0")/.."
source tools/common.sh

# The driver's tests on devices in processes, those of the processes, and Python's.
test_isolated() {
  stage "isolated: configure" configure dev
  stage "isolated: build" cmake --build --preset dev
  stage "isolated: test" ctest --preset dev -L '^(isolated|process)'
  stage "isolated: install" tools/install.sh
  stage "isolated: python" env OPENREG_DRIVER=isolated python -m pytest --shared
}

all=false
case "${1-}" in
  "") ;;
  --all) all=true ;;
  --isolated)
    test_isolated
    exit
    ;;
  *)
    echo "usage: tools/test.sh [--all|--isolated]" >&2
    exit 2
    ;;
esac

readonly PRESETS=(dev asan tsan ubsan)

for preset in "${PRESETS[@]}"; do
  stage "$preset: configure" configure "$preset"
  stage "$preset: build" cmake --build --preset "$preset"
  stage "$preset: test" ctest --preset "$preset" -LE '^(isolated|process)'
done

stage "python: install" tools/install.sh
stage "python: test" python -m pytest --ignore=tests/python/isolated
tools/docs.sh

if $all; then
  test_isolated
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
