"""Writes golden.inc: checksums of what torchvision on Pillow makes of small pictures, for golden_test.cpp.

Usage: python make_golden.py > golden.inc      (made with Pillow 13.0.0 and torchvision 0.28.0)

Each line is one chain with its random decisions written out, so that no random generator is involved:
GOLDEN("chain", width, height, orientation, out_height, out_width, checksum). The grammar of a chain is in
golden_test.cpp.
"""

from __future__ import annotations

import numpy as np
import torchvision.transforms.functional as F
from PIL import Image, ImageFilter, ImageOps
from torchvision.transforms import InterpolationMode

MODES = {"l": InterpolationMode.BILINEAR, "c": InterpolationMode.BICUBIC, "n": InterpolationMode.NEAREST}
PADDING = ["constant", "edge", "reflect", "symmetric"]


def picture(width: int, height: int) -> Image.Image:
    """Smooth areas, edges and noise from plain integer arithmetic: the same in picture_of() of
    golden_test.cpp.
    """
    y, x, c = np.meshgrid(np.arange(height), np.arange(width), np.arange(3), indexing="ij")
    noise = (x * 2654435761 + y * 40503 + c * 97) % 4294967296 >> 7
    value = np.where((x // 9 + y // 7) % 3 == 0, noise, x * 5 + y * 3 + c * 40)
    return Image.fromarray((value & 255).astype(np.uint8))


def run(chain: str, image: Image.Image, orientation: int) -> Image.Image:
    for step in chain.split():
        name, *args = step.split(",")
        n = [int(a) for a in args if a.lstrip("-").isdigit()]
        if name == "exif":
            image.getexif()[0x0112] = orientation
            image = ImageOps.exif_transpose(image)
        elif name == "hflip":
            image = F.hflip(image)
        elif name == "vflip":
            image = F.vflip(image)
        elif name == "resize":  # mode, height, width (0: shorter side), max_size (0: none)
            image = F.resize(image, [n[0], n[1]] if n[1] else n[0], MODES[args[0]], max_size=n[2] or None)
        elif name == "center":
            image = F.center_crop(image, n)
        elif name == "rrc":  # mode, height, width, left, top, box width, box height
            image = F.resized_crop(image, n[3], n[2], n[5], n[4], n[:2], MODES[args[0]])
        elif name == "crop":  # padding mode, fill, padding, height, width, left, top
            mode, fill, padding, height, width, left, top = n
            if padding:
                image = F.pad(image, padding, (fill, fill + 1, fill + 2), PADDING[mode])
            image = F.crop(image, top, left, height, width)
        elif name in ("brightness", "contrast", "saturation", "hue", "sharpness"):  # hundredths
            image = getattr(F, f"adjust_{name}")(image, n[0] / 100)
        elif name in ("posterize", "solarize"):  # hundredths of bits, of the threshold
            image = getattr(F, name)(image, n[0] // 100)
        elif name == "gaussian":  # hundredths of the radius
            image = image.filter(ImageFilter.GaussianBlur(n[0] / 100))
        elif name in ("autocontrast", "equalize", "invert"):
            image = getattr(F, name)(image)
        elif name == "grey":
            image = F.rgb_to_grayscale(image, 3)
        elif name == "rotate":  # mode, degrees
            image = F.rotate(image, n[0], MODES[args[0]], fill=(1, 2, 3))
        elif name == "affine":  # mode, degrees, shift x, shift y, scale in hundredths, shear x, shear y
            image = F.affine(image, n[0], n[1:3], n[3] / 100, n[4:6], MODES[args[0]], fill=(1, 2, 3))
    return image


def checksum(image: Image.Image) -> int:
    """FNV-1a, 64 bits, over the planes."""
    h = 0xCBF29CE484222325
    for byte in np.asarray(image).transpose(2, 0, 1).tobytes():
        h = (h ^ byte) * 0x100000001B3 & 0xFFFFFFFFFFFFFFFF
    return h


CASES = [
    ("", 5, 4, 1),
    ("resize,l,24,30,0", 61, 47, 1),
    ("resize,c,24,30,0", 61, 47, 1),
    ("resize,n,24,30,0", 61, 47, 1),
    ("resize,l,90,80,0", 31, 17, 1),
    ("resize,c,90,80,0", 31, 17, 1),
    ("resize,n,90,80,0", 31, 17, 1),
    ("resize,l,20,61,0", 61, 47, 1),
    ("resize,c,47,20,0", 61, 47, 1),
    ("resize,l,12,40,0", 45, 90, 1),
    ("resize,l,40,40,0", 30, 120, 1),  # tall and narrow: vertical pass first
    ("resize,c,40,40,0", 42, 120, 1),
    ("resize,l,3,5,0", 300, 200, 1),
    ("resize,l,32,0,0 center,28,28", 77, 50, 1),
    ("resize,c,32,0,40 center,28,28", 50, 90, 1),
    ("center,40,50", 31, 33, 1),
    ("center,7,8", 20, 20, 1),
    ("rrc,l,32,32,7,3,40,29", 61, 47, 1),
    ("rrc,l,32,32,7,3,40,29 hflip", 61, 47, 1),
    ("rrc,c,32,24,0,0,13,47 hflip vflip", 61, 47, 1),
    ("rrc,l,16,16,60,46,1,1", 61, 47, 1),
    ("rrc,n,16,20,5,6,33,21 vflip", 61, 47, 1),
    ("hflip rrc,l,32,32,7,3,40,29", 61, 47, 1),
    ("vflip resize,c,20,21,0 hflip", 61, 47, 1),
    ("crop,0,9,4,32,32,1,7 hflip", 32, 32, 1),
    ("crop,1,0,4,32,32,8,0", 32, 32, 1),
    ("crop,2,0,4,32,32,0,8", 32, 32, 1),
    ("crop,3,0,6,32,32,0,12 vflip", 32, 32, 1),
    ("crop,0,0,0,10,12,3,4", 32, 32, 1),
    ("resize,l,32,32,0 crop,0,5,4,32,32,8,8", 50, 41, 1),
    ("crop,2,0,9,40,40,0,0 resize,l,21,23,0", 40, 30, 1),
    ("resize,l,40,0,0 rrc,c,16,16,3,4,20,30", 61, 47, 1),
    ("resize,n,20,20,0 resize,l,33,35,0", 61, 47, 1),
    ("brightness,70 saturation,160 hue,-25 contrast,130", 61, 47, 1),
    ("contrast,0 hue,50 brightness,250", 61, 47, 1),
    ("grey hflip", 31, 17, 1),
    ("rrc,l,32,32,7,3,40,29 hue,33 contrast,50 saturation,30 contrast,180", 61, 47, 1),
    ("contrast,40 rrc,l,32,32,7,3,40,29 hflip saturation,200", 61, 47, 1),
    ("hue,10 crop,0,90,4,32,32,1,7 brightness,50 vflip", 32, 32, 1),
    ("crop,2,0,9,40,40,0,0 contrast,160 resize,l,21,23,0", 40, 30, 1),
    ("rotate,n,37", 61, 47, 1),
    ("rotate,l,-100", 61, 47, 1),
    ("rotate,c,3", 61, 47, 1),
    ("rotate,n,180", 61, 47, 1),
    ("rotate,l,90", 33, 33, 1),
    ("hflip rotate,l,20 vflip center,20,30", 61, 47, 1),
    ("resize,l,40,40,0 rotate,l,12 hue,20 rrc,l,16,16,5,6,30,31", 61, 47, 1),
    ("affine,n,20,3,-4,130,10,5", 61, 47, 1),
    ("affine,l,-50,-9,2,60,0,-20", 61, 47, 1),
    ("affine,c,5,0,0,200,0,0 center,60,40", 61, 47, 1),
    ("affine,n,0,5,7,150,0,0 grey", 61, 47, 1),
    ("affine,l,0,300,0,100,0,0", 31, 17, 1),
    ("sharpness,190", 61, 47, 1),
    ("sharpness,10 hflip center,30,31", 61, 47, 1),
    ("sharpness,300", 2, 9, 1),
    ("rrc,l,32,32,7,3,40,29 sharpness,150 equalize sharpness,30 vflip crop,0,0,0,20,20,3,4", 61, 47, 1),
    ("posterize,300 solarize,12800", 61, 47, 1),
    ("resize,l,24,30,0 solarize,25600 invert rotate,l,20", 61, 47, 1),
    ("brightness,40 autocontrast contrast,150 autocontrast", 61, 47, 1),
    ("equalize rrc,c,16,18,5,6,30,31 equalize hflip", 61, 47, 1),
    ("gaussian,120", 61, 47, 1),
    ("gaussian,10 hflip center,30,31", 61, 47, 1),
    ("rrc,c,32,32,7,3,40,29 gaussian,200 gaussian,55", 61, 47, 1),
    ("gaussian,3000", 9, 5, 1),
    ("equalize", 5, 4, 1),
    ("autocontrast", 1, 1, 1),
    *[
        (f"exif rrc,l,16,18,3,5,20,{h}", 61, 47, o)
        for o, h in zip(range(1, 9), [30, 31, 32, 33, 34, 35, 36, 37], strict=True)
    ],
    *[("exif", 6, 4, o) for o in range(1, 9)],
]

if __name__ == "__main__":
    for chain, width, height, orientation in CASES:
        out = run(chain, picture(width, height), orientation)
        print(
            f'GOLDEN("{chain}", {width}, {height}, {orientation}, {out.height}, {out.width},'
            f" 0x{checksum(out):016X})"
        )
