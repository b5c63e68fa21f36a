#!/usr/bin/env bash
# Checks formatting, includes and Python, then runs clang-tidy over the libraries,
# with the compile commands of the preset `dev`.
set -euo pipefail
cd "$(dirname "$0")/.."
source tools/common.sh

# Runs clang-tidy over each source of the libraries, as many at a time as there
# are processors, and prints what it says about one file together.
run_clang_tidy() {
  tools/sources.sh driver backend bindings | grep -z '\.cpp$' |
    xargs -0 -r -n 1 -P "$(nproc)" tools/tidy.sh
}

stage "format" tools/format.sh --check
stage "includes" tools/check_includes.py
stage "ruff" ruff check --quiet
stage "mypy" mypy --no-error-summary
stage "clang-tidy: configure" configure dev
stage "clang-tidy" run_clang_tidy
printf 'No findings, in %d s.\n' "$SECONDS"
