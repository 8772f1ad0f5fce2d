"""Borders, random sizes, perspective and noise as the engine's chain has them."""

import millrace
import pytest
import torch
from loader_data import make_folder, torchvision_or_skip
from millrace.datasets import ImageFolder
from test_lowering_transforms import FAMILIES, TO_BYTES, compose, family, refused


@pytest.fixture(params=FAMILIES)
def t(request):
    return family(request.param)


@pytest.fixture(params=["millrace", "v2"])
def v2(request):
    return family(request.param)


def test_frames_and_perspective(t):
    transforms = [
        t.Pad((1, 2, 3, 4), (5, 6, 7)),
        t.Pad(3, padding_mode="edge"),
        t.RandomPerspective(0.25, 0.75, fill=9),
        t.PILToTensor(),
    ]
    pad = {"op": "frame", "kind": "pad", "padding": (1, 2, 3, 4), "fill": (5, 6, 7)}
    edge = {"op": "frame", "kind": "pad", "padding": (3, 3, 3, 3), "fill": (0, 0, 0)}
    tilt = {"op": "random_perspective", "distortion_scale": 0.25, "p": 0.75, "interpolation": "bilinear"}
    assert compose(t, *transforms) == [
        pad | {"padding_mode": "constant"},
        edge | {"padding_mode": "edge"},
        tilt | {"fill": (9, 9, 9)},
        TO_BYTES,
    ]


def test_sizes_of_chance(v2):
    shortest, jitter, between, out, _ = compose(
        v2,
        v2.RandomShortestSize([20, 30], 40),
        v2.ScaleJitter((30, 20), (0.5, 1.0), "lanczos"),
        v2.RandomResize(10, 20, "box"),
        v2.RandomZoomOut(9, (1.0, 2.0), 0.25),
        v2.PILToTensor(),
    )
    assert (shortest["kind"], shortest["sizes"], shortest["max_size"]) == ("shortest", [20, 30], 40)
    assert (jitter["height"], jitter["width"], jitter["scale"]) == (30, 20, (0.5, 1.0))
    assert (jitter["interpolations"], between["interpolations"]) == (["lanczos"], ["box"])
    assert (between["kind"], between["sizes"]) == ("between", [10, 20])
    assert (out["kind"], out["side_range"], out["p"], out["fill"]) == (
        "zoom_out",
        (1.0, 2.0),
        0.25,
        (9, 9, 9),
    )


def test_noise_stands_before_or_behind_normalize(v2):
    noise, normalize = v2.GaussianNoise(0.1, 0.2, clip=False), v2.Normalize([0.5], [0.5])
    base = [v2.PILToTensor(), v2.ToDtype(torch.float32, scale=True)]
    op = {"op": "gaussian_noise", "mean": 0.1, "sigma": 0.2, "clip": False}
    assert [made["op"] for made in compose(v2, *base, noise, normalize)][1:] == [
        "gaussian_noise",
        "normalize",
    ]
    assert compose(v2, *base, normalize, v2.RandomHorizontalFlip(), noise)[-1] == op
    assert "twice" in refused(v2, *base, noise, noise)
    assert "float32" in refused(v2, v2.PILToTensor(), noise)
    assert "has no noise" in refused(v2, *base, noise, v2.CenterCrop(9))
    half = v2.ToDtype(torch.float16, scale=True)
    assert "GaussianNoise, whose results it rounds" in refused(v2, *base, noise, half)


def test_a_loader_runs_them_and_draw_lists_them(v2, tmp_path):
    make_folder(tmp_path, 9)
    steps = [
        v2.RandomChoice([v2.RandomHorizontalFlip(1.0), v2.RandomApply([v2.GaussianBlur(3)], 1.0)]),
        v2.RandomPerspective(p=1.0),
        v2.RandomZoomOut(fill=9, p=1.0),
        v2.RandomShortestSize([20, 30]),
        v2.RandomPhotometricDistort(),
        v2.Pad(2),
        v2.CenterCrop((33, 24)),
        v2.PILToTensor(),
        v2.ToDtype(torch.float32, scale=True),
        v2.GaussianNoise(),
        v2.Normalize([0.5], [0.5]),
    ]
    dataset = ImageFolder(tmp_path, v2.Compose(steps))
    epochs = []
    for workers in (0, 2):
        torch.manual_seed(3)
        loader = millrace.DataLoader(dataset, 4, num_workers=workers, native="require")
        epochs.append(torch.cat([pictures for pictures, _ in loader]))
    assert torch.equal(*epochs) and epochs[0].shape == (9, 3, 33, 24)
    for row in range(9):
        assert torch.equal(dataset.at(row, loader.seed, loader.epoch)[0], epochs[0][row])
        choice, *inner, tilt, out, size, colours, noise = dataset.draw(row, loader.seed, loader.epoch)
        assert choice["op"] == "random_choice" and len(inner) == 1
        assert inner[0]["op"] == ("horizontal_flip", "gaussian_blur")[choice["chosen"]]
        assert (tilt["op"], len(tilt["coefficients"]), len(tilt["corners"])) == ("random_perspective", 8, 4)
        assert (out["op"], out["applied"]) == ("frame", True) and out["width"] >= 30
        assert (size["op"], size["interpolation"]) == ("drawn_resize", "bilinear")
        assert min(size["height"], size["width"]) in (19, 20, 29, 30)  # torchvision cuts quotients off
        assert (colours["op"], noise["op"]) == ("photometric_distort", "gaussian_noise")


@pytest.mark.filterwarnings("ignore:The transform `ToTensor")
def test_grey_pictures_have_grey_borders(t):
    torchvision_or_skip()
    from torchvision.datasets import MNIST

    dataset = MNIST.__new__(MNIST)
    dataset.data = torch.arange(5 * 6 * 7, dtype=torch.uint8).reshape(5, 6, 7)
    dataset.targets, dataset.train, dataset.root = torch.arange(5), True, ""
    dataset.target_transform = dataset.transforms = None

    def batch(*steps):
        dataset.transform = t.Compose([*steps, t.ToTensor()])
        return next(iter(millrace.DataLoader(dataset, 5, native="require")))[0]

    choice = t.RandomChoice([t.Pad(2, 30), t.Compose([t.Pad((2, 2), 30)])])
    for steps in ([t.Pad(2, 30)], [choice]):
        expected = torch.nn.functional.pad(dataset.data / 255, [2, 2, 2, 2], value=30 / 255)
        assert torch.equal(batch(*steps), expected[:, None])
    with pytest.raises(millrace.UnavailableError, match="fill of frame has colours"):
        batch(t.RandomChoice([t.Pad(2, (1, 2, 3)), t.RandomHorizontalFlip()]))
