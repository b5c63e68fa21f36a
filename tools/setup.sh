#!/usr/bin/env bash
# Prepares a machine for development: system packages, .venv with PyTorch and the
# pinned tools, and the package itself as an editable install. Safe to run again.
set -euo pipefail
cd "$(dirname "$0")/.."

readonly MIN_PYTHON=3.11 MIN_GCC=12 MIN_CMAKE=3.24
readonly PYTHON=${PYTHON:-python3}

die() {
  printf 'setup: %s\n' "$*" >&2
  exit 1
}

has() { command -v "$1" >/dev/null 2>&1; }

has_header() { printf '#include <%s>\n' "$1" | g++ -E -x c++ - >/dev/null 2>&1; }

has_python_header() {
  local include
  include=$("$PYTHON" -c 'import sysconfig; print(sysconfig.get_path("include"))')
  [ -f "$include/Python.h" ]
}

# Succeeds if version $1 is at least $2.
at_least() { [ "$(printf '%s\n%s\n' "$2" "$1" | sort -V | head -n 1)" = "$2" ]; }

missing_packages() {
  has g++ || echo g++
  has cmake || echo cmake
  has ccache || echo ccache
  has_header gtest/gtest.h || echo libgtest-dev
  has_header gmock/gmock.h || echo libgmock-dev
  has_header benchmark/benchmark.h || echo libbenchmark-dev
  has "$PYTHON" || echo python3
  "$PYTHON" -c 'import ensurepip, venv' 2>/dev/null || echo python3-venv
  has_python_header 2>/dev/null || echo python3-dev
}

install_packages() {
  local packages=("$@") as_root=()
  local advice="install these packages, then run 'make setup' again: ${packages[*]}"
  has apt-get || die "there is no apt-get here; $advice"
  if [ "$(id -u)" -ne 0 ]; then
    has sudo || die "this user is not root and there is no sudo; $advice"
    as_root=(sudo)
  fi
  echo "setup: installing ${packages[*]}"
  "${as_root[@]}" apt-get update -qq || echo "setup: apt-get update failed" >&2
  "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive \
    apt-get install -qq -y --no-install-recommends "${packages[@]}" >/dev/null ||
    die "apt-get could not do it; $advice"
}

check_versions() {
  local python gcc cmake
  python=$("$PYTHON" -c 'import platform; print(platform.python_version())')
  gcc=$(g++ -dumpfullversion)
  cmake=$(cmake --version | sed -n 's/^cmake version //p')
  at_least "$python" $MIN_PYTHON ||
    die "Python $MIN_PYTHON or later is needed, $PYTHON is $python (set PYTHON)"
  at_least "$gcc" $MIN_GCC || die "GCC $MIN_GCC or later is needed, g++ is $gcc"
  at_least "$cmake" $MIN_CMAKE ||
    die "CMake $MIN_CMAKE or later is needed, cmake is $cmake"
}

# Installs exactly what is pinned. Without --no-deps a torch that was built for
# CUDA would bring gigabytes of libraries along.
install_requirements() {
  .venv/bin/pip install -qq --disable-pip-version-check --no-deps \
    -r requirements-dev.txt
  grep -q '^cuda.* = None$' .venv/lib/python3.*/site-packages/torch/version.py ||
    die "pip chose a torch that was built for CUDA; let PIP_INDEX_URL or" \
      "PIP_FIND_LINKS name a place with CPU builds, and run 'make setup' again"
  .venv/bin/pip check --disable-pip-version-check >/dev/null ||
    die "requirements-dev.txt does not pin what it needs; see .venv/bin/pip check"
}

mapfile -t missing < <(missing_packages)
if ((${#missing[@]})); then
  install_packages "${missing[@]}"
fi
check_versions

if [ ! -x .venv/bin/pip ]; then
  echo "setup: creating .venv"
  "$PYTHON" -m venv .venv
fi
echo "setup: installing PyTorch and the tools of requirements-dev.txt"
install_requirements
echo "setup: building and installing torch_openreg from this checkout"
tools/install.sh
echo "setup: done"
