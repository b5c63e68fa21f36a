#!/usr/bin/env bash
# Builds the examples and runs them.
set -euo pipefail
cd "$(dirname "$0")/.."
source tools/common.sh

configure release
cmake --build --preset release --target demo
