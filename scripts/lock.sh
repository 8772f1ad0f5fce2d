#!/usr/bin/env bash
# Writes tests/requirements.lock from tests/requirements.in: what tests and tools use, each version named.
#
#   scripts/lock.sh                     adds what is new in requirements.in; other versions stay
#   scripts/lock.sh --upgrade           the newest of everything
#   scripts/lock.sh --upgrade-package ray
#
# Run `make test-all` after it: a version is updated on purpose, and with what it breaks mended.
set -euo pipefail
cd "$(dirname "$0")/.."
uv=$(command -v uv || echo .venv/bin/uv)
[ -x "$uv" ] || { echo "lock.sh needs uv: .venv/bin/python -m pip install uv" >&2; exit 1; }
without=$(mktemp)
trap 'rm -f "$without"' EXIT
# Never a torch of theirs: set-up chooses it. A requirement whose marker never holds takes it out.
printf '%s; python_version < "3"\n' torch torchvision > "$without"
"$uv" pip compile --quiet --universal --python-version 3.10 --override "$without" --no-annotate \
  --custom-compile-command scripts/lock.sh "$@" tests/requirements.in --output-file tests/requirements.lock
