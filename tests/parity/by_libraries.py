"""What torchvision, timm and Pillow make of PIL images with the engine's decisions (from `draw`), for tests
that ask for identical pixels; of tensors, too, where a chain goes on with these. Import it where torchvision
is.
"""

from copy import copy
from itertools import chain, permutations
from unittest import mock

import numpy as np
import torch
import torchvision.transforms as v1
from PIL import Image, ImageEnhance, ImageOps
from torchvision.transforms.v2 import functional as F

BOX = ("top", "left", "height", "width")
FILL = (124, 116, 104)  # of timm's tests
_FIXED = ("Pad", "Resize", "CenterCropOrPad", "TrimBorder", "CenterCrop", "Normalize")
_FIXED += ("ToTensor", "PILToTensor", "ToImage", "ToDtype", "ConvertImageDtype", "MaybeToTensor")
_FLIPS = {"RandomHorizontalFlip": F.horizontal_flip, "RandomVerticalFlip": F.vertical_flip}


def mode_of(transform):
    """Its interpolation. torchvision before 0.27 takes no names."""
    mode = transform.interpolation
    return (
        v1.InterpolationMode(mode)
        if isinstance(mode, str) and not isinstance(mode, v1.InterpolationMode)
        else mode
    )


def framed(picture, box, fill=0, mode="constant"):
    """The rectangle of `picture`, which may reach outside of it."""
    right, bottom = box["left"] + box["width"], box["top"] + box["height"]
    sides = [-box["left"], -box["top"], right - picture.width, bottom - picture.height]
    picture = F.pad(picture, [max(side, 0) for side in sides], fill, mode)
    return F.crop(picture, max(box["top"], 0), max(box["left"], 0), box["height"], box["width"])


def by_libraries(picture, transform, decided, functional=F):
    """`transform` of a PIL image, with the engine's decisions (an iterator) where it is random. `functional`:
    torchvision's functions that apply policies.
    """
    name = type(transform).__name__
    if name in _FIXED:
        if name == "Resize":
            transform = copy(transform)
            transform.interpolation = mode_of(transform)
        return transform(picture)
    if name == "Grayscale":
        return F.rgb_to_grayscale(picture, transform.num_output_channels)
    if name == "Compose":
        for part in transform.transforms:
            picture = by_libraries(picture, part, decided, functional)
        return picture
    d = next(decided)
    if "ops" in d:
        return _by_policy(picture, transform, d["ops"], functional)
    match name:
        case "RandomZoomOut" | "RandomCropOrPad":
            mode = getattr(transform, "padding_mode", "constant")
            return framed(picture, d, transform.fill, mode) if d["applied"] else picture
        case "RandomShortestSize" | "ScaleJitter" | "RandomResize" | "ResizeKeepRatio":
            return F.resize(picture, [d["height"], d["width"]], v1.InterpolationMode(d["interpolation"]))
        case "RandomResizedCrop" | "RandomResizedCropAndInterpolation":
            mode = v1.InterpolationMode(d.get("interpolation", mode_of(transform)))
            return F.resized_crop(picture, *(d[side] for side in BOX), transform.size, mode)
        case "RandomCrop":
            return F.crop(_padded(picture, transform), *(d[side] for side in BOX))
        case "RandomPerspective":
            mode, fill = mode_of(transform), transform.fill
            if not d["applied"]:
                return picture
            return F.perspective(picture, None, None, mode, fill, d["coefficients"])
        case "ColorJitter" | "RandomPhotometricDistort":
            for step in d["order"]:
                picture = getattr(F, f"adjust_{step}")(picture, d[step])
            permutation = d.get("permutation")
            return picture if permutation is None else F.permute_channels(picture, list(permutation))
        case "RandomGrayscale":
            return F.rgb_to_grayscale(picture, len(picture.getbands())) if d["applied"] else picture
        case "RandomHorizontalFlip" | "RandomVerticalFlip":
            return _FLIPS[name](picture) if d["flip"] else picture
        case "RandomRotation":
            mode, options = mode_of(transform), {"center": transform.center, "fill": transform.fill}
            return F.rotate(picture, d["angle"], mode, **options)
        case "RandomAffine":
            options = {"center": transform.center, "fill": transform.fill}
            options["interpolation"] = mode_of(transform)
            numbers = list(d["translate"]), d["scale"], list(d["shear"])
            return F.affine(picture, d["angle"], *numbers, **options)
        case "GaussianBlur":
            kernel = list(transform.kernel_size)
            return F.gaussian_blur(picture, kernel, [d["sigma"]] * 2) if d["applied"] else picture
        case "AugMixAugment":
            return mixed_by_timm(picture, transform, d)
        case "RandomApply" if "chosen" in d:
            parts = transform.transforms if d["chosen"] == 0 else []
            return by_libraries(picture, v1.Compose(list(parts)), decided, functional)
        case "RandomApply":  # its probability is that of its one step
            (part,) = transform.transforms
            while type(part).__name__ == "Compose":
                (part,) = part.transforms
            part = v1.RandomGrayscale() if type(part).__name__ == "Grayscale" else part
            return by_libraries(picture, part, chain([d], decided), functional)
        case "RandomChoice":
            return by_libraries(picture, transform.transforms[d["chosen"]], decided, functional)
        case "RandomOrder":
            order = list(permutations(transform.transforms))[d["chosen"]]
            return by_libraries(picture, v1.Compose(list(order)), decided, functional)
        case "RandomErasing":
            boxes = [[d[side] for side in BOX], *d.get("more", [])] if d["applied"] else []
            value = torch.tensor(getattr(transform, "value", 0.0), dtype=picture.dtype).reshape(-1, 1, 1)
            for box in boxes:
                picture = F.erase(picture, *box, value.expand(3, *box[2:]))
            return picture
        case "GaussianNoise" if transform.sigma == 0:
            return transform(picture)
    raise AssertionError(name)


def _padded(picture, crop):
    """As RandomCrop does it before it draws: v1 one padding after the other, v2 (and ours) all at once."""
    height, width = crop.size
    options = crop.fill, crop.padding_mode
    if type(crop).__module__ == v1.RandomCrop.__module__:
        if crop.padding is not None:
            picture = F.pad(picture, crop.padding, *options)
        if crop.pad_if_needed and picture.width < width:
            picture = F.pad(picture, [width - picture.width, 0], *options)
        if crop.pad_if_needed and picture.height < height:
            picture = F.pad(picture, [0, height - picture.height], *options)
        return picture
    left, right, top, bottom = crop.padding or [0] * 4
    if crop.pad_if_needed:
        across = max(0, width - picture.width - left - right)
        down = max(0, height - picture.height - top - bottom)
        left, right, top, bottom = left + across, right + across, top + down, bottom + down
    return F.pad(picture, [left, top, right, bottom], *options)


def _by_policy(picture, transform, ops, functional):
    of_timm = type(transform).__module__.startswith("timm")
    fill = _fill_of(transform)
    for op in ops:
        mode = op.get("interpolation", "nearest")
        if of_timm:
            picture = by_timm(picture, op["kind"], op["value"], mode)
        else:
            mode = v1.InterpolationMode(mode)
            picture = operated(functional, picture, op["kind"], op["value"], mode, fill)
    return picture


def _fill_of(transform):
    """Of a policy, or of one that is held by chance: all that are held fill alike."""
    fills = [_fill_of(part) for part in getattr(transform, "transforms", ())]
    return getattr(transform, "fill", next((fill for fill in fills if fill is not None), None))


def operated(functional, picture, kind, value, mode, fill):
    """By torchvision's function, with the value that was drawn."""
    match kind:
        case "identity":
            return picture
        case "shear_x" | "shear_y":
            angle = float(np.degrees(np.arctan(value)))
            shear = [angle, 0.0] if kind == "shear_x" else [0.0, angle]
            return functional.affine(picture, 0.0, [0, 0], 1.0, shear, mode, fill, center=[0, 0])
        case "translate_x" | "translate_y":
            moved = [int(value), 0] if kind == "translate_x" else [0, int(value)]
            return functional.affine(picture, 0.0, moved, 1.0, [0.0, 0.0], mode, fill)
        case "rotate":
            return functional.rotate(picture, value, mode, fill=fill)
        case "posterize":
            return functional.posterize(picture, int(value))
        case "solarize":
            return functional.solarize(picture, value)
        case "brightness" | "contrast" | "saturation" | "sharpness":
            return getattr(functional, f"adjust_{kind}")(picture, value)
    return getattr(functional, kind)(picture)


def by_timm(picture, kind, value, mode):
    """By timm's function, with the value that was drawn and FILL."""
    from timm.data import auto_augment as timm

    function = {
        "identity": lambda picture, **options: picture,
        "translate_x": timm.translate_x_abs,
        "translate_y": timm.translate_y_abs,
        "autocontrast": timm.auto_contrast,
        "saturation": timm.color,
    }.get(kind) or getattr(timm, kind)
    args = () if kind in ("identity", "autocontrast", "equalize", "invert") else (value,)
    if kind in ("posterize", "solarize", "solarize_add"):
        args = (int(value),)
    return function(picture, *args, fillcolor=FILL, resample=Image.Resampling[mode.upper()])


def by_pillow(step):
    """A drawn operation of timm as a function of pictures, by Pillow alone."""
    kind, value = step["kind"], step["value"]
    if "inverse" in step:
        mode = Image.Resampling[step["interpolation"].upper()]
        return lambda image: image.transform(image.size, Image.AFFINE, step["inverse"], mode, fillcolor=FILL)
    enhance = {
        "brightness": "Brightness",
        "contrast": "Contrast",
        "saturation": "Color",
        "sharpness": "Sharpness",
    }
    if kind in enhance:
        return lambda image: getattr(ImageEnhance, enhance[kind])(image).enhance(value)
    if kind in ("posterize", "solarize"):
        return lambda image: getattr(ImageOps, kind)(image, int(value))
    if kind in ("autocontrast", "equalize", "invert"):
        return getattr(ImageOps, kind)
    # Nothing was drawn that moves a pixel.
    assert kind in ("identity", "rotate", "shear_x", "shear_y", "translate_x", "translate_y")
    return lambda image: image


def mixed_by_timm(picture, augmix, drawn):
    """By timm's own AugMix of copies that Pillow makes."""
    copies = iter(drawn["copies"])
    shares = np.float32([copy["share"] for copy in drawn["copies"]])

    def choice(ops, depth, replace):
        return list(map(by_pillow, next(copies)["ops"]))

    with (
        mock.patch.object(np.random, "randint", lambda *bounds: 1),
        mock.patch.object(np.random, "choice", choice),
        # Whose shares the engine has worked out already.
        mock.patch.object(augmix, "_calc_blended_weights", lambda weights, share: weights),
    ):
        if augmix.blended:
            return augmix._apply_blended(picture, shares, None)
        return augmix._apply_basic(picture, shares, np.float32(drawn["share"]))
