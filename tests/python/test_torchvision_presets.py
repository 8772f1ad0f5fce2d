"""torchvision's own presets are looked through."""

import millrace
import pytest
import torch
from loader_data import torchvision_or_skip
from millrace import transforms as ours
from millrace._common.lowering.recognising import NotLowered
from transform_cases import lower_transform

RESIZE, CROP, TO_TENSOR = ours.Resize((8, 8)), ours.CenterCrop(6), ours.ToTensor()
CHAIN = ours.Compose([RESIZE, CROP, TO_TENSOR])
EXPECTED = lower_transform(CHAIN)[0]


@pytest.mark.parametrize("weights", ["ResNet18_Weights", "EfficientNet_B0_Weights", "ViT_B_16_Weights"])
def test_transforms_of_weights(jpeg_folder, weights):
    torchvision_or_skip()
    import torchvision.models

    preset = getattr(torchvision.models, weights).DEFAULT.transforms()
    dataset = millrace.datasets.ImageFolder(jpeg_folder, preset)
    loader = millrace.DataLoader(dataset, 6, num_workers=2, native="require")
    parts = "Resize, CenterCrop, PILToTensor, ConvertImageDtype, Normalize"
    assert f"transform: native — ImageClassification({parts})" in loader.explain()
    for native, python in zip(loader, torch.utils.data.DataLoader(dataset, 6), strict=True):
        assert native[0].dtype == python[0].dtype and torch.equal(native[1], python[1])
        assert (native[0] - python[0]).abs().max() < 3e-6  # Normalize's last bits
    assert loader.stats()["engine"] == "threads" and loader.stats()["bytes"] > 0


def test_a_changed_preset_of_weights():
    torchvision_or_skip()
    from torchvision.transforms._presets import ImageClassification

    class Other(ImageClassification):
        def forward(self, img):
            return super().forward(img) * 2

    with pytest.raises(NotLowered, match="Other .* has no native form"):
        lower_transform(Other(crop_size=8))
    preset = ImageClassification(crop_size=8)
    preset.register_forward_hook(lambda *arguments: None)
    with pytest.raises(NotLowered, match="forward hooks"):
        lower_transform(preset)
    preset = ImageClassification(crop_size=8, resize_size=9)
    preset.resize_size = [10, 12]  # what counts is what the object has now
    assert lower_transform(preset)[0][0] | {"height": 10, "width": 12} == lower_transform(preset)[0][0]


def test_the_references_presets(jpeg_folder):
    """Classes of this shape, on v1 and v2."""
    torchvision_or_skip()
    import torchvision.transforms as v1
    from torchvision.transforms import v2

    class ClassificationPresetTrain:
        def __init__(self, t, crop_size):
            last = [
                t.PILToTensor(),
                t.ToDtype(torch.float, scale=True) if t is v2 else t.ConvertImageDtype(torch.float),
            ]
            steps = [
                t.RandomResizedCrop(crop_size),
                t.RandomHorizontalFlip(0.5),
                *last,
                t.Normalize((0.5,) * 3, (0.2,) * 3),
            ]
            self.transforms = t.Compose([*steps, t.RandomErasing(0.1)])

        def __call__(self, img):
            return self.transforms(img)

    for t in (v1, v2):
        preset = ClassificationPresetTrain(t, 24)
        dataset = millrace.datasets.ImageFolder(jpeg_folder, preset)
        loader = millrace.DataLoader(
            dataset,
            6,
            shuffle=True,
            num_workers=2,
            native="require",
            generator=torch.Generator().manual_seed(4),
        )
        inner = millrace.DataLoader(
            millrace.datasets.ImageFolder(jpeg_folder, preset.transforms),
            6,
            shuffle=True,
            num_workers=2,
            native="require",
            generator=torch.Generator().manual_seed(4),
        )
        assert (
            "ClassificationPresetTrain(RandomResizedCrop, RandomHorizontalFlip, PILToTensor, "
            in loader.explain()
        )
        assert all(torch.equal(a[0], b[0]) for a, b in zip(loader, inner, strict=True))
        assert loader.stats()["engine"] == "threads" and loader.stats()["bytes"] > 0
