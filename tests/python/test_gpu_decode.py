"""DataLoader(device=..., decode=...) on the tests' fake device and decoder: the CPU path's batches, states,
errors and policies.
"""

import json
from pathlib import Path

import millrace
import pytest
import torch
from fake_device import Fake
from loader_data import outcome, pictures
from millrace import transforms
from pictures import jpeg_bytes, make_picture
from PIL import Image

CHAIN = [
    transforms.RandomResizedCrop(24),
    transforms.RandomHorizontalFlip(),
    transforms.ColorJitter(0.4, 0.4, 0.4),
    transforms.PILToTensor(),
]


@pytest.fixture(scope="module")
def root(tmp_path_factory):
    """JPEGs, some of them CMYK, PNG under a JPEG's name, or damaged."""
    root = tmp_path_factory.mktemp("mixed")
    for i in range(30):
        mode = "CMYK" if i % 7 == 3 else "L" if i % 7 == 5 else "RGB"
        data = jpeg_bytes(make_picture(60 + i, 50 + i % 5, seed=i, mode=mode), quality=90)
        folder = root / "ab"[i // 15]
        folder.mkdir(exist_ok=True)
        (folder / f"{i:02}.jpg").write_bytes(data)
        if i % 9 == 4:
            make_picture(40, 45, seed=i).save(folder / f"{i:02}.jpg", "PNG")
    return root


@pytest.fixture(scope="module")
def damaged(root, tmp_path_factory):
    copy = tmp_path_factory.mktemp("damaged")
    for i, path in enumerate(sorted(root.rglob("*.jpg"))):
        folder = copy / path.parent.name
        folder.mkdir(exist_ok=True)
        data = path.read_bytes()
        (folder / path.name).write_bytes(
            data[: len(data) // 3] + b"\xff\xd9" * (i % 2) if i % 8 == 6 else data
        )
    return copy


@pytest.fixture
def fake(monkeypatch):
    fake = Fake()
    fake.install_decoder(monkeypatch, refuses=5)
    return fake


def loader(root, decode, chain=CHAIN, **arguments):
    options = {"num_workers": 2, "shuffle": True, **arguments}
    if decode != "cpu":
        options |= {"device": "cuda", "decode": decode}
    transform = transforms.Compose(chain) if isinstance(chain, list) else chain
    return millrace.DataLoader(pictures(root, transform=transform), 4, **options)


def numbers(pictures):
    """Of a batch's pictures, or of the views that it has of each."""
    if isinstance(pictures, torch.Tensor):
        return pictures.tolist()
    return [numbers(part) for part in (pictures.values() if isinstance(pictures, dict) else pictures)]


def walk(made, epochs=2, stop_after=None):
    """Batches, errors and the states behind each of them."""
    torch.manual_seed(3)
    seen = []
    for _ in range(epochs):
        iterator = iter(made)
        for step in range(100):
            try:
                images, labels = next(iterator)
            except StopIteration:
                break
            except OSError as error:
                seen.append((type(error).__name__, str(error)))
            else:
                seen.append((numbers(images), labels.tolist()))
            seen.append(json.dumps(made.state_dict(), default=str))
            if step == stop_after:
                break
        seen.append(json.dumps(made.state_dict(), default=str))
    return seen


@pytest.mark.parametrize("workers, persistent", [(0, False), (2, False), (2, True)])
@pytest.mark.parametrize("decode", ["gpu", "auto"])
def test_batches_and_states_are_the_cpus(root, fake, decode, workers, persistent):
    arguments = {"num_workers": workers, "persistent_workers": persistent}
    there, here = walk(loader(root, decode, **arguments)), walk(loader(root, "cpu", **arguments))
    assert there == here
    assert fake.device.decoded > 0 and fake.device.changed_sources == 0
    if decode == "gpu":
        assert fake.device.refused > 0


@pytest.mark.parametrize("on_error", ["raise", "skip", "replace"])
def test_errors_are_the_cpus(damaged, fake, on_error):
    made = [loader(damaged, decode, on_error=on_error) for decode in ("gpu", "cpu")]
    there, here = map(walk, made)
    assert there == here
    stats = [each.stats() for each in made]
    assert stats[0]["errors"] == stats[1]["errors"] and stats[0]["left_out"] == stats[1]["left_out"]
    assert any("CorruptDataError" in entry for entry in there) == (on_error == "raise")


@pytest.mark.parametrize("persistent", [False, True])
def test_epochs_that_are_left_early(root, fake, persistent):
    arguments = {"persistent_workers": persistent}
    there, here = (
        walk(loader(root, decode, **arguments), epochs=3, stop_after=2) for decode in ("gpu", "cpu")
    )
    assert there == here


@pytest.mark.parametrize("workers", [0, 2])
def test_a_run_goes_on_where_its_state_was_taken(root, fake, workers):
    torch.manual_seed(3)
    made = loader(root, "gpu", num_workers=workers)
    iterator = iter(made)
    for _ in range(3):
        next(iterator)
    state, rest = made.state_dict(), [(images.tolist(), labels.tolist()) for images, labels in iterator]
    again = loader(root, "gpu", num_workers=workers)
    again.load_state_dict(state)
    assert [(images.tolist(), labels.tolist()) for images, labels in again] == rest and rest


def test_floats_are_the_cpus_but_for_the_last_bits(root, fake):
    chain = [
        transforms.Resize(40),
        transforms.CenterCrop(32),
        transforms.ToTensor(),
        transforms.Normalize([0.5], [0.25]),
    ]
    there, here = (list(loader(root, decode, chain, shuffle=False)) for decode in ("gpu", "cpu"))
    for (mine, _), (theirs, _) in zip(there, here):
        torch.testing.assert_close(mine, theirs, rtol=0, atol=1e-6)


def test_explain_and_stats_say_what_runs(root, fake):
    assert "decode:" not in loader(root, "cpu").explain()
    assert loader(root, "gpu").explain().splitlines()[-1].startswith("decode: gpu — by nvJPEG")
    made = loader(root, "auto")
    assert "a share" in made.explain().splitlines()[-1]
    list(made)
    stats = made.stats()
    assert stats["engine"] == "threads" and stats["samples"] == 30 and stats["left_to_device"] > 0


BEHIND = {
    "RandAugment": [transforms.RandomResizedCrop(24), transforms.RandAugment(), transforms.PILToTensor()],
    "SimCLR": [*CHAIN[:3], transforms.RandomGrayscale(0.3), transforms.GaussianBlur(5), CHAIN[3]],
    "paddings and turns": [
        transforms.Resize(26),
        transforms.RandomCrop(24, 4, padding_mode="reflect"),
        transforms.RandomRotation(30, transforms.InterpolationMode.BILINEAR, fill=(1, 2, 3)),
        transforms.PILToTensor(),
    ],
    "distorted, twice resized": [
        transforms.RandomResizedCrop(24, interpolation="lanczos"),
        transforms.RandomPerspective(0.5, 0.8),
        transforms.RandomPhotometricDistort(),
        transforms.RandomApply([transforms.RandomResizedCrop(24, interpolation="box")]),
        transforms.PILToTensor(),
    ],
    "erased": [
        *CHAIN[:3],
        transforms.ToImage(),
        transforms.ToDtype(torch.float16, scale=True),
        transforms.RandomErasing(0.7, value="random"),
        transforms.RandomErasing(0.7, value=0.25),
    ],
    "noisy": [
        *CHAIN[:2],
        transforms.ToTensor(),
        transforms.GaussianNoise(0.1, 0.2),
        transforms.Normalize([0.4, 0.5, 0.6], [0.2, 0.3, 0.4]),
        transforms.RandomErasing(0.7),
    ],
}


@pytest.mark.parametrize("name", BEHIND)
def test_steps_behind_the_resize_are_the_devices(root, fake, name):
    there, here = (walk(loader(root, decode, BEHIND[name])) for decode in ("gpu", "cpu"))
    assert there == here
    assert fake.device.decoded > 0


@pytest.mark.parametrize("decode", ["gpu", "auto"])
def test_several_views_of_a_picture(root, fake, decode):
    large, small = transforms.Compose(CHAIN), transforms.Compose(BEHIND["SimCLR"])
    small.transforms[0] = transforms.RandomResizedCrop(12)
    views = transforms.MultiView({"large": (large, large), "small": [small] * 3})
    assert loader(root, decode, views).explain().splitlines()[-1].startswith("decode: gpu")
    there, here = (walk(loader(root, place, views, on_error="skip")) for place in (decode, "cpu"))
    assert there == here
    assert fake.device.decoded > 0 and fake.device.changed_sources == 0


def test_a_view_that_the_gpu_cannot_make_is_a_reason_for_all(root, fake):
    turned = transforms.Compose([transforms.RandomRotation(10), *CHAIN])
    auto = loader(root, "auto", transforms.MultiView([transforms.Compose(CHAIN), turned]))
    assert auto.explain().splitlines()[-1].startswith("decode: cpu — the GPU makes one")


def test_pictures_that_are_turned_upright(tmp_path, fake):
    (tmp_path / "c").mkdir()
    for i in range(24):
        exif = Image.Exif()
        exif[0x0112] = 1 + i % 8
        file = tmp_path / "c" / f"{i:02}.jpg"
        make_picture(70 + i, 90 - 2 * i, seed=i).save(file, quality=90, exif=exif)

    def made(decode):
        data = pictures(tmp_path, transform=transforms.Compose(CHAIN), exif=True)
        where = {"device": "cuda", "decode": decode} if decode != "cpu" else {}
        return millrace.DataLoader(data, 4, num_workers=2, native="require", **where)

    assert walk(made("gpu")) == walk(made("cpu"))
    assert fake.device.decoded > 30  # turned ones, too, of both epochs


def test_what_the_gpu_cannot_do_is_the_cpus_or_refused(root, fake):
    chain = [transforms.RandomRotation(10), *CHAIN]
    auto = loader(root, "auto", chain)
    assert auto.explain().splitlines()[-1].startswith("decode: cpu — the GPU makes one")
    assert walk(auto) == walk(loader(root, "cpu", chain))
    assert fake.device.decoded == 0
    with pytest.raises(
        millrace.UnavailableError, match='decode="gpu" is not possible here: the GPU makes one'
    ):
        iter(loader(root, "gpu", chain))
    with pytest.raises(millrace.UnavailableError, match="only image folders"):
        iter(millrace.DataLoader(torch.arange(6), device="cuda", decode="gpu"))


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU here")
def test_without_a_gpu_it_says_so(root):
    assert "decode: cpu — " in loader(root, "auto").explain()
    with pytest.raises(millrace.UnavailableError, match='decode="gpu" is not possible here'):
        iter(loader(root, "gpu"))


def test_arguments_are_checked(root):
    for arguments in ({"decode": "tpu"}, {"decode": "gpu"}, {"decode": "auto", "device": "cpu"}):
        kind, text = outcome(
            lambda arguments=arguments: millrace.DataLoader(pictures(Path(root)), **arguments)
        )
        assert kind is ValueError and "decode=" in text


def test_iterators_that_are_dropped_leave_nothing(root, fake):
    for _ in range(5):
        iterator = iter(loader(root, "gpu"))
        next(iterator)
        del iterator
    assert fake.device.changed_sources == 0
