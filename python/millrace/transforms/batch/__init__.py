"""Transforms of whole batches that lie in a tensor already, on the CPU or a CUDA device, each sample with
parameters of its own.

>>> from millrace.transforms import batch
>>> normalize = batch.Normalize(mean, std, dtype=torch.float16)
>>> augment = batch.Compose([batch.RandomHorizontalFlip(), batch.ColorJitter(0.4, 0.4, 0.4), normalize])
>>> images = augment(images)                      # (n, 3, h, w) uint8 -> float16, on their device

Names, arguments and meaning are torchvision's v2, applied to tensors; where torchvision draws once for a
batch, these draw for each sample. Images are (n, c, h, w) tensors with c 1 or 3, contiguous or channels_last
(which the result keeps), of uint8 (0..255), float16, bfloat16 or float32 (0..1 where colours are meant).
Results are new tensors. There are no gradients.

On a CUDA device everything runs in kernels of millrace's own on torch's current stream, with no
synchronisation and no copy but the kernels' arguments. The same kernels' arithmetic runs on CPU tensors, so
results agree.

Parameters are drawn on the host by a counter-based generator (Philox). Its key comes from torch's global
generator, from the `generator=` of a transform, or from the `key=` of a call: the same key gives the same
parameters.
"""

from ..._common.lazy import lazy_names

__getattr__, __dir__, __all__ = lazy_names(
    __name__,
    """
    .: functional
    .base: BatchTransform Compose
    .colors: ColorJitter Normalize RandomGrayscale
    .fused: Augmentation augment
    .geometry: RandomAffine RandomErasing RandomHorizontalFlip RandomRotation
    .mixing: CutMix MixUp
    """,
)
