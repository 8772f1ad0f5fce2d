"""ImageFolder through the engine: items, keys, files that are no JPEG, bad files, worker processes."""

import numpy as np
import pytest
import torch
from image_folder_cases import MEAN, STD, train_chain
from millrace import DataLoader, UnavailableError, transforms
from millrace.datasets import IMG_EXTENSIONS, ImageFolder
from pictures import jpeg_bytes, make_picture
from PIL import Image, ImageOps


def val_chain(size=32):
    return transforms.Compose(
        [transforms.Resize(size + 8), transforms.CenterCrop(size), transforms.ToTensor()]
    )


def drawn_seed(seed):
    torch.manual_seed(seed)
    return int(torch.empty((), dtype=torch.int64).random_())


def augmenting_chain(t, size=32):
    """Every kind of augmentation, from millrace's or torchvision's classes."""
    pictures = [
        t.RandomResizedCrop(size),
        t.ColorJitter(0.4, 0.4, 0.4, 0.1),
        t.RandomGrayscale(0.2),
        t.GaussianBlur(3),
    ]
    pictures += [
        t.RandomAffine(10, (0.1, 0.1)),
        t.RandomRotation(15, t.InterpolationMode.BILINEAR),
        t.RandomHorizontalFlip(),
    ]
    return t.Compose([*pictures, t.ToTensor(), t.Normalize(MEAN, STD), t.RandomErasing(0.5, value="random")])


def test_item_takes_its_key_from_the_global_generator(jpeg_folder):
    data = ImageFolder(jpeg_folder, train_chain())
    seed = drawn_seed(5)
    torch.manual_seed(5)
    first, second = data[3], data[3]
    assert torch.equal(first[0], data.at(3, seed, 0)[0]) and first[1] == 0
    assert not torch.equal(first[0], second[0])


@pytest.mark.parametrize("family", ["millrace", "torchvision"])
def test_augmented_batches_are_rows_of_their_keys(jpeg_folder, torchvision, family):
    data = ImageFolder(
        jpeg_folder, augmenting_chain(transforms if family == "millrace" else torchvision.transforms)
    )
    loader = DataLoader(data, batch_size=5, num_workers=2, native="require")
    for i, (images, targets) in enumerate(loader):
        for j, (image, target) in enumerate(zip(images, targets, strict=True)):
            expected, label = data.at(5 * i + j, loader.seed, loader.epoch)
            assert torch.equal(image, expected) and target == label
    ops = [
        "random_resized_crop",
        "color_jitter",
        "random_grayscale",
        "gaussian_blur",
        "random_affine",
        "random_rotation",
    ]
    assert [d["op"] for d in data.draw(0, 0, 0)] == [*ops, "horizontal_flip", "random_erasing"]
    alone = ImageFolder(jpeg_folder, transforms.Compose([transforms.ColorJitter(0.5), transforms.ToTensor()]))
    assert not torch.equal(alone[0][0], alone[0][0])


def test_arguments_that_only_python_can_refuse_run_in_python(jpeg_folder):
    data = ImageFolder(
        jpeg_folder, transforms.Compose([transforms.RandomRotation((30, -30)), transforms.ToTensor()])
    )
    with pytest.raises(UnavailableError, match="degrees must be \\(min, max\\)"):
        data.at(0, 0, 0)
    with pytest.raises(RuntimeError, match="uniform_"):
        data[0]
    blurred = ImageFolder(
        jpeg_folder,
        transforms.Compose([transforms.Resize((3, 3)), transforms.GaussianBlur(9), transforms.ToTensor()]),
    )
    with pytest.raises(ValueError, match="Padding size should be less .* use a smaller kernel_size"):
        blurred[0]


def test_fixed_chain_draws_nothing(jpeg_folder):
    data = ImageFolder(jpeg_folder, val_chain())
    before = torch.get_rng_state()
    image, target = data[10]
    grey = ImageFolder(jpeg_folder, transforms.Compose([transforms.Grayscale(3), transforms.ToTensor()]))
    assert torch.equal(grey[0][0], grey.at(0, 1, 2)[0]) and grey.draw(0, 1, 2) == []
    assert torch.equal(before, torch.get_rng_state())
    assert torch.equal(image, data.at(10, 1, 2, 3)[0]) and target == 1
    assert image.shape == (3, 32, 32) and image.is_contiguous()


def test_rows_depend_on_all_of_the_key_and_nothing_else(jpeg_folder):
    data = ImageFolder(jpeg_folder, train_chain())
    keys = [(3, 0, 0, 0), (3, 1, 0, 0), (3, 0, 1, 0), (3, 0, 0, 1), (3, 2**63 - 1, 0, 0)]
    rows = [data.at(*key)[0] for key in keys]
    for i in range(len(rows)):
        assert torch.equal(data.at(*keys[i])[0], rows[i])
        assert data.draw(*keys[i]) == data.draw(*keys[i])
        assert not any(torch.equal(rows[i], rows[j]) for j in range(i))
    assert torch.equal(data.at(-21, 0, 0)[0], rows[0])
    for wrong in (24, -25):
        with pytest.raises(IndexError):
            data.at(wrong, 0, 0)


def test_draws_have_torchvisions_distribution(jpeg_folder):
    data = ImageFolder(jpeg_folder, train_chain())
    height, width = 90, 120
    draws = [data.draw(0, seed, 0) for seed in range(2000)]
    mine = np.array(
        [[box["top"], box["left"], box["height"], box["width"], flip["flip"]] for box, flip in draws]
    )
    crop = transforms.RandomResizedCrop(32)
    torch.manual_seed(0)
    theirs = np.array(
        [crop.get_params(torch.empty(3, height, width), crop.scale, crop.ratio) for _ in range(2000)]
    )
    for column in range(4):
        spread = theirs[:, column].std() / 2000**0.5
        assert abs(mine[:, column].mean() - theirs[:, column].mean()) < 6 * spread
        assert abs(mine[:, column].std() / theirs[:, column].std() - 1) < 0.08
    assert 0.45 < mine[:, 4].mean() < 0.55


@pytest.mark.parametrize(
    "options, reason",
    [
        ({"transform": None}, "transform"),
        ({"transform": lambda image: image.rotate(1)}, "no native form"),
        ({"transform": transforms.Compose([transforms.Resize(8)])}, "PIL images"),
        (
            {"transform": transforms.Compose([transforms.ToImage(), transforms.Resize(8, "lanczos")])},
            "bilinear or bicubic",
        ),
        (
            {"transform": transforms.Compose([transforms.Normalize([0.5], [0.5]), transforms.ToTensor()])},
            "Normalize",
        ),
        ({"transform": transforms.ToTensor(), "loader": Image.open}, "loader"),
    ],
    ids=["none", "function", "pil", "filter", "order", "loader"],
)
def test_python_chains_say_why_they_have_no_keys(jpeg_folder, options, reason):
    data = ImageFolder(jpeg_folder, **options)
    for call in (lambda: data.at(0, 0, 0), lambda: data.draw(0, 0, 0), data.native):
        with pytest.raises(UnavailableError, match=reason):
            call()


def test_target_transform_keeps_pictures_native(jpeg_folder):
    data = ImageFolder(jpeg_folder, val_chain(), target_transform=lambda t: t + 100)
    assert data[9][1] == data.at(9, 0, 0)[1] == 101
    with pytest.raises(UnavailableError, match="target_transform"):
        data.native()


@pytest.mark.filterwarnings("ignore:The transform `ToTensor")
def test_torchvisions_transforms_run_natively_too(torchvision, jpeg_folder):
    from torchvision import transforms as v1
    from torchvision.transforms import v2

    mine = ImageFolder(jpeg_folder, train_chain())
    for t in (v1, v2):
        data = ImageFolder(
            jpeg_folder,
            t.Compose(
                [t.RandomResizedCrop(32), t.RandomHorizontalFlip(), t.ToTensor(), t.Normalize(MEAN, STD)]
            ),
        )
        assert torch.equal(data.at(7, 1, 2)[0], mine.at(7, 1, 2)[0])


def test_changed_transforms_and_samples_count(jpeg_folder):
    data = ImageFolder(jpeg_folder, val_chain(32))
    assert data[0][0].shape == (3, 32, 32)
    data.transform = val_chain(24)
    assert data[0][0].shape == (3, 24, 24)
    data.transform.transforms[1].size = (20, 22)
    assert data[0][0].shape == (3, 20, 22)
    last = data.at(-1, 0, 0)
    data.samples = data.samples[::-1]
    assert torch.equal(data.at(0, 0, 0)[0], last[0]) and data.at(0, 0, 0)[1] == 2
    data.transform = None
    assert isinstance(data[0][0], Image.Image)


@pytest.mark.parametrize("context", ["fork", "spawn"])
def test_items_in_worker_processes(jpeg_folder, context):
    data = ImageFolder(jpeg_folder, train_chain())
    data[0]  # a used engine must survive the fork
    loader = torch.utils.data.DataLoader(data, batch_size=6, num_workers=1, multiprocessing_context=context)
    images, targets = zip(*loader)
    assert torch.cat(images).shape == (24, 3, 32, 32) and torch.cat(targets).tolist() == data.targets


def test_items_in_threads(jpeg_folder):
    from concurrent.futures import ThreadPoolExecutor

    data = ImageFolder(jpeg_folder, train_chain())
    expected = [data.at(i, 3, 1)[0] for i in range(24)]
    with ThreadPoolExecutor(8) as pool:
        for row, (other, _) in zip(expected * 4, pool.map(lambda i: data.at(i % 24, 3, 1), range(96))):
            assert torch.equal(row, other)


@pytest.fixture(scope="module")
def others(tmp_path_factory):
    """Every format that Pillow reads in a class folder, with the modes that need conversion."""
    folder = tmp_path_factory.mktemp("others") / "c"
    folder.mkdir()
    picture = make_picture(70, 50, seed=3)
    alpha = picture.convert("RGBA")
    alpha.putalpha(make_picture(70, 50, seed=4, mode="L"))
    picture.save(folder / "a.png")
    alpha.save(folder / "alpha.png")
    picture.convert("P").save(folder / "palette.png", transparency=3)
    picture.convert("1").save(folder / "bits.png")
    picture.convert("LA").save(folder / "la.png")
    picture.convert("L").convert("I").point(lambda v: v * 200).convert("I;16").save(folder / "sixteen.png")
    picture.convert("P").save(folder / "b.gif", transparency=0)
    picture.save(folder / "c.webp", lossless=True)
    alpha.save(folder / "alpha.webp")
    picture.save(folder / "d.bmp")
    picture.save(folder / "e.tiff")
    picture.convert("CMYK").save(folder / "cmyk.tif")
    picture.save(folder / "f.ppm")
    picture.convert("L").save(folder / "g.pgm")
    picture.save(folder / "named_jpg_is_png.jpg", "PNG")
    (folder / "named_png_is_jpg.png").write_bytes(jpeg_bytes(picture))
    return str(folder.parent)


def listed(root, transform, **options):
    return ImageFolder(root, transform, extensions=(*IMG_EXTENSIONS, ".gif"), **options)


def test_other_formats_are_pillows(others):
    data = listed(others, transforms.PILToTensor())
    assert len(data) == 16
    for i, (path, _) in enumerate(data.samples):
        expected = np.asarray(Image.open(path).convert("RGB"))
        assert np.array_equal(data[i][0].permute(1, 2, 0).numpy(), expected), path


def test_other_formats_take_the_same_crops(others):
    data = listed(others, transforms.Compose([transforms.RandomResizedCrop(24), transforms.PILToTensor()]))
    for i, (path, _) in enumerate(data.samples):
        (box,) = data.draw(i, 4, 0)
        right, bottom = box["left"] + box["width"], box["top"] + box["height"]
        crop = Image.open(path).convert("RGB").crop((box["left"], box["top"], right, bottom))
        expected = np.asarray(crop.resize((24, 24), Image.BILINEAR)).astype(int)
        assert abs(data.at(i, 4, 0)[0].permute(1, 2, 0).numpy() - expected).max() <= 1, path


def test_exif_in_other_formats(tmp_path):
    (tmp_path / "c").mkdir()
    for orientation in (1, 3, 6):
        exif = Image.Exif()
        exif[0x0112] = orientation
        for ending, options in (("png", {}), ("tiff", {}), ("webp", {"lossless": True})):
            make_picture(31, 17).save(tmp_path / "c" / f"{orientation}.{ending}", exif=exif, **options)
    to_tensor = transforms.PILToTensor()
    stored, upright = listed(tmp_path, to_tensor), listed(tmp_path, to_tensor, exif=True)
    for i, (path, _) in enumerate(stored.samples):
        assert torch.equal(stored[i][0], to_tensor(Image.open(path).convert("RGB"))), path
        assert torch.equal(
            upright[i][0], to_tensor(ImageOps.exif_transpose(Image.open(path)).convert("RGB"))
        ), path


def test_crop_larger_than_the_picture_names_the_file(jpeg_folder):
    data = ImageFolder(jpeg_folder, transforms.Compose([transforms.RandomCrop(500), transforms.ToTensor()]))
    with pytest.raises(ValueError, match="Required crop size") as error:
        data[0]
    assert data.samples[0][0] in str(error.value)


def test_wrong_order_in_torchvisions_words(jpeg_folder):
    data = ImageFolder(
        jpeg_folder, transforms.Compose([transforms.Normalize(MEAN, STD), transforms.ToTensor()])
    )
    with pytest.raises(TypeError, match="Normalize\\(\\) does not support PIL images"):
        data[0]
    data.transform = transforms.Compose([transforms.PILToTensor(), transforms.Normalize(MEAN, STD)])
    with pytest.raises(TypeError, match="Input tensor should be a float tensor. Got torch.uint8"):
        data[0]
