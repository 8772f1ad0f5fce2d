#!/usr/bin/env bash
# Runs tests under several versions of torch, one after the other, with one build of millrace.
#
#   scripts/torch_versions.sh FOLDER [VERSION ...] [-- WORDS FOR PYTEST]     (without versions: 2.11.0 2.13.0 2.15.0)
#
# Each version is installed into FOLDER/VERSION, and stays there: 5 GB for one that PyPI builds for CUDA. .venv keeps its own.
# WHEEL=dist/millrace-....whl   what is tested, in the place of the tree's own package
# PYTHON=.venv/bin/python       the interpreter, with the tests' packages
# Without words for pytest every test runs; `-- tests/parity` takes two minutes.
set -euo pipefail
[ $# -ge 1 ] || { sed -n '2,9s/^# \{0,1\}//p' "$0"; exit 2; }
mkdir -p "$1"
folder=$(cd "$1" && pwd)
shift
cd "$(dirname "$0")/.."

python=${PYTHON:-.venv/bin/python}
versions=()
while [ $# -gt 0 ] && [ "$1" != -- ]; do
    versions+=("$1")
    shift
done
[ $# -eq 0 ] || shift
[ ${#versions[@]} -gt 0 ] || versions=(2.11.0 2.13.0 2.15.0)
[ $# -gt 0 ] || set -- -n "$(nproc)" --dist loadfile --max-worker-restart=0

package=$PWD/python
if [ -n "${WHEEL:-}" ]; then
    package=$folder/wheel
    rm -rf "$package"
    "$python" -m pip install -q --no-deps --no-index --target "$package" "$WHEEL"
fi

failed=
for version in "${versions[@]}"; do
    printf '\033[1m==>\033[0m torch %s\n' "$version"
    # pip asks for what a version needs, except where .venv has that version.
    if ! [ -d "$folder/$version/torch" ] && [ "$("$python" -c 'import torch; print(torch.__version__.split("+")[0])')" != "$version" ]; then
        "$python" -m pip install -q --target "$folder/$version" "torch==$version"
    fi
    export PYTHONPATH="$package:$folder/$version"
    used=$("$python" -c 'import torch, millrace; print(torch.__version__.split("+")[0], millrace.__file__)')
    [[ $used == "$version $package/"* ]] || { echo "imported instead: $used" >&2; exit 1; }
    "$python" -m pytest -q "$@" || failed="$failed $version"
done
[ -z "$failed" ] || { echo "failed with torch$failed" >&2; exit 1; }
