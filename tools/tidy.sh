#!/usr/bin/env bash
# Runs clang-tidy over one source file, given relative to the checkout. Prints
# its name and the time it took, and the findings if there are any.
set -euo pipefail
cd "$(dirname "$0")/.."
source tools/common.sh

status=0
output=$(clang-tidy --quiet -p build/dev "$1" 2>&1) || status=$?
if ((status != 0)); then
  printf '%s\n' "$output"
fi
printf '  %s (%d s)\n' "$1" "$SECONDS"
exit "$status"
