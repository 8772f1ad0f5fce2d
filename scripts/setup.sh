#!/usr/bin/env bash
# Makes everything a build needs: system packages, the virtual environment .venv, torch and the other Python packages.
#
#   scripts/setup.sh            (make demo and make test call it; a finished set-up is left alone in a fraction of a second)
#
# PYTHON=python3.12   the interpreter to make .venv from (3.10 or newer)
# TORCH=...           what to ask pip for when there is no torch; several words are allowed ("torch==2.13.0 --index-url ...")
# TORCHVISION=...     the same for torchvision; "none" leaves it out. Without it, the build that fits torch, if there is one: PyPI's
#                     expects a torch with CUDA, and beside the CPU build of torch `import torchvision` fails. "any": else PyPI's,
#                     whose transforms the tests can use all the same (benchmarks/loaders/_torchvision.py)
# CLIENTS=1           all of tests/requirements.lock: also the frameworks that tests/clients drives millrace with, libraries of
#                     formats, what builds the documentation, an S3 server; and nginx, Chromium for the tests of pages, Clang for
#                     those of C++ headers. Without them these tests are skipped
#
# Every version but torch's and torchvision's is that of tests/requirements.lock.
set -euo pipefail
cd "$(dirname "$0")/.."

tested_torch=2.13.0
oldest_torch=2.11
cpu_wheels=https://download.pytorch.org/whl/cpu
# Of tests/requirements.lock, what is installed in any case.
needed_packages="numpy pillow pybind11 scikit-build-core pytest pytest-xdist hypothesis psutil"
photo_packages="scikit-image scikit-learn"  # only their sample photos are used, so without what they depend on
store_packages="obstore"                    # what it depends on comes with torch
lock=tests/requirements.lock

say() { printf '\033[1m==>\033[0m %s\n' "$*"; }
stop() { printf '\nset-up stopped: %s\n' "$*" >&2; exit 1; }

# ---------------------------------------------------------------- is there anything to do?
stamp=.venv/millrace-setup
wanted="$(cat scripts/setup.sh $lock | cksum) PYTHON=${PYTHON:-} TORCH=${TORCH:-} TORCHVISION=${TORCHVISION:-} CLIENTS=${CLIENTS:-}"
if [ -x .venv/bin/python ] && [ "$(cat $stamp 2>/dev/null)" = "$wanted" ]; then exit 0; fi

# ---------------------------------------------------------------- system packages
has_header() { printf '#include <cstddef>\n#include <cstdio>\n#include <%s>\n' "$1" | c++ -x c++ -fsyntax-only - 2>/dev/null; }
python_can() { [ -n "$python" ] && "$python" -c "$1" 2>/dev/null; }
recent_enough='import sys; raise SystemExit(sys.version_info < (3, 10))'

find_python() {
  python=""
  for candidate in ${PYTHON:-python3 python3.14 python3.13 python3.12 python3.11 python3.10}; do
    if command -v "$candidate" > /dev/null && "$candidate" -c "$recent_enough" 2>/dev/null; then
      python=$(command -v "$candidate")
      return
    fi
  done
}

# One line for each thing that is missing: Debian's and Ubuntu's package, then what it is.
missing_system_packages() {
  find_python
  if ! command -v c++ > /dev/null; then
    echo "build-essential: a C++20 compiler (GCC 11, Clang 14 or newer)"
  fi
  command -v pkg-config > /dev/null || echo "pkg-config: pkg-config"
  has_header jpeglib.h || echo "libjpeg-dev: libjpeg-turbo 2.1 or newer, with headers"
  pkg-config --exists 'libhwy >= 1.0' 2> /dev/null || echo "libhwy-dev: Google Highway 1.0 or newer, with headers"
  pkg-config --exists 'libdeflate >= 1.8' 2> /dev/null || echo "libdeflate-dev: libdeflate 1.8 or newer, with headers"
  pkg-config --exists 'libwebp >= 1.0' 'libwebpdemux >= 1.0' 2> /dev/null || echo "libwebp-dev: libwebp 1.0 or newer, with headers"
  has_header zlib.h || echo "zlib1g-dev: zlib, with headers"
  pkg-config --exists 'libzstd >= 1.4' 2> /dev/null || echo "libzstd-dev: zstd 1.4 or newer, with headers"
  pkg-config --exists 'simdjson >= 3.0' 2> /dev/null || echo "libsimdjson-dev: simdjson 3.0 or newer, with headers"
  has_header gtest/gtest.h || echo "libgtest-dev: GoogleTest"
  [ -n "$python" ] || echo "python3: Python 3.10 or newer"
  python_can 'import venv, ensurepip' || echo "python3-venv: Python's venv module, with pip"
  python_can 'import os, sysconfig; raise SystemExit(not os.path.exists(sysconfig.get_paths()["include"] + "/Python.h"))' ||
    echo "python3-dev: Python's headers"
}

stop_for_old_python() {
  if [ -z "$python" ] && command -v "${PYTHON:-python3}" > /dev/null; then
    stop "millrace needs Python 3.10 or newer, but ${PYTHON:-python3} is $("${PYTHON:-python3}" --version 2>&1);" \
      "install a newer one and name it: PYTHON=python3.12"
  fi
}

find_python
stop_for_old_python
missing=$(missing_system_packages)
# apt_install PACKAGES: fails where they cannot be had.
apt_install() {
  local as_root=""
  command -v apt-get > /dev/null || return 1
  if [ "$(id -u)" != 0 ]; then
    if sudo -n true 2> /dev/null || { [ -t 0 ] && command -v sudo > /dev/null; }; then as_root=sudo; else return 1; fi
  fi
  say "installing system packages: $1"
  $as_root apt-get update -qq || echo "(apt-get update failed; trying with the lists there are)"
  $as_root env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends $1 > /dev/null
}
if [ -n "$missing" ]; then
  apt_install "$(echo "$missing" | cut -d: -f1 | tr '\n' ' ')" || true
  missing=$(missing_system_packages)
fi
if [ -n "$missing" ]; then
  echo "These are missing (package name on Debian and Ubuntu: what it is):" >&2
  echo "$missing" | sed 's/^/  /' >&2
  stop "install them and run the same command again"
fi
find_python
stop_for_old_python  # what apt-get brought may be old, too

# A program that tests or builds use where it is, and the packages that bring it.
helpful=""
wish() { command -v "$1" > /dev/null || [ -x "/usr/sbin/$1" ] || helpful="$helpful ${*:2}"; }
wish ccache ccache
if [ "${CLIENTS:-}" = 1 ]; then
  wish nginx nginx-light
  wish chromium chromium fonts-dejavu-core
  wish clang++ clang
fi
[ -z "$helpful" ] || apt_install "${helpful# }" 2> /dev/null || echo "    not to be had: builds are slower, or tests are skipped"

# ---------------------------------------------------------------- the virtual environment
torch_is_usable="
import importlib.metadata as m
v = [int(p) for p in m.version('torch').split('+')[0].split('.')[:2]]
raise SystemExit(v < [int(p) for p in '$oldest_torch'.split('.')])"

if [ ! -x .venv/bin/python ]; then
  if "$python" -c "$torch_is_usable" 2> /dev/null; then
    say "making .venv on top of $python, whose torch is used as it is"
    "$python" -m venv --system-site-packages .venv
    # When $python is itself a virtual environment, "system" means the Python below it: name its packages as well.
    site=$(.venv/bin/python -c 'import sysconfig; print(sysconfig.get_paths()["purelib"])')
    "$python" -c 'import sysconfig; p = sysconfig.get_paths(); print(*dict.fromkeys([p["purelib"], p["platlib"]]), sep="\n")' \
      > "$site/made-from.pth"
  else
    say "making .venv with $("$python" --version)"
    "$python" -m venv .venv
  fi
fi
venv=$PWD/.venv/bin/python
"$venv" -m pip --version > /dev/null 2>&1 || "$venv" -m ensurepip > /dev/null  # an interrupted set-up may have left none
site=$("$venv" -c 'import sysconfig; print(sysconfig.get_paths()["purelib"])')
echo "$PWD/python" > "$site/millrace-source-tree.pth"  # `import millrace` finds python/millrace, where the build puts _core
# The command that a wheel would install. It runs once the build has put _core there.
cat > .venv/bin/millrace <<LAUNCHER
#!$venv
import sys

from millrace.__main__ import script

sys.exit(script())
LAUNCHER
chmod +x .venv/bin/millrace

not_installed() {
  "$venv" - "$@" <<'PY'
import sys
from importlib.metadata import PackageNotFoundError, version
for name in sys.argv[1:]:
    try:
        version(name)
    except PackageNotFoundError:
        print(name, end=" ")
PY
}
pip_install() { "$venv" -m pip install --disable-pip-version-check "$@"; }

if ! "$venv" -c "$torch_is_usable" 2> /dev/null; then
  say "installing torch; this is the long part (about 200 MB for the CPU build)"
  if [ -n "${TORCH:-}" ]; then
    pip_install $TORCH || stop "pip could not install TORCH='$TORCH'"
  else
    # The CPU build has no place of its own on PyPI, where the same version is several GB of CUDA: ask for it by name first.
    pip_install -q -c $lock "torch==$tested_torch+cpu" 2> /dev/null ||
      pip_install -c $lock "torch==$tested_torch+cpu" --extra-index-url "$cpu_wheels" ||
      { say "the CPU build cannot be had; taking PyPI's"; pip_install "torch==$tested_torch"; } ||
      stop "pip could not install torch $tested_torch; install any torch from $oldest_torch on and run the same command again"
  fi
fi

build_tools=""
command -v cmake > /dev/null || build_tools="cmake"
command -v ninja > /dev/null || build_tools="$build_tools ninja"
required=$(not_installed $needed_packages $build_tools)
if [ -n "$required" ]; then
  say "installing Python packages: $required"
  pip_install -q -c $lock $required || stop "pip could not install: $required"
fi

# torchvision is what the tests compare with; each torch release has exactly one, which has its patch level, too.
install_torchvision() {
  local asked=${TORCHVISION:-} release patch build
  if [ "$asked" = none ] || [ -z "$(not_installed torchvision)" ]; then return; fi
  read -r release patch build < <("$venv" -c '
import importlib.metadata as m
version, _, build = m.version("torch").partition("+")
_, minor, patch = version.split(".")[:3]
print("torchvision==0.%d" % (int(minor) + 15), patch, build)')
  if [ -n "$asked" ] && [ "$asked" != any ]; then
    say "installing $asked (without its dependencies)"
    pip_install -q --no-deps $asked || stop "pip could not install TORCHVISION='$asked'"
    return
  fi
  if [ "$build" = cpu ]; then
    say "installing $release.$patch+cpu (without its dependencies)"
    pip_install -q --no-deps "$release.$patch+cpu" 2> /dev/null && return
    pip_install -q --no-deps "$release.$patch+cpu" --extra-index-url "$cpu_wheels" 2> /dev/null && return
    if [ "$asked" != any ]; then
      echo "    not to be had: PyPI's torchvision cannot be imported beside torch's CPU build, so it is left out, and what" \
        "compares with it will be skipped"
      return
    fi
  fi
  say "installing $release.* (without its dependencies)"
  pip_install -q --no-deps "$release.*" || echo "    not to be had: what compares with it will be skipped"
}
install_torchvision
optional=$(not_installed $photo_packages $store_packages)
if [ -n "$optional" ]; then
  say "installing $optional (without their dependencies)"
  pip_install -q --no-deps -c $lock $optional || echo "    not to be had: what compares with them will be skipped"
fi
if [ "${CLIENTS:-}" = 1 ]; then
  say "installing $lock"
  all=.venv/requirements.txt
  cp $lock $all
  if [ -n "$(not_installed torchvision)" ]; then
    echo "    timm needs torchvision: its tests will be skipped"
    sed -i '/^timm==/d' $all
  fi
  # The lock has all that is needed, so nobody has to find out again, and nobody asks for another torch.
  pip_install -q -c $lock uv 2> /dev/null || true
  "$venv" -m uv pip install --quiet --python "$venv" --no-deps -r $all || pip_install -q --no-deps -r $all || {
    echo "    not all of them can be had; taking them one by one"
    grep -v '^#' $all | while read -r package; do
      pip_install -q --no-deps "$package" < /dev/null || echo "    not to be had: $package"
    done
  }
fi
if git rev-parse --git-dir > /dev/null 2>&1 && [ -z "$(git config core.hooksPath)" ]; then
  git config core.hooksPath scripts/hooks  # formats mend themselves at each commit
fi
echo "$wanted" > $stamp
say "set-up complete: $("$venv" -c 'import sys, torch; print("Python", sys.version.split()[0] + ", torch", torch.__version__)')"
