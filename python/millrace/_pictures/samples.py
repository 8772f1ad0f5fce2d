"""Small JPEGs that tell decoders apart: by how they enlarge colours, their inverse transform, and whether
they turn pictures by their EXIF.
"""

from __future__ import annotations

import base64
from collections.abc import Callable
from typing import Any

# 19 x 13 pixels of a synthetic photo, colours at half the width, and at half the width and height.
_HALF_BOTH = base64.b85decode(
    b"|JeWF01!$>Nk#wx0RR9200961|JwjV03a3^92gWJ92y)XA|NI(P&6<sEHGk5N;*(<W_oyXW^itRkhq+Hh^~rmaG=_vuD-<1(9V3C"
    b";_~3g@VLs(#{b&@LjfWrBrqy4UNkgb#)NQ$#>U3R#>U3R#>U3R#>U3R#>U3R#>U3R#>U3R#>U3R#>U3R#>U3R#>U3R#>U3R#>W4^"
    b"01*fP4FD4Z0U`hb5di}c0sq7R7ytkR0RaF20000000000000020|5m8!~h=<009I70s{a500000000000RRF65fUL2K?G58|HJ?n"
    b"0RRI5000000000000000000331OLPT8W8{k0RRI40000000000000010ucieA^+L{3<CiG0ucid06zfe(AFdB!oc=f0ZGp~BUYM8"
    b"NNqGw?GqQ~6ORSqZ=i)}d}mD)WaY;C#S1Fsgz>TTXaCs"
)
_HALF_WIDTH = base64.b85decode(
    b"|JeWF01!$>Nk#wx0RR9200961|JwjV03a3^92gWJ92y)XA|NI(P&6<sEHGk5N;*(<W_oyXW^itRkhq+Hh^~rmaG=_vuD-<1(9V3C"
    b";_~3g@VLs(#{b&@LjfWrBrqy4UNkgb#)NQ$#>U3R#>U3R#>U3R#>U3R#>U3R#>U3R#>U3R#>U3R#>U3R#>U3R#>U3R#>U3R#>W4^"
    b"01*fP4FD4Z0U-ba5di}c0sq7R7ytkQ0{{R30000000000000030Rja7!~h=<009I70s{a500000000000RRF65fUL2K?G58|HJ?o"
    b"0RRF6000000000000000009C30|fuX038tk0s;XA0000000000000000Rj;c0|X&4VgK3y3<CiG0ucid06zfHp{z&M1%d3c0$9p~"
    b"%Ze4k-$4l30na)kR;?tYHkv4QtXfJ`$Hh>{d}mD)WaY;C#S0|&Dl%&xy$Xe&|Je"
)
_TURNED = (
    _HALF_BOTH[:20]
    + b"\xff\xe1\0\x22Exif\0\0II*\0\x08\0\0\0\x01\0\x12\x01\x03\0\x01\0\0\0\x06\0\0\0\0\0\0\0"
    + _HALF_BOTH[20:]
)
SAMPLES = _HALF_BOTH, _HALF_WIDTH, _TURNED


def agrees(theirs: Callable[[bytes], Any], ours: Callable[[bytes], Any]) -> bool:
    """Whether two decoders give the same arrays of all samples."""
    for jpeg in SAMPLES:
        try:
            one, other = theirs(jpeg), ours(jpeg)
        except Exception:  # whatever a package raises: it does not decode the sample
            return False
        if one is None or other is None or one.shape != other.shape or not bool((one == other).all()):
            return False
    return True
