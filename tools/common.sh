# Sourced by the scripts, from the root of the checkout: the pinned tools come
# first, and the stages of a job run with the time that each took.
# shellcheck shell=bash
export PATH="$PWD/.venv/bin:$PATH"
# The name that the package's build has for the compiler: what it has compiled, ccache
# has for the preset `release`.
export CC="${CC:-gcc}" CXX="${CXX:-g++}"

# stage <name> <command>...: runs the command; ends the script if it fails.
stage() {
  local name=$1 start=$SECONDS status=0
  shift
  printf '==> %s\n' "$name"
  "$@" || status=$?
  if ((status != 0)); then
    printf '==> %s FAILED after %d s\n' "$name" "$((SECONDS - start))" >&2
    exit "$status"
  fi
  printf '==> %s: ok, %d s\n' "$name" "$((SECONDS - start))"
}

# configure <preset>: configures it and prints only what went wrong.
configure() { cmake --preset "$1" --log-level=WARNING >/dev/null; }
