"""torch DataLoader with the same hand-written code on Pillow-SIMD, built for AVX2."""

from __future__ import annotations

from benchmarks.loaders.torch_pil import TOLERANCE, open_epochs

__all__ = ["ENVIRONMENT", "PACKAGES", "TOLERANCE", "open_epochs"]

ENVIRONMENT = "pillow-simd"
PACKAGES = ("torch", "pillow-simd", "numpy")
