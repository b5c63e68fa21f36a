#!/usr/bin/env bash
# Fails if one of our files includes a header that drags in all of PyTorch. Each
# costs seconds in every file that sees it; name the headers that are needed.
set -euo pipefail
cd "$(dirname "$0")/.."

readonly HEAVY='#[[:space:]]*include[[:space:]]*[<"](torch/(all|extension|torch)\.h|ATen/(ATen|Functions|NativeFunctions)\.h)[>"]'

if tools/sources.sh | xargs -0 -r grep -nHE "$HEAVY"; then
  echo "These includes are too heavy; include the headers that are needed." >&2
  exit 1
fi
