#!/usr/bin/env bash
# Prints our C and C++ files, tracked or new, separated by zero bytes. The
# arguments are the folders to look in; without any, the whole checkout.
set -euo pipefail
cd "$(dirname "$0")/.."

patterns=()
for folder in "${@:-.}"; do
  patterns+=(":(glob)$folder/**/*.c" ":(glob)$folder/**/*.cpp" ":(glob)$folder/**/*.h")
done
git ls-files -z --cached --others --exclude-standard -- "${patterns[@]}" |
  while IFS= read -r -d '' file; do
    # A file that was deleted but not yet committed is still listed.
    if [ -f "$file" ]; then printf '%s\0' "$file"; fi
  done
