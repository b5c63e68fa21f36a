#!/usr/bin/env bash
# Makes an environment that stands on .venv and adds the pinned packages of one file:
# tools/extra_venv.sh <folder> <requirements>. Does nothing if the file has not changed.
# PyTorch and the package are .venv's, so nothing that is installed here can replace
# them.
set -euo pipefail
cd "$(dirname "$0")/.."
source tools/common.sh

folder=$1 requirements=$2
stamp=$folder/.installed
if [ -f "$stamp" ] && cmp -s "$requirements" "$stamp"; then
  exit 0
fi
[ -x "$folder/bin/python" ] || python -m venv --without-pip "$folder"
# Adds .venv's packages, its editable install too; a plain path would leave that out.
base=$(python -c 'import sysconfig; print(sysconfig.get_path("platlib"))')
own=$("$folder/bin/python" -c 'import sysconfig; print(sysconfig.get_path("platlib"))')
printf 'import site; site.addsitedir(%s)\n' "'$base'" >"$own/on_top_of_venv.pth"
pip --python "$folder/bin/python" --no-input --disable-pip-version-check \
  install -qq --no-deps -r "$requirements" </dev/null
if ls "$own" | grep -qx torch; then
  echo "$requirements brings another PyTorch along" >&2
  exit 1
fi
pip --python "$folder/bin/python" --disable-pip-version-check check </dev/null
cp "$requirements" "$stamp"
