#!/usr/bin/env bash
# Builds the package and trains a small network on the device, in strict mode: no
# operator runs on the CPU, on copies. Arguments go to examples/train.py.
set -euo pipefail
cd "$(dirname "$0")/.."
source tools/common.sh

tools/install.sh
OPENREG_STRICT=1 python examples/train.py "$@"
