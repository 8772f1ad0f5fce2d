"""Image transforms with the names, arguments and results of torchvision's v2, without needing torchvision.

Each works alone on PIL images, tensors (..., C, H, W) and numpy arrays (H, W, C), drawing from torch's global
generator. Of tensors and arrays, resizing, colours and maps are torchvision's own functions, which have to be
installed for that; PIL images, and everything in the engine, need nothing more. Inside a
`millrace.DataLoader` the same objects describe what the engine does natively; there every random decision is
a function of (seed, epoch, index, occurrence) instead.
"""

from .._common.lazy import lazy_names

__getattr__, __dir__, __all__ = lazy_names(
    __name__,
    """
    .: batch functional
    .base: Compose RandomApply RandomChoice RandomOrder Transform
    .batch_size: RandomBatchSize
    .color: ColorJitter Grayscale RandomGrayscale RandomPhotometricDistort
    .frames: FiveCrop Pad RandomZoomOut TenCrop
    .functional: InterpolationMode
    .geometry: CenterCrop RandomCrop RandomHorizontalFlip RandomResizedCrop RandomVerticalFlip Resize
    .neighbours: GaussianBlur GaussianNoise RandomErasing
    .operations: RandomAdjustSharpness RandomAutocontrast RandomEqualize RandomInvert RandomPosterize
    .operations: RandomSolarize
    .policies: AutoAugment AutoAugmentPolicy RandAugment TrivialAugmentWide
    .sizes: RandomResize RandomShortestSize ScaleJitter
    .values: ConvertImageDtype Normalize PILToTensor ToDtype ToImage ToTensor
    .views: MultiView
    .warp: RandomAffine RandomPerspective RandomRotation
    """,
)
