"""What timm's create_transform() makes, in the engine: ops, and pixels and draws of its crop and erasing."""

import random
import re

import millrace
import numpy as np
import pytest
import torch
from loader_data import make_folder, torchvision_or_skip
from millrace import _core
from millrace._common.lowering.recognising import NotLowered
from pictures import make_picture
from policy_draws import same_distribution
from transform_cases import lower_transform

torchvision = torchvision_or_skip()
pytest.importorskip("timm")
timm = pytest.importorskip("timm.data.transforms")

from timm.data import ImageDataset, create_transform  # noqa: E402
from timm.data.random_erasing import RandomErasing  # noqa: E402
from torchvision import transforms  # noqa: E402

DRAWS = 4000
RECIPES = {
    "plain": {},
    "rand": {"auto_augment": "rand-m9-inc1", "interpolation": "random"},
    "auto": {"auto_augment": "original", "vflip": 0.5},
    "jitter": {"color_jitter": (0.3, 0.3, 0.3, 0.1), "color_jitter_prob": 0.8, "grayscale_prob": 0.2},
    "blur": {"gaussian_blur_prob": 0.5, "hflip": 0.0},
    "erasing": {"re_prob": 0.5, "re_mode": "pixel"},
    "bytes": {"normalize": False},
    "prefetcher": {"use_prefetcher": True},
    "none": {"no_aug": True},
}
STEPS = {
    "plain": ["random_resized_crop", "horizontal_flip", "color_jitter", "to_tensor", "normalize"],
    "rand": ["random_resized_crop", "horizontal_flip", "augment_policy", "to_tensor", "normalize"],
    "auto": "random_resized_crop horizontal_flip vertical_flip augment_policy to_tensor normalize".split(),
    "jitter": "random_resized_crop horizontal_flip color_jitter random_grayscale to_tensor normalize".split(),
    "blur": ["random_resized_crop", "color_jitter", "gaussian_blur", "to_tensor", "normalize"],
    "erasing": "random_resized_crop horizontal_flip color_jitter to_tensor normalize random_erasing".split(),
    "bytes": ["random_resized_crop", "horizontal_flip", "color_jitter", "to_tensor"],
    "prefetcher": ["random_resized_crop", "horizontal_flip", "color_jitter", "to_tensor"],
    "none": ["resize", "center_crop", "to_tensor", "normalize"],
}


def lowered(*steps):
    return lower_transform(transforms.Compose(list(steps)))[0]


def refused(*steps):
    with pytest.raises(NotLowered) as caught:
        lowered(*steps)
    return str(caught.value)


@pytest.mark.parametrize("recipe", RECIPES)
def test_training_is_native(recipe, tmp_path):
    transform = create_transform((3, 24, 24), is_training=True, **RECIPES[recipe])
    assert [op["op"] for op in lowered(transform)] == STEPS[recipe]
    make_folder(tmp_path, 9)
    dataset = ImageDataset(str(tmp_path), transform=transform)
    random.seed(1)
    np.random.seed(1)
    expected = [picture for picture, _ in dataset]  # timm's own, which draws otherwise
    loader = millrace.DataLoader(dataset, 3, num_workers=2, native="require")
    found = torch.cat([pictures for pictures, _ in loader])
    assert (found.shape, found.dtype) == ((9, *expected[0].shape), expected[0].dtype)


@pytest.mark.parametrize("mode", ["nearest", "bilinear", "bicubic", "random"])
def test_crop(mode):
    crop = timm.RandomResizedCropAndInterpolation((20, 30), (0.2, 0.9), (0.5, 2.0), mode)
    op, _ = lowered(crop, timm.MaybePILToTensor())
    names = ["bilinear", "bicubic"] if mode == "random" else [mode]
    assert op == {
        "op": "random_resized_crop",
        "height": 20,
        "width": 30,
        "scale": (0.2, 0.9),
        "ratio": (0.5, 2.0),
        "interpolation": names[0],
        **({"interpolations": names} if mode == "random" else {}),
    }
    pipeline = _core.ImagePipeline(lowered(crop, timm.MaybePILToTensor()))
    picture, seen = make_picture(61, 47), []
    for number in range(40):
        (box,) = pipeline.draw(61, 47, 3, 0, number)
        place = [box[name] for name in ("top", "left", "height", "width")]
        F = transforms.functional
        made = {
            name: F.pil_to_tensor(
                F.resized_crop(picture, *place, [20, 30], transforms.InterpolationMode(name))
            )
            for name in names
        }
        found = pipeline.apply(np.asarray(picture), 3, 0, number)
        seen += [name for name, expected in made.items() if torch.equal(found, expected)]
    assert len(seen) == 40 and set(seen) == set(names)


def test_crop_is_drawn_as_timms():
    crop = timm.RandomResizedCropAndInterpolation(20, (0.2, 0.9), (0.5, 3.0))
    pipeline = _core.ImagePipeline(lowered(crop, timm.MaybePILToTensor()))
    names = ("top", "left", "height", "width")
    mine = [[pipeline.draw(200, 100, 3, 0, i)[0][name] for name in names] for i in range(DRAWS)]
    random.seed(2)
    picture = make_picture(200, 100)
    theirs = [crop.get_params(picture, crop.scale, crop.ratio) for _ in range(DRAWS)]
    for a, b in zip(np.array(mine).T, np.array(theirs).T, strict=True):
        same_distribution(a, b)


@pytest.mark.parametrize(
    "options, steps",
    [
        ({"train_crop_mode": "rkrc"}, ["drawn_resize", "frame"]),
        ({"train_crop_mode": "rkrr"}, ["drawn_resize", "frame"]),
        ({"interpolation": "lanczos"}, ["random_resized_crop"]),
    ],
)
def test_crop_modes(options, steps):
    train = create_transform(24, is_training=True, color_jitter=None, **options)
    assert [op["op"] for op in lowered(train)][: len(steps)] == steps


@pytest.mark.parametrize(
    "options", [{"crop_mode": "border"}, {"crop_mode": "squash"}, {"crop_border_pixels": 3}]
)
def test_evaluation_is_timms(options):
    transform = create_transform((3, 24, 16), interpolation="lanczos", **options)
    pipeline = _core.ImagePipeline(lowered(transform))
    for seed in range(5):
        picture = make_picture(40 + 7 * seed, 70 - 6 * seed, seed=seed)
        assert torch.equal(pipeline.apply(np.asarray(picture), 0, 0, 0), transform(picture))


def test_several_rectangles():
    erasing = RandomErasing(1.0, 0.2, 0.2, 1.0, min_count=2, max_count=4, device="cpu")
    chain = lowered(transforms.ToTensor(), erasing)
    assert chain[-1]["count"] == (2, 4)
    pipeline, pixels, shares = _core.ImagePipeline(chain), np.full((60, 60, 3), 255, np.uint8), []
    random.seed(5)
    for number in range(600):
        (op,) = pipeline.draw(60, 60, 3, 0, number)
        boxes = [[op[name] for name in ("top", "left", "height", "width")], *op["more"]]
        assert 2 <= len(boxes) <= 4
        side = round((720 / len(boxes)) ** 0.5)
        expected = torch.ones(3, 60, 60)
        for top, left, height, width in boxes:
            assert height == width == side
            expected[:, top : top + height, left : left + width] = 0
        made = pipeline.apply(pixels, 3, 0, number)
        assert torch.equal(made, expected)
        shares.append(
            [float((made == 0).float().mean()), float((erasing(torch.ones(3, 60, 60)) == 0).float().mean())]
        )
    same_distribution(*np.array(shares).T)


MODES = {"const": {"value": [0.0]}, "pixel": {"value": []}, "rand": {"value": [], "per_channel": True}}


@pytest.mark.parametrize("mode", MODES)
def test_erasing(mode):
    erasing = RandomErasing(0.7, 0.1, 0.4, 0.5, mode=mode, device="cpu")
    *_, op = lowered(timm.MaybeToTensor(), erasing)
    expected = {"op": "random_erasing", "p": 0.7, "scale": (0.1, 0.4), **MODES[mode]}
    assert op == expected | {"ratio": pytest.approx((0.5, 2.0))}


def erased(picture):
    """(rows, columns, values) of what is not 9 in a tensor (3, H, W)."""
    rows, columns = ((picture != 9).any(0).any(axis).nonzero().flatten() for axis in (1, 0))
    return rows, columns, picture[:, rows][:, :, columns]


@pytest.mark.parametrize("mode", MODES)
def test_erasing_is_drawn_as_timms(mode):
    erasing = RandomErasing(0.7, 0.1, 0.4, 0.5, mode=mode, device="cpu")
    normalize = transforms.Normalize([-8], [1])  # black becomes 8, and whatever is drawn something else
    pipeline = _core.ImagePipeline(lowered(transforms.ToTensor(), normalize, erasing))
    pixels = np.full((40, 60, 3), 255, np.uint8)
    random.seed(3)
    torch.manual_seed(3)
    places, values = ([], []), ([], [])
    for number in range(800):
        for which, made in enumerate(
            (pipeline.apply(pixels, 3, 0, number), erasing(torch.full((3, 40, 60), 9.0)))
        ):
            rows, columns, noise = erased(made)
            place = [0, 0, 0, 0] if not len(rows) else [rows[0], columns[0], len(rows), len(columns)]
            places[which].append([int(v) for v in place])
            if not len(rows):
                continue
            flat = noise.flatten(1)
            if mode == "const":
                assert not noise.any()
            elif mode == "rand":
                assert (flat == flat[:, :1]).all() and len(set(flat[:, 0].tolist())) == 3
            else:
                assert len(flat.unique()) > 0.9 * flat.numel()
            values[which].extend(flat[:, 0].tolist())
    for a, b in zip(np.array(places[0]).T, np.array(places[1]).T, strict=True):
        same_distribution(a, b)
    same_distribution(np.array(values[0]), np.array(values[1]))


@pytest.mark.parametrize(
    "steps, reason",
    [
        ([timm.MaybeToTensor(), RandomErasing()], "draws on device 'cuda'; pass device='cpu'"),
        (
            [timm.MaybePILToTensor(), RandomErasing(device="cpu")],
            "is native for float tensors; put MaybeToTensor",
        ),
        ([timm.ToNumpy(), timm.MaybeToTensor()], "MaybeToTensor follows ToNumpy.* put ToNumpy last"),
        ([timm.MaybeToTensor(), timm.ToNumpy()], "ToNumpy follows another conversion to a tensor"),
        ([timm.ToTensor()], "ToTensor .of timm.data.transforms. has no native form"),
        (
            [timm.MaybeToTensor(), timm.RandomResizedCropAndInterpolation(9)],
            "RandomResizedCropAndInterpolation of a tensor computes otherwise",
        ),
        ([timm.MaybeToTensor(), timm.ResizeKeepRatio(9)], "ResizeKeepRatio of a tensor computes otherwise"),
        (
            [create_transform(24, is_training=True, separate=True)],
            r"a tuple of transforms, as timm's create_transform\(separate=True\) makes it",
        ),
    ],
)
def test_refusals_say_why(steps, reason):
    assert re.search(reason, refused(*steps))


SIZES = [(40, 30), (30, 40), (17, 17), (5, 50), (3, 2)]  # width, height


@pytest.mark.parametrize("wanted", [(24, 24), (24, 17), (31, 30)])
@pytest.mark.parametrize("size", SIZES)
def test_center_crop_or_pad(size, wanted):
    crop = timm.CenterCropOrPad(wanted)
    pipeline = _core.ImagePipeline(lowered(crop, timm.MaybePILToTensor()))
    picture = make_picture(*size)
    expected = transforms.functional.pil_to_tensor(crop(picture))
    assert torch.equal(pipeline.apply(np.asarray(picture), 1, 0, 0), expected)


@pytest.mark.parametrize("mode", ["constant", "reflect", "edge", "symmetric"])
@pytest.mark.parametrize("size", SIZES)
def test_random_crop_or_pad(size, mode):
    """The same pictures, each as often."""
    crop = timm.RandomCropOrPad((20, 18), fill=(9, 8, 7), padding_mode=mode)
    pipeline = _core.ImagePipeline(lowered(crop, timm.MaybePILToTensor()))
    picture = make_picture(*size)
    random.seed(4)
    numbers = {}  # of the pictures that timm makes
    places = [abs(have - want) + 1 for have, want in zip(size, (18, 20))]
    theirs, mine = [], []
    for i in range(12 * places[0] * places[1]):
        made = transforms.functional.pil_to_tensor(crop(picture)).numpy().tobytes()
        theirs.append(numbers.setdefault(made, len(numbers)))
        found = pipeline.apply(np.asarray(picture), 3, 0, i).numpy().tobytes()
        mine.append(numbers.setdefault(found, len(numbers)))
    assert len(set(theirs)) == len(set(mine)) == len(numbers) > 1
    if mode in ("constant", "edge"):  # reflections of few pixels repeat themselves
        assert len(numbers) == places[0] * places[1]
    same_distribution(np.array(mine), np.array(theirs))


def test_arrays_of_bytes(tmp_path):
    """ToNumpy makes what MaybePILToTensor makes, as arrays where samples are seen."""
    make_folder(tmp_path, 9)
    folders = []
    for conversion in (timm.ToNumpy(), timm.MaybePILToTensor()):
        steps = transforms.Compose([transforms.Resize((16, 12)), conversion])
        folders.append(torchvision.datasets.ImageFolder(str(tmp_path), steps))
    arrays, tensors = folders
    (pictures, labels), *rest = millrace.DataLoader(arrays, 4, native="require")
    expected = next(iter(torch.utils.data.DataLoader(arrays, 4)))
    assert type(pictures) is torch.Tensor and torch.equal(pictures, expected[0]) and len(rest) == 2
    assert torch.equal(pictures, next(iter(millrace.DataLoader(tensors, 4)))[0])
    samples = next(iter(millrace.DataLoader(arrays, 4, collate_fn=list, native="require")))
    for (picture, label), (array, number) in zip(samples, [arrays[i] for i in range(4)], strict=True):
        assert type(picture) is np.ndarray and picture.dtype == np.uint8 and label == number
        assert np.array_equal(picture, array)
    ours = millrace.datasets.ImageFolder(tmp_path, arrays.transform)
    for picture, _ in (ours[3], ours.at(3, 0, 0)):
        assert type(picture) is np.ndarray and np.array_equal(picture, arrays[3][0])


def test_arrays_of_streams_stay_in_python():
    stream = millrace.datasets.WebDataset("shards.tar").decode("pil").to_tuple("jpg", "cls")
    steps = transforms.Compose([transforms.Resize((16, 12)), timm.ToNumpy()])
    told = millrace.DataLoader(stream.map_tuple(steps), 4).explain()
    assert "transform: python — streams make tensors, and ToNumpy arrays; use MaybePILToTensor" in told


def test_conversions_leave_tensors_as_they_are():
    steps = [timm.MaybeToTensor(), timm.MaybePILToTensor(), RandomErasing(device="cpu"), timm.MaybeToTensor()]
    assert [op["op"] for op in lowered(*steps)] == ["to_tensor", "random_erasing"]


def augmentation(name):
    make = pytest.importorskip("timm.data.auto_augment")
    return {
        "RandAugment": lambda: make.rand_augment_transform("rand-m9", {}),
        "AutoAugment": lambda: make.auto_augment_transform("original", {}),
        "AugMixAugment": lambda: make.augment_and_mix_transform("augmix-m5", {}),
        "AugmentOp": lambda: make.AugmentOp("Invert"),
    }[name]()


EACH = {
    "MaybeToTensor": timm.MaybeToTensor,
    "MaybePILToTensor": timm.MaybePILToTensor,
    "ToNumpy": timm.ToNumpy,
    "RandomResizedCropAndInterpolation": lambda: timm.RandomResizedCropAndInterpolation(9),
    "ResizeKeepRatio": lambda: timm.ResizeKeepRatio(9),
    "TrimBorder": lambda: timm.TrimBorder(9),
    "CenterCropOrPad": lambda: timm.CenterCropOrPad(9),
    "RandomCropOrPad": lambda: timm.RandomCropOrPad(9),
    "RandomErasing": lambda: RandomErasing(device="cpu"),
}


def test_each_that_the_documentation_lists():
    from millrace._common.lowering.transforms import _timm_rules

    for name in _timm_rules():
        transform = EACH[name]() if name in EACH else augmentation(name)
        assert type(transform).__name__ == name
        before = [timm.MaybeToTensor()] if name == "RandomErasing" else []
        behind = [] if before or name in ("MaybeToTensor", "ToNumpy") else [timm.MaybePILToTensor()]
        assert _core.ImagePipeline(lowered(*before, transform, *behind))
