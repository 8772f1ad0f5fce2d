#!/usr/bin/env bash
# Runs CMake for a build folder, but only when the folder is new or its options have changed.
#
#   scripts/configure.sh build/dev -DMILLRACE_TESTS=ON ...
set -euo pipefail
cd "$(dirname "$0")/.."
folder=$1
shift
wanted="$*"
if [ -f "$folder/build.ninja" ] && [ "$(cat "$folder/options" 2> /dev/null)" = "$wanted" ]; then exit 0; fi

printf '\033[1m==>\033[0m configuring %s\n' "$folder"
mkdir -p "$folder"
if ! cmake -S . -B "$folder" -G Ninja -DPython_EXECUTABLE="$PWD/.venv/bin/python" "$@" > "$folder/configure.log" 2>&1; then
  tail -n 30 "$folder/configure.log" >&2
  exit 1
fi
sed -n '/^-- millrace /,/^-- Configuring done/p' "$folder/configure.log" | sed -e 's/^-- //' -e '/^Configuring done/d'
echo "$wanted" > "$folder/options"
