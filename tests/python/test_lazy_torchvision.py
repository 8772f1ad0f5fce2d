"""torchvision over pictures that wait: tensors, their types and the draws are those it makes of Pillow's."""

import copy
import functools
import pickle
from collections import deque

import numpy as np
import pytest
import torch
from lazy_cases import lazy_jpegs, lazy_pictures, opened, same_lazily, seeded, that_raise
from loader_data import torchvision_or_skip
from millrace._pictures.pillow import record_of
from pictures import jpeg_bytes, make_picture
from PIL import Image

torchvision = torchvision_or_skip()
from torchvision.transforms import functional as F1  # noqa: E402
from torchvision.transforms import v2  # noqa: E402
from torchvision.transforms.v2 import functional as F2  # noqa: E402

T = torchvision.transforms
MEAN, STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
FILES = lazy_jpegs()
FILES["large"] = jpeg_bytes(make_picture(317, 231, 8), quality=90)
SOME = ("420", "grey", "turned 6", "large")


class Halved:
    """A user's own step."""

    def __call__(self, picture):
        return picture.resize((picture.width // 2 + 1, picture.height // 2 + 1))


class Scaled:
    def __call__(self, tensor):
        self.scale = torch.rand(3, 1, 1)
        return tensor * self.scale


FLOATS = v2.ToDtype(torch.float32, scale=True)
V1 = {
    "training": [T.RandomResizedCrop(24), T.RandomHorizontalFlip(), T.ToTensor(), T.Normalize(MEAN, STD)],
    "evaluation": [T.Resize(28), T.CenterCrop(24), T.ToTensor(), T.Normalize(MEAN, STD)],
    "conversion alone": [T.ToTensor()],
    "bytes": [T.PILToTensor()],
    "bytes and floats": [T.PILToTensor(), T.ConvertImageDtype(torch.float32), T.Normalize(MEAN, STD)],
    "bytes and halves": [T.PILToTensor(), T.ConvertImageDtype(torch.float16)],
    "bytes and doubles": [T.PILToTensor(), T.ConvertImageDtype(torch.float64), T.Normalize(MEAN, STD)],
    "one mean": [T.ToTensor(), T.Normalize([0.5], [0.5])],
    "a mean without channels": [T.ToTensor(), T.Normalize(0.5, 0.5)],
    "a tensor of means": [T.ToTensor(), T.Normalize(torch.tensor(MEAN), torch.tensor(STD))],
    "two means": [T.ToTensor(), T.Normalize([0.5] * 2, [0.5] * 2)],
    "no deviation": [T.ToTensor(), T.Normalize(MEAN, (0.0, 0.2, 0.2))],
    "three means": [T.ToTensor(), T.Normalize([0.5] * 3, [0.5] * 3, inplace=True)],
    "twice": [T.ToTensor(), T.Normalize(MEAN, STD), T.Normalize([0.1] * 3, [2.0] * 3)],
    "flips": [T.RandomHorizontalFlip(), T.RandomVerticalFlip(), T.PILToTensor()],
    "rotation": [T.RandomRotation(25), T.ToTensor()],
    "rotation by quarters": [T.RandomRotation((90, 90), expand=True), T.ToTensor()],
    "jitter": [T.ColorJitter(0.4, 0.4, 0.4, 0.1), T.RandomGrayscale(0.5), T.ToTensor()],
    "affine": [T.RandomAffine(15, (0.1, 0.1), (0.8, 1.1), 5), T.ToTensor()],
    "perspective": [T.RandomPerspective(p=1), T.ToTensor()],
    "padded crop": [T.RandomCrop(30, padding=4, pad_if_needed=True), T.ToTensor()],
    "reflected": [T.Pad((3, 5), padding_mode="reflect"), T.ToTensor()],
    "five": [T.FiveCrop(20), T.Lambda(lambda crops: torch.stack([F1.to_tensor(crop) for crop in crops]))],
    "ten": [T.TenCrop(20), T.Lambda(lambda crops: torch.stack([F1.pil_to_tensor(crop) for crop in crops]))],
    "erased": [T.Resize((30, 30)), T.ToTensor(), T.RandomErasing(p=1), T.Normalize(MEAN, STD)],
    "grayscale": [T.Grayscale(), T.ToTensor()],
    "grayscale of three": [T.Grayscale(3), T.ToTensor(), T.Normalize(MEAN, STD)],
    "blur": [T.GaussianBlur(5), T.ToTensor()],
    "sharpness": [T.RandomAdjustSharpness(2, p=1), T.RandomAutocontrast(p=1), T.ToTensor()],
    "bytes of colours": [
        T.RandomPosterize(3, p=1),
        T.RandomSolarize(99, p=1),
        T.RandomEqualize(p=1),
        T.RandomInvert(),
        T.ToTensor(),
    ],
    "RandAugment": [T.RandAugment(), T.ToTensor()],
    "AutoAugment": [T.AutoAugment(), T.ToTensor()],
    "TrivialAugmentWide": [T.TrivialAugmentWide(), T.PILToTensor()],
    "AugMix": [T.AugMix(), T.ToTensor()],
    "of lists": [
        T.RandomApply([T.ColorJitter(0.3)], p=0.8),
        T.RandomChoice([T.CenterCrop(20), T.Resize((20, 20))]),
        T.RandomOrder([T.RandomHorizontalFlip(), T.RandomVerticalFlip()]),
        T.ToTensor(),
    ],
    "nested": [
        T.Compose([T.Resize(40), T.Compose([T.RandomCrop(22), T.ToTensor()])]),
        T.Normalize(MEAN, STD),
    ],
    "user's step": [
        Halved(),
        lambda picture: picture.convert("RGB"),
        T.ToTensor(),
        lambda tensor: tensor * 2,
    ],
    "tensors and back": [T.ToTensor(), T.ToPILImage(), T.Resize(20), T.ToTensor()],
    "tensors resized": [T.ToTensor(), T.Resize(20, antialias=True), T.Normalize(MEAN, STD)],
    "bytes resized": [T.PILToTensor(), T.Resize(20, antialias=True), T.ConvertImageDtype(torch.float32)],
    "bytes jittered": [T.PILToTensor(), T.ColorJitter(0.4, 0.4, 0.4, 0.1), T.RandomAffine(10)],
    "a picture": [T.Resize(20), T.RandomHorizontalFlip()],
    "nothing": [],
}
V1 |= {
    f"resize by {mode.name}": [T.Resize((23, 31), mode), T.ToTensor()]
    for mode in (T.InterpolationMode.NEAREST, T.InterpolationMode.BICUBIC, T.InterpolationMode.LANCZOS)
}
V2 = {
    "training": [
        v2.RandomResizedCrop(24), v2.RandomHorizontalFlip(), v2.ToImage(), FLOATS, v2.Normalize(MEAN, STD),
    ],
    "evaluation": [v2.Resize(28), v2.CenterCrop(24), v2.PILToTensor(), FLOATS, v2.Normalize(MEAN, STD)],
    "to an image": [v2.ToImage()],
    "distorted": [
        v2.RandomPhotometricDistort(p=0.8), v2.RandomCrop(40, pad_if_needed=True), v2.ToImage(), FLOATS,
    ],
    "in a frame": [
        v2.Pad((3, 4, 5, 6), fill=(9, 8, 7)), v2.RandomZoomOut([1.0, 2.0, 3.0], p=1), v2.Resize((30, 33)),
        v2.ToImage(),
    ],
    "in a frame of its edge": [v2.Pad(4, padding_mode="edge"), v2.PILToTensor()],
    "to a pure tensor": [v2.ToImage(), FLOATS, v2.Normalize(MEAN, STD), v2.ToPureTensor()],
    "doubles": [v2.ToImage(), v2.ToDtype(torch.float64, scale=True)],
    "unscaled": [v2.ToImage(), v2.ToDtype(torch.float32)],
    "integers": [v2.ToImage(), v2.ToDtype(torch.int32)],
    "halves behind Normalize": [v2.ToImage(), FLOATS, v2.Normalize(MEAN, STD), v2.ToDtype(torch.float16)],
    "singles of doubles": [v2.ToImage(), v2.ToDtype(torch.float64, scale=True), FLOATS],
    "brains of halves": [v2.ToImage(), v2.ToDtype(torch.float16, True), v2.ToDtype(torch.bfloat16, True)],
    "halves of singles": [v2.ToImage(), FLOATS, v2.ToDtype(torch.float16, True)],
    "per type": [v2.ToImage(), v2.ToDtype({torchvision.tv_tensors.Image: torch.float32, "others": None})],
    "image first": [
        v2.ToImage(), v2.RandomResizedCrop(24, antialias=True), v2.RandomHorizontalFlip(), FLOATS,
        v2.Normalize(MEAN, STD),
    ],
    "image first, resized": [v2.ToImage(), v2.Resize((21, 17), antialias=True), FLOATS],
    "image first, bicubic": [v2.ToImage(), v2.Resize(19, v2.InterpolationMode.BICUBIC), FLOATS],
    "image first, jitter": [
        v2.ToImage(), v2.ColorJitter(0.4, 0.4, 0.4, 0.1), v2.RandomRotation(20), v2.RandomAffine(9), FLOATS,
    ],
    "floats first": [v2.ToImage(), FLOATS, v2.Resize(20, antialias=True), v2.GaussianBlur(3)],
    "jitter": [v2.ColorJitter(0.4, 0.4, 0.4, 0.1), v2.RandomPhotometricDistort(), v2.ToImage()],
    "rotation": [v2.RandomRotation(25), v2.RandomAffine(9, (0.1, 0.1)), v2.ToImage(), FLOATS],
    "zoom": [v2.RandomZoomOut(p=1), v2.RandomShortestSize([20, 24]), v2.ToImage()],
    "scale jitter": [v2.ScaleJitter((30, 30)), v2.RandomResize(18, 25), v2.ToImage()],
    "crop": [v2.RandomCrop(30, pad_if_needed=True), v2.Pad(2), v2.ToImage()],
    "five": [
        v2.FiveCrop(20), lambda crops: torch.stack([F2.pil_to_tensor(crop) for crop in crops]),
    ],
    "erased": [v2.Resize((30, 30)), v2.ToImage(), FLOATS, v2.RandomErasing(p=1)],
    "grayscale": [v2.Grayscale(), v2.ToImage(), FLOATS],
    "to RGB": [v2.RGB(), v2.ToImage(), FLOATS, v2.Normalize(MEAN, STD)],
    "RandAugment": [v2.RandAugment(), v2.ToImage()],
    "AutoAugment": [v2.AutoAugment(), v2.PILToTensor()],
    "AugMix": [v2.AugMix(), v2.ToImage()],
    "TrivialAugmentWide": [v2.TrivialAugmentWide(), v2.ToImage()],
    "jpeg": [v2.ToImage(), v2.Identity(), v2.RandomInvert(1.0), v2.RandomEqualize(1.0)],
    "of lists": [
        v2.RandomApply([v2.ColorJitter(0.3)], p=0.8),
        v2.RandomChoice([v2.CenterCrop(20), v2.Resize((20, 20))]),
        v2.ToImage(),
        FLOATS,
    ],
    "nested": [v2.Compose([v2.Resize(40), v2.Compose([v2.RandomCrop(22), v2.ToImage()])]), FLOATS],
    "old names": [v2.Resize(20), v2.ToTensor(), v2.ConvertImageDtype(torch.float16)],
    "v1 in v2": [T.Resize(20), T.ToTensor(), v2.Normalize(MEAN, STD)],
    "user's step": [Halved(), v2.ToImage(), lambda tensor: tensor[:, ::2], FLOATS],
    "a picture": [v2.Resize(20), v2.RandomHorizontalFlip()],
}  # fmt: skip
CALLS = {
    "to_tensor": F1.to_tensor,
    "pil_to_tensor": F1.pil_to_tensor,
    "v2 pil_to_tensor": F2.pil_to_tensor,
    "to_image": F2.to_image,
    "get_image_size": lambda im: (
        F1.get_image_size(im),
        F1.get_image_num_channels(im),
        F1.get_dimensions(im),
    ),
    "v2 sizes": lambda im: (F2.get_size(im), F2.get_num_channels(im), F2.get_dimensions(im)),
    "crop": lambda im: F1.to_tensor(F1.crop(im, 3, 5, 20, 30)),
    "crop outside": lambda im: F1.to_tensor(F1.crop(im, -3, 5, 200, 30)),
    "resized_crop": lambda im: F1.pil_to_tensor(F1.resized_crop(im, 3, 5, 20, 30, [9, 11])),
    "v2 resized_crop": lambda im: F2.pil_to_tensor(F2.resized_crop(im, 3, 5, 20, 30, [9, 11])),
    "center_crop": lambda im: F1.to_tensor(F1.center_crop(im, [200, 20])),
    "resize": lambda im: F1.to_tensor(F1.resize(im, 20, max_size=30)),
    "hflip": lambda im: F1.to_tensor(F1.vflip(F1.hflip(im))),
    "rotate": lambda im: F1.to_tensor(F1.rotate(im, 33.3, expand=True)),
    "affine": lambda im: F1.to_tensor(F1.affine(im, 9, [3, 2], 1.2, [4, 1])),
    "perspective": lambda im: F1.to_tensor(
        F1.perspective(im, [[0, 0], [40, 0], [40, 40], [0, 40]], [[3, 1], [39, 0], [40, 37], [2, 40]])
    ),
    "colours": lambda im: F1.to_tensor(
        F1.adjust_hue(F1.adjust_contrast(F1.adjust_brightness(F1.adjust_saturation(im, 1.3), 0.8), 1.2), 0.1)
    ),
    "gamma": lambda im: F1.to_tensor(F1.adjust_gamma(im, 1.4)),
    "sharpness": lambda im: F1.to_tensor(F1.adjust_sharpness(im, 2)),
    "grayscale": lambda im: F1.to_tensor(F1.rgb_to_grayscale(im.convert("RGB"), 3)),
    "erase": lambda im: F1.erase(F1.to_tensor(im), 3, 3, 5, 5, 0.0),
    "pad": lambda im: F1.to_tensor(F1.pad(im, [1, 2, 3, 4], 7)),
    "to_grayscale": lambda im: F1.to_tensor(F1.to_grayscale(im)),
    "written into": lambda im: F1.to_tensor(im).mul_(2).sub_(1),
    "tensor of an array": lambda im: torch.from_numpy(np.array(im)),
    "as_tensor": lambda im: torch.as_tensor(np.array(im.convert("L"), dtype=np.float32)),
    "twice": lambda im: (F1.to_tensor(im), F1.to_tensor(im), F1.pil_to_tensor(im), F1.to_tensor(im)),
    "tv_tensor": lambda im: torchvision.tv_tensors.Image(im),
}


def through_torchvision(transform, name):
    """As most scripts have it, with another seed, and without convert()."""
    as_usual = lambda: transform(opened(FILES[name]).convert("RGB"))
    same_lazily(as_usual, run=seeded)
    same_lazily(as_usual, run=functools.partial(seeded, seed=11))
    same_lazily(lambda: transform(opened(FILES[name])), opened=None, run=seeded)


@pytest.mark.parametrize("chain", V1)
@pytest.mark.parametrize("name", SOME)
def test_v1_chains(chain, name):
    through_torchvision(T.Compose(V1[chain]), name)


@pytest.mark.parametrize("chain", V2)
@pytest.mark.parametrize("name", SOME)
def test_v2_chains(chain, name):
    through_torchvision(v2.Compose(V2[chain]), name)


@pytest.mark.parametrize("chain", V2)
def test_v2_chains_over_samples(chain):
    """A picture among other inputs, as v2 takes them."""
    transform = v2.Compose([step for step in V2[chain] if not isinstance(step, Halved)])

    def samples():
        picture = opened(FILES["large"])
        mask = torchvision.tv_tensors.Mask(torch.ones(picture.height, picture.width, dtype=torch.uint8))
        return transform({"image": picture, "mask": mask, "label": 3}), transform(picture, 5)

    same_lazily(samples, opened=None, run=seeded)


def test_chains_and_calls_fail_where_they_are_meant_to():
    picture = lambda: opened(FILES["420"])
    first = {name: lambda chain=chain: T.Compose(chain)(picture()) for name, chain in V1.items()}
    assert that_raise(first) == {"two means", "no deviation"}
    second = {name: lambda chain=chain: v2.Compose(chain)(picture()) for name, chain in V2.items()}
    assert that_raise(second) == set()
    assert that_raise({name: lambda call=call: call(picture()) for name, call in CALLS.items()}) == set()


@pytest.mark.parametrize("call", CALLS)
def test_functional_calls(call):
    for name in SOME:
        same_lazily(lambda: CALLS[call](opened(FILES[name])), opened=None, run=seeded)
        same_lazily(
            lambda: CALLS[call](opened(FILES[name]).resize((43, 31)).transpose(Image.Transpose.ROTATE_90)),
            run=seeded,
        )


@pytest.mark.parametrize(
    "weights",
    [
        "ResNet50_Weights.IMAGENET1K_V2",
        "ViT_B_16_Weights.IMAGENET1K_SWAG_E2E_V1",
        "EfficientNet_B0_Weights.DEFAULT",
    ],
)
def test_presets_of_weights(weights):
    kind, member = weights.split(".")
    preset = getattr(getattr(torchvision.models, kind), member).transforms()
    for name in SOME:
        same_lazily(lambda: preset(opened(FILES[name]).convert("RGB")), run=seeded)


def test_presets_of_detection_and_segmentation():
    for weights in (
        torchvision.models.detection.FasterRCNN_ResNet50_FPN_Weights.DEFAULT,
        torchvision.models.segmentation.FCN_ResNet50_Weights.DEFAULT,
    ):
        preset = weights.transforms()
        same_lazily(lambda: preset(opened(FILES["large"])), run=seeded)


@pytest.mark.parametrize("dtype", [torch.float64, torch.float16])
@pytest.mark.parametrize("family", [T, v2], ids=["v1", "v2"])
def test_another_default_dtype(dtype, family):
    """Before a Compose is first used, and after."""
    used = family.Compose([family.ToTensor(), family.Normalize(MEAN, STD)])
    same_lazily(lambda: used(opened(FILES["420"])))
    before = torch.get_default_dtype()
    torch.set_default_dtype(dtype)
    try:
        fresh = family.Compose([family.ToTensor(), family.Normalize(MEAN, STD)])
        for transform in (used, fresh, family.ToTensor(), F1.to_tensor):
            same_lazily(lambda: transform(opened(FILES["420"])))
    finally:
        torch.set_default_dtype(before)
    same_lazily(lambda: fresh(opened(FILES["420"])))


@pytest.mark.parametrize("family", [T, v2], ids=["v1", "v2"])
def test_steps_changed_after_the_first_call(family):
    """Lists and attributes of a Compose are the user's to change."""

    def changed():
        transform = family.Compose([family.Resize(20), family.ToTensor(), family.Normalize(MEAN, STD)])
        results = [transform(opened(FILES["420"]))]
        transform.transforms[-1] = family.Normalize([0.1] * 3, [0.2] * 3)
        results.append(transform(opened(FILES["420"])))
        transform.transforms.insert(0, family.CenterCrop(24))
        results.append(transform(opened(FILES["420"])))
        transform.transforms[-1].mean = [0.9] * 3
        results.append(transform(opened(FILES["420"])))
        transform.transforms[-1].std[0] = 9.0
        results.append(transform(opened(FILES["420"])))
        transform.transforms = [family.PILToTensor()]
        results.append(transform(opened(FILES["420"])))
        return results

    same_lazily(changed, opened=6)


def test_hooks_of_steps_are_called():
    def hooked():
        seen = []
        steps = [v2.Resize(20), v2.ToImage(), v2.ToDtype(torch.float32, scale=True), v2.Normalize(MEAN, STD)]
        transform = v2.Compose(steps)
        transform(opened(FILES["420"]))
        for step in steps:
            step.register_forward_hook(lambda module, inputs, result: seen.append(type(module).__name__))
        transform.register_forward_hook(lambda module, inputs, result: seen.append("all"))
        return transform(opened(FILES["420"])), seen

    same_lazily(hooked, opened=2)


def test_subclasses_of_steps_and_of_compose():
    class Noted(T.ToTensor):
        def __call__(self, picture):
            return super().__call__(picture) + 1

    class Brighter(v2.Normalize):
        def transform(self, inpt, params):
            return super().transform(inpt, params) * 3

    class Twice(T.Compose):
        def __call__(self, picture):
            return super().__call__(picture), super().__call__(picture)

    class Two(v2.Compose):
        def forward(self, *inputs):
            return super().forward(*inputs), super().forward(*inputs)

    class WithoutHash(T.Compose):
        __hash__ = None

    steps = [T.Resize(20), T.ToTensor(), T.Normalize(MEAN, STD)]
    for transform in (
        WithoutHash(steps),
        T.Compose(tuple(steps)),
        T.Compose(torch.nn.ModuleList([T.Resize(20), v2.ToImage(), FLOATS])),
        T.Compose([T.ToTensor(), T.Normalize(None, "x")]),
        T.Compose(deque([T.ToTensor(), torch.neg])),
        T.Compose([Noted(), T.Normalize(MEAN, STD)]),
        v2.Compose([v2.ToImage(), FLOATS, Brighter(MEAN, STD)]),
        Twice(steps),
        Two([v2.ToImage(), FLOATS]),
        torch.nn.Sequential(v2.Resize(20), v2.ToImage(), FLOATS),
    ):
        same_lazily(lambda: transform(opened(FILES["420"])))


def test_transforms_that_were_copied_and_pickled():
    for chain in ("training", "evaluation"):
        for transform in (T.Compose(V1[chain]), v2.Compose(V2[chain])):

            def copied():
                transform(opened(FILES["420"]))
                again = [copy.deepcopy(transform), pickle.loads(pickle.dumps(transform))]
                return [one(opened(FILES["420"])) for one in again], repr(again[0])

            same_lazily(copied, opened=3, run=seeded)


@pytest.mark.parametrize("chain", ["training", "evaluation"])
def test_what_is_decoded(chain):
    """A fused tail makes the tensor from the file: no picture gets pixels on the way."""
    for transform in (T.Compose(V1[chain]), v2.Compose(V2[chain])):
        with lazy_pictures() as counts:
            image = opened(FILES["large"]).convert("RGB")
            transform(image)
            assert record_of(image) is not None
        assert counts.calls == {} and counts.decoded_in_part + counts.decoded_whole == 1
