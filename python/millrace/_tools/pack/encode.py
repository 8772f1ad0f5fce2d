"""Python values as files of a shard, by the names that readers of WebDataset shards know.

| value | field |
|---|---|
| bytes | the name itself for "jpg", "mask.png" and the like; a picture by its content; else bin |
| PIL picture | jpg (RGB and grey, quality 95) or png |
| int, bool | cls for "label", "labels", "target", "class", "cls"; else its own name and .cls |
| str | txt |
| tensor, numpy array | npy |
| anything JSON has, floats too | json |

A field "image" or "img" is named by its kind alone (jpg), others are "name.kind"; None is left out.
"""

from __future__ import annotations

import io
import json
from typing import Any

import numpy as np
import torch
from PIL import Image

from .sources import picture_suffix

_PICTURES = ("image", "img", "picture")
_LABELS = ("label", "labels", "target", "class", "cls")
_KNOWN = frozenset(
    "jpg jpeg png webp gif bmp tiff ppm pgm cls cls2 index inx id txt text transcript json jsn npy npz pyd"
    " pickle pth ten bin mp4 wav flac mp3 cbor mp msg".split()
)


def encode_fields(values: dict[str, Any]) -> dict[str, bytes]:
    """Files by suffix. TypeError names what cannot be stored, ValueError two values that get one suffix."""
    result: dict[str, bytes] = {}
    for name, value in values.items():
        if value is None:
            continue
        kind, content = _encode(name, value)
        if name.rpartition(".")[2].lower() in _KNOWN and isinstance(value, bytes):
            suffix = name
        elif name.lower() in _PICTURES or (kind == "cls" and name.lower() in _LABELS):
            suffix = kind
        elif name.rpartition(".")[2].lower() == kind:
            suffix = name
        else:
            suffix = f"{name}.{kind}"
        if suffix in result:
            raise ValueError(
                f"two values of a sample would be stored as {suffix!r}: rename one of {', '.join(values)}"
            )
        result[suffix] = content
    return result


def encode_tuple(values: Any) -> dict[str, bytes]:
    """Files by suffix of a tuple or a single value: the kind alone for the first of each kind, "1.kind" and
    so on for later ones.
    """
    result: dict[str, bytes] = {}
    for position, value in enumerate(values if isinstance(values, (tuple, list)) else [values]):
        if value is None:
            continue
        kind, content = _encode(f"value {position}", value)
        result[kind if kind not in result else f"{position}.{kind}"] = content
    return result


def _encode(name: str, value: Any) -> tuple[str, bytes]:
    if isinstance(value, (bytes, bytearray, memoryview)):
        content = bytes(value)
        return picture_suffix(content, "bin"), content
    if isinstance(value, Image.Image):
        return _encode_picture(value)
    if isinstance(value, torch.Tensor):
        value = value.detach().cpu().numpy()
    if isinstance(value, np.ndarray) and not value.dtype.hasobject:
        if value.ndim == 0:
            return _encode(name, value.item())
        made = io.BytesIO()
        np.save(made, value, allow_pickle=False)
        return "npy", made.getvalue()
    if isinstance(value, (bool, int, np.integer, np.bool_)):
        return "cls", str(int(value)).encode()
    if isinstance(value, str):
        return "txt", value.encode("utf-8", "surrogateescape")
    if isinstance(value, np.generic):
        value = value.item()
    try:
        return "json", json.dumps(value, ensure_ascii=False, sort_keys=True).encode()
    except (TypeError, ValueError) as error:
        raise TypeError(
            f"{name}: a {type(value).__name__} cannot be stored ({error}); let the dataset give bytes,"
            " numbers, text, pictures, arrays or what JSON has"
        ) from None


def _encode_picture(image: Image.Image) -> tuple[str, bytes]:
    made = io.BytesIO()
    if image.mode in ("RGB", "L"):
        image.save(
            made,
            "JPEG",
            quality=95,
            exif=image.info.get("exif", b""),
            icc_profile=image.info.get("icc_profile"),
        )
        return "jpg", made.getvalue()
    image.save(made, "PNG")
    return "png", made.getvalue()
