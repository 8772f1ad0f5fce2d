#!/usr/bin/env bash
# Runs the tests that compare pictures with Pillow's under several versions of Pillow, one after the other.
#
#   scripts/pillow_versions.sh FOLDER [VERSION ...]     (without versions: those of docs/pictures.md)
#
# Each version is installed into FOLDER/VERSION, and stays there. .venv keeps its own.
# PYTHON=.venv/bin/python   the interpreter, with torch and the tests' packages
set -euo pipefail
[ $# -ge 1 ] || { sed -n '2,7s/^# \{0,1\}//p' "$0"; exit 2; }
mkdir -p "$1"
folder=$(cd "$1" && pwd)
shift
cd "$(dirname "$0")/.."

python=${PYTHON:-.venv/bin/python}
[ $# -gt 0 ] || set -- 9.5 10.4 11.3 12 13
tests=$(ls tests/python/test_{lazy_,picture_,pixels}*.py tests/python/test_pillow_errors.py tests/clients/test_picture_*.py)

failed=
for version; do
    printf '\033[1m==>\033[0m Pillow %s\n' "$version"
    [ -d "$folder/$version/PIL" ] || "$python" -m pip install -q --no-deps --target "$folder/$version" "pillow==$version.*"
    export PYTHONPATH="$folder/$version:$PWD/python"
    used=$("$python" -c "import PIL; print(PIL.__version__)")
    [[ $used == "$version".* ]] || { echo "Pillow $used is imported instead" >&2; exit 1; }
    "$python" -m pytest -q -n 0 $tests || failed="$failed $version"
done
[ -z "$failed" ] || { echo "failed with Pillow$failed" >&2; exit 1; }
