#!/usr/bin/env bash
# Builds the libraries that a wheel has inside, static and position-independent, with their licences: what cibuildwheel runs first of all
# in its container (pyproject.toml, [tool.cibuildwheel]; docs/wheels.md).
#
#   scripts/wheel_dependencies.sh PREFIX
#
# SOURCES=folder      takes folder/NAME, where it exists, in the place of a clone of NAME's tag
# MILLRACE_CUDA=OFF   leaves NVIDIA's compiler out, and with it the GPU code
set -euo pipefail
[ $# = 1 ] || { sed -n '2,8s/^# \{0,1\}//p' "$0"; exit 2; }
mkdir -p "$1/licences"
prefix=$(cd "$1" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# Those that the tests run with (Debian 12's), or the next release in which what was found since is mended.
sources="
zlib           v1.3.1   https://github.com/madler/zlib                 LICENSE
zstd           v1.5.5   https://github.com/facebook/zstd               LICENSE
libdeflate     v1.18    https://github.com/ebiggers/libdeflate         COPYING
libwebp        v1.3.2   https://github.com/webmproject/libwebp         COPYING
libjpeg-turbo  2.1.5.1  https://github.com/libjpeg-turbo/libjpeg-turbo LICENSE.md
highway        1.0.3    https://github.com/google/highway              LICENSE
simdjson       v3.0.1   https://github.com/simdjson/simdjson           LICENSE
"

options_of() {
    case $1 in
        zstd) echo -DZSTD_BUILD_PROGRAMS=OFF -DZSTD_BUILD_SHARED=OFF ;;
        libdeflate) echo -DLIBDEFLATE_BUILD_SHARED_LIB=OFF -DLIBDEFLATE_BUILD_GZIP=OFF ;;
        libwebp) echo -DWEBP_BUILD_{ANIM_UTILS,CWEBP,DWEBP,GIF2WEBP,IMG2WEBP,VWEBP,WEBPINFO,WEBPMUX,EXTRAS}=OFF ;;
        libjpeg-turbo) echo -DENABLE_SHARED=OFF -DWITH_TURBOJPEG=OFF ;;
        highway) echo -DHWY_ENABLE_{TESTS,EXAMPLES,CONTRIB}=OFF ;;
        simdjson) echo -DSIMDJSON_DEVELOPER_MODE=OFF ;;
    esac
}

# libjpeg-turbo's SIMD code for x86 needs an assembler.
if command -v dnf > /dev/null; then
    dnf install -y git nasm pkgconf-pkg-config
    if [ "${MILLRACE_CUDA:-AUTO}" != OFF ] && ! command -v nvcc > /dev/null; then
        machine=$([ "$(uname -m)" = aarch64 ] && echo sbsa || uname -m)
        curl -sSfo /etc/yum.repos.d/cuda.repo "https://developer.download.nvidia.com/compute/cuda/repos/rhel8/$machine/cuda-rhel8.repo"
        dnf install -y cuda-nvcc-13-0 cuda-cudart-devel-13-0 libnvjpeg-devel-13-0 cuda-nvtx-13-0
        ln -sfn /usr/local/cuda-13.0 /usr/local/cuda
    fi
fi

echo "$sources" | while read -r name tag address licence; do
    [ -n "$name" ] || continue
    source=${SOURCES:-}/$name
    if ! [ -n "${SOURCES:-}" ] || ! [ -d "$source" ]; then
        source=$work/$name
        git clone -q --depth 1 --branch "$tag" "$address" "$source"
    fi
    tree=$source
    [ "$name" != zstd ] || tree=$source/build/cmake
    # shellcheck disable=SC2046
    cmake -S "$tree" -B "$work/$name-build" -DCMAKE_BUILD_TYPE=Release -DCMAKE_INSTALL_PREFIX="$prefix" \
        -DCMAKE_INSTALL_LIBDIR="$prefix/lib" \
        -DCMAKE_POSITION_INDEPENDENT_CODE=ON -DCMAKE_POLICY_VERSION_MINIMUM=3.5 -DBUILD_SHARED_LIBS=OFF -DBUILD_TESTING=OFF \
        $(options_of "$name") > "$work/$name.log" 2>&1 &&
        cmake --build "$work/$name-build" -j "$(nproc)" >> "$work/$name.log" 2>&1 &&
        cmake --install "$work/$name-build" >> "$work/$name.log" 2>&1 || { tail -n 30 "$work/$name.log" >&2; exit 1; }
    cp "$source/$licence" "$prefix/licences/$name.txt"
    echo "$name $tag"
done
# zlib installs both; the static one is what is linked.
rm -f "$prefix"/lib/libz.so*
