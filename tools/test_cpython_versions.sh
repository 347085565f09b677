#!/bin/sh
# Builds and runs the tests of src/cpython (no PyTorch needed) with every supported CPython that is
# found: the interpreters named as arguments, else those of pyenv and on the PATH, one per version.
set -eu
root=$(cd "$(dirname "$0")/.." && pwd)
build=${BUILD_DIR:-$(mktemp -d)}
mkdir -p "$build"

candidates() {
  if [ $# -gt 0 ]; then
    printf '%s\n' "$@"
    return
  fi
  for minor in 11 12 13; do
    ls "${PYENV_ROOT:-$HOME/.pyenv}"/versions/3.$minor.*/bin/python 2>/dev/null || true
    command -v "python3.$minor" || true
  done
}

failed=""
seen=""
for python in $(candidates "$@"); do
  version=$("$python" -c 'import sys; print("%d.%d.%d" % sys.version_info[:3])' 2>/dev/null) || continue
  case "$seen" in *" $version "*) continue ;; esac
  seen="$seen $version "
  directory="$build/$version"
  echo "== CPython $version: $python"
  if cmake -S "$root" -B "$directory" -DPython_EXECUTABLE="$python" -DBRAZE_EXTENSION=OFF \
      -DBRAZE_TESTS=ON >"$directory.log" 2>&1 &&
    cmake --build "$directory" --target braze_cpython_test -j"${JOBS:-2}" >>"$directory.log" 2>&1; then
    "$directory/braze_cpython_test" --gtest_brief=1 || failed="$failed $version"
  else
    tail -20 "$directory.log"
    failed="$failed $version(build)"
  fi
done
[ -n "$seen" ] || { echo "no CPython 3.11 to 3.13 found"; exit 1; }
[ -z "$failed" ] || { echo "failed:$failed"; exit 1; }
echo "all passed:$seen"
