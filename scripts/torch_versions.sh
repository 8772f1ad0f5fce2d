#!/usr/bin/env bash
# Runs tests under several versions of torch, one after the other, with one build of millrace.
#
#   scripts/torch_versions.sh FOLDER [VERSION ...] [-- WORDS FOR PYTEST]     (without versions: 2.11.0 2.13.0 2.15.0)
#
# Each version has a virtual environment, FOLDER/VERSION, which stays there: 5 GB for one that PyPI builds for CUDA. 2.13.0+cpu and the like
# name one build. What the tests need besides (pytest, frameworks, ...) is that of .venv.
# WHEEL=dist/millrace_loader-....whl   what is tested, in the place of the tree's own package; before that, its own tests, in an environment
#                               without compiler and headers (tests/python/test_wheel.py)
# ONE_AT_A_TIME=1               an environment is removed when its tests have run
# PYTHON=.venv/bin/python       the interpreter, with the tests' packages
# RESULTS=file.json             where counts, times and versions are written (scripts/torch_results.py)
# Without words for pytest every test runs; `-- tests/parity` takes two minutes.
set -euo pipefail
[ $# -ge 1 ] || { sed -n '2,13s/^# \{0,1\}//p' "$0"; exit 2; }
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
others=$("$python" -c 'import sysconfig; print(sysconfig.get_paths()["purelib"])')

failed=
for version in "${versions[@]}"; do
    printf '\033[1m==>\033[0m torch %s\n' "$version"
    own=$folder/$version/bin/python
    if ! "$own" -c "import torch" 2> /dev/null; then
        "$python" -m venv "$folder/$version"
        "$own" -m pip install -q --no-compile "torch==$version"
    fi
    # Last of all, behind the environment's own.
    site=$("$own" -c 'import sysconfig; print(sysconfig.get_paths()["purelib"])')
    rm -f "$site/tests-packages.pth"
    release=${version%+*} build=${version#"${version%+*}"}
    minor=${release#*.}
    vision="0.$((${minor%%.*} + 15)).${build:+${release##*.}}${build:-*}"
    [ -d "$site/torchvision" ] || "$own" -m pip install -q --no-deps "torchvision==$vision" ||
        echo "    no torchvision for it: what compares with it will be skipped"
    package=$PWD/python bare=
    "$own" -m pip uninstall -q -y millrace 2> /dev/null || true
    echo "$package" > "$site/millrace-source-tree.pth"
    echo "$others" > "$site/tests-packages.pth"
    if [ -n "${WHEEL:-}" ]; then
        bare=$folder/$version-bare.xml
        MILLRACE_TEST_WHEEL=$(realpath "$WHEEL") "$own" -m pytest -q -p no:cacheprovider "--junitxml=$bare" tests/python/test_wheel.py ||
            failed="$failed $version (bare)"
        rm "$site/millrace-source-tree.pth"
        "$own" -m pip install -q --no-deps --force-reinstall "$WHEEL"
        package=$site
    fi
    used=$("$own" -c 'import torch, millrace; print(torch.__version__, millrace.__file__)')
    [[ $used == "$version"?(+*)" $package/"* ]] || { echo "imported instead: $used" >&2; exit 1; }
    "$own" -m pytest -q -p no:cacheprovider "--junitxml=$folder/$version.xml" "$@" || failed="$failed $version"
    if [ -n "${RESULTS:-}" ]; then
        "$own" scripts/torch_results.py "$RESULTS" "$folder/$version.xml" ${WHEEL:+"$WHEEL" "$bare"} -- "$@"
    fi
    [ -z "${ONE_AT_A_TIME:-}" ] || rm -rf "${folder:?}/$version"
done
[ -z "$failed" ] || { echo "failed with torch$failed" >&2; exit 1; }
