#!/usr/bin/env bash
# Runs the tests, on both drivers: those in C++ under each build preset (the
# backend's under `release`, and those that a vendor keeps under `bare`), then those of the
# Python package, each of what takes long on one of the drivers, and builds the site of the
# documentation. With --isolated only those of the isolated driver, under `release`. With
# --all also what takes long on both, the tests with other libraries, and what takes very
# long: all of PyTorch's databases, a thousand killed devices, a soak of the stream and
# event tests and the stress tests at ten times their size. Stops at the first failure.
set -euo pipefail
cd "$(dirname "$0")/.."
source tools/common.sh

# Builds with a preset and runs its tests; arguments go to ctest.
test_preset() {
  local preset=$1
  shift
  stage "$preset: configure" configure "$preset"
  stage "$preset: build" cmake --build --preset "$preset"
  stage "$preset: test" ctest --preset "$preset" "$@"
}

# Python's tests on a driver, a file on each core; arguments go to pytest.
test_python() {
  local driver=$1
  shift
  stage "python: test, $driver" env OPENREG_DRIVER="$driver" python -m pytest \
    -n auto --maxprocesses 8 --dist loadfile --no-loadscope-reorder "$@"
}

all=false
case "${1-}" in
  "") ;;
  --all) all=true ;;
  --isolated)
    stage "python: install" tools/install.sh
    test_preset release -L '^(isolated|process)'
    test_python isolated --shared
    exit
    ;;
  *)
    echo "usage: tools/test.sh [--all|--isolated]" >&2
    exit 2
    ;;
esac

# `release` has the package's own libraries, and `bare` most of them: ccache need not
# compile them twice.
readonly PRESETS=(release bare asan tsan)

stage "python: install" tools/install.sh
for preset in "${PRESETS[@]}"; do test_preset "$preset"; done
for driver in inprocess isolated; do
  test_python "$driver" $($all || echo --shared)
done
tools/docs.sh

if $all; then
  tools/test_ecosystem.sh
  stage "python: shape rules, all samples" env OPENREG_TEST_SAMPLES=1000000 \
    python -m pytest -n auto --maxprocesses 8 \
    tests/python/openreg/engine/test_new_kinds.py -k what_is_said
  stage "python: coverage" \
    python -m tests.coverage run --fresh --report docs/coverage.md
  stage "python: 1000 kills" env OPENREG_TEST_KILLS=1000 \
    python -m pytest tests/python/isolated -k random_moments
  for preset in release tsan; do
    stage "$preset: soak" ctest --preset "$preset" -C Soak -L '^soak$'
    stage "$preset: stress" \
      env OPENREG_STRESS_SCALE=10 ctest --preset "$preset" -L 'stress$'
  done
fi

printf 'All tests passed (%s, python%s) in %d s.\n' \
  "$(IFS=,; echo "${PRESETS[*]}" | sed 's/,/, /g')" \
  "$($all && echo ', coverage, kills, soak, stress')" "$SECONDS"
