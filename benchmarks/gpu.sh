#!/usr/bin/env bash
# Builds millrace on a machine with a GPU, runs the tests that need one, and measures: all in under 8 minutes, without a network.
#
#   benchmarks/gpu.sh                 # results: benchmarks/results/gpu/local.jsonl, logs and all: $OUT (default build/gpu)
#   benchmarks/gpu.sh --fake          # the same on a machine without a GPU: the tests skip, the benchmarks run on the tests' fake device
#
# Needs what a build needs (README.md), torch with CUDA and pytest in $PYTHON (default python3), nvcc, and Google Highway and
# libjpeg-turbo with headers; PREFIX=folder names a folder where these two were unpacked (usr/include, usr/lib/...). nvJPEG is
# looked for where torch's wheels and the toolkit put it; a folder of wheels can be named by WHEELS. Without compute-sanitizer, or
# where it cannot run, its part is left out and said so.
set -uo pipefail
cd "$(dirname "$0")/.."
PYTHON=${PYTHON:-python3}
OUT=${OUT:-$PWD/build/gpu}
BUILD=$PWD/build/gpu
LIMIT=${LIMIT:-480}
fake=""
[ "${1:-}" = --fake ] && fake=--fake
mkdir -p "$OUT" "$BUILD"
rm -f "$OUT"/*.failed

left() { echo $((LIMIT - SECONDS)); }
# part NAME SECONDS COMMAND...: runs it for at most so long; its output goes to $OUT/NAME.log, its last lines to the screen.
part() {
  local name=$1 most=$2 start=$SECONDS
  shift 2
  [ "$most" -gt "$(left)" ] && most=$(left)
  if [ "$most" -le 5 ]; then
    echo "== $name: left out, the time is used up"
    touch "$OUT/$name.failed"
    return 1
  fi
  timeout -k 5 "$most" "$@" > "$OUT/$name.log" 2>&1
  local status=$?
  echo "== $name: $((SECONDS - start)) s"
  if [ $status = 0 ]; then
    tail -n "${LINES_SHOWN:-4}" "$OUT/$name.log"
  else
    echo "   FAILED ($status)"
    tail -n 30 "$OUT/$name.log"
    touch "$OUT/$name.failed"
  fi
  return $status
}

if [ -n "${PREFIX:-}" ]; then
  libraries=$(find "$PREFIX" -name 'libjpeg.so*' -printf '%h\n' | head -n 1)
  export CMAKE_PREFIX_PATH="$PREFIX/usr${CMAKE_PREFIX_PATH:+:$CMAKE_PREFIX_PATH}"
  export PKG_CONFIG_PATH="$libraries/pkgconfig" PKG_CONFIG_SYSROOT_DIR="$PREFIX" LD_LIBRARY_PATH="$libraries:${LD_LIBRARY_PATH:-}"
  export CPATH="$PREFIX/usr/include:$PREFIX/usr/include/x86_64-linux-gnu" LIBRARY_PATH="$libraries" PATH="$PATH:$PREFIX/usr/bin"
fi
if [ -n "${WHEELS:-}" ]; then
  "$PYTHON" -m pip install -q --no-index --no-deps --target "$BUILD/site" "$WHEELS"/*.whl
  export PYTHONPATH="$BUILD/site"
fi

# Only for this machine's GPU, where there is one: several architectures would take the time of the benchmarks.
architectures=(-UCMAKE_CUDA_ARCHITECTURES)
[ -z "$fake" ] && architectures=(-DCMAKE_CUDA_ARCHITECTURES=native)
part configure 60 cmake -S . -B "$BUILD" -G Ninja -DPython_EXECUTABLE="$(command -v "$PYTHON")" -DMILLRACE_PYTHON=ON -DMILLRACE_CUDA=ON \
  "${architectures[@]}" -DCMAKE_LIBRARY_OUTPUT_DIRECTORY="$BUILD/python/millrace"
part build 240 ninja -C "$BUILD" _core libmillrace.a libmillrace.so || exit 1
# Python's part goes beside the library that was built; the source tree may have another one.
mkdir -p "$BUILD/python"
tar -C python --exclude='_core*.so' --exclude=__pycache__ -cf - millrace | tar -C "$BUILD/python" -xf -
export PYTHONPATH="$BUILD/python:$PWD:${PYTHONPATH:-}"

# What is right: several at a time. Programs in C++: batches on the CPU, on a fake device, and on the GPU where there is one.
part cpp-library 150 env CMAKE_GENERATOR=Ninja MILLRACE_BUILD="$BUILD" "$PYTHON" -m pytest -q -rs \
  tests/python/test_cpp_package.py -k "adapters or on_a_device" &
if [ -n "$fake" ]; then
  wait
  part fat-binary 30 "$PYTHON" -m pytest -q -rs tests/cuda/test_fat_binary.py
  part tests 60 "$PYTHON" -m pytest -q -rs tests/cuda
  part kernels 90 "$PYTHON" -m benchmarks.batch_kernels --device cpu --pictures 8 --repeats 2
  part benchmarks 60 "$PYTHON" -m benchmarks.gpu --fake
else
  several=""
  "$PYTHON" -c "import xdist" 2> /dev/null && several="-n 4"
  # shellcheck disable=SC2086
  part tests 120 "$PYTHON" -m pytest -q -rs $several tests/cuda --ignore tests/cuda/test_fat_binary.py &  # which is about all architectures
  wait
  # What is fast: one at a time.
  LINES_SHOWN=60 part kernels 90 "$PYTHON" -m benchmarks.batch_kernels
  LINES_SHOWN=40 part benchmarks 300 "$PYTHON" -m benchmarks.gpu --rounds "${ROUNDS:-7}" --out "$OUT/gpu.jsonl"
  [ -f "$OUT/gpu.jsonl" ] && mkdir -p benchmarks/results/gpu && cat "$OUT/gpu.jsonl" >> benchmarks/results/gpu/local.jsonl
  # What is in bounds, with the time that is left, and by itself: a sanitizer holds up everything else on the device. Kernels are some
  # ten times slower under it: one layout, and chains that together have every step, see every kernel.
  kernels=${KERNELS:-contiguous or augment_equals or SimCLR or AugMix or RandomCrop or maps or all}
  if command -v compute-sanitizer > /dev/null && compute-sanitizer --tool memcheck "$PYTHON" -c "import torch; torch.ones(1).cuda()" \
    > "$OUT/sanitizer.log" 2>&1; then
    for tool in memcheck racecheck; do
      part "$tool" 90 compute-sanitizer --tool "$tool" --error-exitcode 9 \
        "$PYTHON" -m pytest -q tests/cuda/test_batch_kernels.py tests/cuda/test_picture_steps.py -k "$kernels"
    done
  else
    echo "== compute-sanitizer does not run here; its part is left out"
  fi
fi
failed=$(find "$OUT" -name '*.failed' -printf '%f ')
echo "== ${failed:-all parts done }in $SECONDS s; logs in $OUT"
[ -z "$failed" ]
