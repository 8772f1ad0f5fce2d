#!/usr/bin/env bash
# Compiles C++ tests for aarch64 and runs them under qemu-user, on Debian x86-64.
#
#   scripts/aarch64.sh FOLDER [TEST ...]     (without tests: base_test codecs_test transforms_test pictures_test)
#
# Debian's arm64 libraries are unpacked under FOLDER/root: none is installed, so those of this machine stay.
#   needs: dpkg --add-architecture arm64; apt-get update; apt-get install g++-aarch64-linux-gnu qemu-user cmake ninja-build
set -euo pipefail
[ $# -ge 1 ] || { sed -n '2,7s/^# \{0,1\}//p' "$0"; exit 2; }
mkdir -p "$1/debs"
folder=$(cd "$1" && pwd)
shift
cd "$(dirname "$0")/.."
[ $# -gt 0 ] || set -- base_test codecs_test transforms_test pictures_test

packages="libjpeg62-turbo libjpeg62-turbo-dev libdeflate0 libdeflate-dev libwebp7 libwebpdemux2 libwebpmux3 libwebp-dev zlib1g zlib1g-dev
  libzstd1 libzstd-dev libsimdjson14 libsimdjson-dev libhwy1 libhwy-dev libgtest-dev libgmock-dev"
if [ ! -d "$folder/root" ]; then
    (cd "$folder/debs" && for package in $packages; do apt-get download -qq "$package:arm64"; done)
    for package in "$folder"/debs/*.deb; do dpkg -x "$package" "$folder/root"; done
fi
libraries=$folder/root/usr/lib/aarch64-linux-gnu
cat > "$folder/toolchain.cmake" << END
set(CMAKE_SYSTEM_NAME Linux)
set(CMAKE_SYSTEM_PROCESSOR aarch64)
set(CMAKE_C_COMPILER aarch64-linux-gnu-gcc)
set(CMAKE_CXX_COMPILER aarch64-linux-gnu-g++)
set(CMAKE_LIBRARY_ARCHITECTURE aarch64-linux-gnu)
set(CMAKE_FIND_ROOT_PATH $folder/root /usr/aarch64-linux-gnu)
set(CMAKE_FIND_ROOT_PATH_MODE_PROGRAM NEVER)
set(CMAKE_FIND_ROOT_PATH_MODE_LIBRARY ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_INCLUDE ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_PACKAGE ONLY)
set(CMAKE_EXE_LINKER_FLAGS_INIT "-L$libraries -Wl,-rpath-link,$libraries")
set(CMAKE_CXX_FLAGS_INIT "-isystem $folder/root/usr/include -isystem $folder/root/usr/include/aarch64-linux-gnu")
END
export PKG_CONFIG_LIBDIR=$libraries/pkgconfig:$folder/root/usr/share/pkgconfig PKG_CONFIG_SYSROOT_DIR=$folder/root
cmake -S . -B "$folder/build" -G Ninja -DCMAKE_TOOLCHAIN_FILE="$folder/toolchain.cmake" \
    -DMILLRACE_TESTS=ON -DMILLRACE_CUDA=OFF > "$folder/configure.log" ||
    { tail -n 30 "$folder/configure.log"; exit 1; }
ninja -C "$folder/build" "$@"
failed=
for test in "$@"; do
    printf '\033[1m==>\033[0m %s\n' "$test"
    (cd tests && qemu-aarch64 -L /usr/aarch64-linux-gnu -E LD_LIBRARY_PATH="$libraries" \
        "$(find "$folder/build/tests" -name "$test" -type f)" --gtest_brief=1) || failed="$failed $test"
done
[ -z "$failed" ] || { echo "failed:$failed" >&2; exit 1; }
