#!/usr/bin/env bash
# Builds the package and trains a small network on the device. Arguments go to
# examples/train.py.
set -euo pipefail
cd "$(dirname "$0")/.."
source tools/common.sh

tools/install.sh
python examples/train.py "$@"
