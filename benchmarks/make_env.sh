#!/bin/sh
# Makes the environment of one peer: benchmarks/envs/NAME, a virtual environment that sees the packages of the Python it was
# made from (torch, numpy, Pillow are not installed twice) and holds the peer's own packages in front of them.
#
#   benchmarks/make_env.sh NAME [PYTHON]     NAME: one of the recipes below; PYTHON: .venv/bin/python
#
# What a peer needs from the system is printed when its build fails; Debian's names are in the comments below.
set -eu
cd "$(dirname "$0")"
name=${1:?usage: make_env.sh NAME [PYTHON]}
base=${2:-../.venv/bin/python}
env=envs/$name

mkdir -p envs
"$base" -m venv --without-pip "$env"
site=$("$env/bin/python" -c 'import sysconfig; print(sysconfig.get_paths()["purelib"])')
"$base" -c 'import sys; print(*[p for p in sys.path if p.endswith("-packages")], sep="\n")' > "$site/base.pth"
install() { "$env/bin/python" -m pip install --prefer-binary "$@"; }

case $name in
  dali) install nvidia-dali-cuda130 ;;  # runs on the CPU alone, without a driver: device_id=None
  grain) install grain; install --no-deps opencv-python-headless ;;
  mlx-data) install mlx-data ;;
  pillow-simd)  # libjpeg-dev zlib1g-dev; -mavx2 selects its widest code
    install "setuptools>=77" pybind11
    CC="cc -mavx2 -O3" install --no-deps --no-build-isolation --no-binary pillow-simd pillow-simd ;;
  ffcv)  # pkg-config libopencv-dev libturbojpeg0-dev; its C++ code wants numpy 1
    install "numpy<2" "setuptools<81" opencv-python-headless==4.11.0.86 numba tqdm pandas assertpy
    install --no-deps --no-build-isolation ffcv ;;
  spdl) install spdl ;;  # FFmpeg's shared libraries: libavcodec59 libavdevice59 libavfilter8 libavformat59 libswscale6
  tf-data) install tensorflow-cpu ;;
  torchcodec) install --ignore-installed torch torchcodec ;;  # 5 GB: its wheels are for torch's CUDA builds
  turboloader) install --no-deps turboloader ;;
  *) echo "make_env.sh: no recipe for '$name'" >&2; exit 2 ;;
esac
echo "made benchmarks/$env"
