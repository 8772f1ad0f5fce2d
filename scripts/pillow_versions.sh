#!/usr/bin/env bash
# Runs the tests that compare pictures with Pillow's under several versions of Pillow, one after the other.
#
#   scripts/pillow_versions.sh FOLDER [VERSION ...]     (without versions: those of docs/pictures.md)
#
# Each version is installed into FOLDER/VERSION, and stays there. .venv keeps its own.
# PYTHON=.venv/bin/python   the interpreter, with torch and the tests' packages
# OUT=FILE.json             how many tests passed, under which version
set -euo pipefail
[ $# -ge 1 ] || { sed -n '2,8s/^# \{0,1\}//p' "$0"; exit 2; }
mkdir -p "$1"
folder=$(cd "$1" && pwd)
shift
cd "$(dirname "$0")/.."

python=${PYTHON:-.venv/bin/python}
others=${PYTHONPATH:+:$PYTHONPATH}
[ $# -gt 0 ] || set -- 9.5 10.4 11.3 12.3 13.0
tests=$(ls tests/python/test_{lazy_,picture_,pixels}*.py tests/python/test_pillow_errors.py tests/clients/test_picture_*.py)

failed=
for version; do
    printf '\033[1m==>\033[0m Pillow %s\n' "$version"
    [ -d "$folder/$version/PIL" ] || "$python" -m pip install -q --no-deps --target "$folder/$version" "pillow==$version.*"
    export PYTHONPATH="$folder/$version:$PWD/python$others"
    used=$("$python" -c "import PIL; print(PIL.__version__)")
    [[ $used == "$version".* ]] || { echo "Pillow $used is imported instead" >&2; exit 1; }
    "$python" -m pytest -q -n 0 --junitxml "$folder/$version.xml" $tests || failed="$failed $version"
done
if [ -n "${OUT:-}" ]; then
    "$python" - "$folder" "$@" > "$OUT" <<'PY'
import json
import platform
import sys
from importlib.metadata import version
from xml.etree import ElementTree

folder, *versions = sys.argv[1:]
rows = []
for pillow in versions:
    suite = next(ElementTree.parse(f"{folder}/{pillow}.xml").iter("testsuite")).attrib
    ran, skipped = int(suite["tests"]), int(suite["skipped"])
    failed = int(suite["failures"]) + int(suite["errors"])
    rows.append({"pillow": pillow, "passed": ran - skipped - failed, "skipped": skipped, "failed": failed})
facts = {name: version(name) for name in ("torch", "torchvision", "numpy")} | {"python": platform.python_version()}
lines = ",\n".join("  " + json.dumps(row) for row in rows)
print(json.dumps(facts)[:-1] + ', "versions": [\n' + lines + "\n]}")
PY
fi
[ -z "$failed" ] || { echo "failed with Pillow$failed" >&2; exit 1; }
