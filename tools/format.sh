#!/usr/bin/env bash
# Formats the C, C++ and Python files. With --check only says what it would do,
# and fails if that is anything.
set -euo pipefail
cd "$(dirname "$0")/.."
source tools/common.sh

if [ "${1-}" = --check ]; then
  tools/sources.sh | xargs -0 -r clang-format --dry-run -Werror
  ruff format --quiet --diff
else
  tools/sources.sh | xargs -0 -r clang-format -i
  ruff check --quiet --fix-only
  ruff format --quiet
fi
