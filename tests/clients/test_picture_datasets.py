"""Datasets as training repositories have them: with lazy pictures their batches are torch's."""

import csv
import random
from pathlib import Path

import numpy as np
import torch
from lazy_cases import same_batches
from picture_files import COUNT, MEAN, STD, TRAINING, WAYS, Files, check, px, torchvision
from PIL import Image, ImageFilter, ImageOps
from torch.utils.data import get_worker_info
from torchvision import transforms as T
from torchvision.transforms import functional as F
from torchvision.transforms import v2

# ------------------------------------------------------------------ files and labels


class FromCsv(Files):
    def __init__(self, root, transform):
        super().__init__(root)
        with open(self.root / "labels.csv") as file:
            self.rows = list(csv.DictReader(file))
        self.transform = transform

    def __getitem__(self, index):
        row = self.rows[index]
        image = Image.open(self.root / "images" / row["file"])
        return {
            "image": self.transform(image.convert("RGB")),
            "label": int(row["label"]),
            "file": row["file"],
        }


@WAYS
def test_paths_and_labels_of_a_csv(gallery, way):
    pictures = check(FromCsv(gallery, TRAINING), way, drop_last=False)
    assert pictures["skipped"] == 0 and not pictures["calls"], "fused"


class WithPath(torchvision.datasets.ImageFolder):
    """A subclass, which the engine does not know."""

    def __getitem__(self, index):
        return (*super().__getitem__(index), self.imgs[index][0])


@WAYS
def test_torchvisions_own_folder(gallery, way):
    check(WithPath(gallery / "classes", TRAINING), way)


class Upright(Files):
    """Orientation applied, a square padded, as demos of detectors do it."""

    def __getitem__(self, index):
        image = ImageOps.exif_transpose(Image.open(self.paths[index])).convert("RGB")
        image = ImageOps.pad(image, (px(48), px(48)), color=(114, 114, 114))
        return F.to_tensor(image), torch.tensor(image.size)


@WAYS
def test_pictures_put_upright(gallery, way):
    check(Upright(gallery), way)


# ------------------------------------------------------------------ several pictures a sample


class Segmentation(Files):
    """Joint transforms, whose shared parameters come from torch's generator and from Python's."""

    def __getitem__(self, index):
        image = self.open(index)
        target = Image.open(self.root / "masks" / (self.paths[index].stem + ".png"))
        size = random.randint(px(40), px(60))
        image = F.resize(image, size, T.InterpolationMode.BILINEAR)
        target = F.resize(target, size, T.InterpolationMode.NEAREST)
        if random.random() < 0.5:
            image, target = F.hflip(image), F.hflip(target)
        box = T.RandomCrop.get_params(image, (px(36), px(36)))
        image, target = F.crop(image, *box), F.crop(target, *box)
        angle = float(torch.empty(1).uniform_(-10, 10))
        image, target = F.rotate(image, angle), F.rotate(target, angle)
        image = F.normalize(F.to_tensor(T.ColorJitter(0.3, 0.3)(image)), MEAN, STD)
        return image, torch.as_tensor(np.array(target), dtype=torch.long)


@WAYS
def test_masks_beside_pictures(gallery, way):
    pictures = same_batches(Segmentation(gallery), way, shuffle=True)
    assert pictures["opened"] + pictures["left_to_pillow"] == 2 * COUNT
    assert pictures["opened"] >= COUNT, "the masks are PNGs"


class Detection(Files):
    def __getitem__(self, index):
        image = self.open(index)
        boxes = torchvision.tv_tensors.BoundingBoxes(
            [[3, 4, 30, 40], [10, 12, 50, 44]], format="XYXY", canvas_size=(image.height, image.width)
        )
        chain = [
            v2.RandomIoUCrop(),
            v2.RandomHorizontalFlip(),
            v2.Resize((px(40), px(40))),
            v2.SanitizeBoundingBoxes(),
        ]
        chain += [v2.ToImage(), v2.ToDtype(torch.float32, scale=True)]
        return v2.Compose(chain)(image, {"boxes": boxes, "labels": torch.tensor([1, 2])})


def in_lists(samples):
    return tuple(zip(*samples))


@WAYS
def test_boxes_beside_pictures(gallery, way):
    check(Detection(gallery), way, collate_fn=in_lists)


class Pairs(Files):
    """Two views of one picture, as SimCLR has them."""

    view = T.Compose(
        [
            T.RandomResizedCrop(px(24), (0.2, 1.0)),
            T.RandomHorizontalFlip(),
            T.RandomApply([T.ColorJitter(0.4, 0.4, 0.2, 0.1)], p=0.8),
            T.RandomGrayscale(p=0.2),
            T.RandomApply([T.GaussianBlur(3, (0.1, 2.0))], p=0.5),
            T.ToTensor(),
        ]
    )

    def __getitem__(self, index):
        image = self.open(index)
        return [self.view(image), self.view(image)]


@WAYS
def test_two_views_of_a_picture(gallery, way):
    check(Pairs(gallery), way)


class Triplets(Files):
    def __getitem__(self, index):
        positive, negative = (index + 3) % len(self), random.randrange(len(self))
        return tuple(TRAINING(self.open(i)) for i in (index, positive, negative))


@WAYS
def test_triplets(gallery, way):
    check(Triplets(gallery), way, each=3)


class MultiCrop(Files):
    """Two large and six small crops of one picture, with Pillow's own filters, as DINO has them."""

    class Blur:
        def __call__(self, image):
            if random.random() <= 0.5:
                return image
            return image.filter(ImageFilter.GaussianBlur(radius=random.uniform(0.1, 2)))

    class Solarize:
        def __call__(self, image):
            return ImageOps.solarize(image) if random.random() < 0.2 else image

    def __init__(self, root):
        super().__init__(root)
        bicubic = T.InterpolationMode.BICUBIC
        tail = [T.ToTensor(), T.Normalize(MEAN, STD)]
        flip = [T.RandomHorizontalFlip(), T.RandomApply([T.ColorJitter(0.4, 0.4, 0.2, 0.1)], p=0.8)]
        large = T.RandomResizedCrop(px(32), (0.4, 1.0), interpolation=bicubic)
        small = T.RandomResizedCrop(px(16), (0.05, 0.4), interpolation=bicubic)
        self.large = T.Compose([large, *flip, self.Blur(), self.Solarize(), *tail])
        self.small = T.Compose([small, *flip, self.Blur(), *tail])

    def __getitem__(self, index):
        image = self.open(index)
        return [self.large(image) for _ in range(2)] + [self.small(image) for _ in range(6)]


@WAYS
def test_many_crops_of_a_picture(gallery, way):
    pictures = check(MultiCrop(gallery), way)
    assert pictures["decoded_whole"] + pictures["decoded_in_part"] <= 2 * COUNT, "and not eight times each"


class Mosaic(Files):
    """Four pictures pasted into one, and one mixed in."""

    def __getitem__(self, index):
        side = px(32)
        whole = Image.new("RGB", (2 * side, 2 * side))
        for place in range(4):
            part = self.open((index + place) % len(self)).resize((side, side), Image.Resampling.LANCZOS)
            whole.paste(part, (side * (place % 2), side * (place // 2)))
        other = self.open(random.randrange(len(self))).resize(whole.size)
        return F.pil_to_tensor(Image.blend(whole, other, 0.25))


@WAYS
def test_mosaics(gallery, way):
    check(Mosaic(gallery), way, each=5)


# ------------------------------------------------------------------ habits


def test_an_open_of_the_scripts_own(gallery, monkeypatch):
    """Scripts patch Image.open, for retries or for files that are somewhere else."""
    original, asked = Image.open, []

    def own(file, mode="r", formats=None):
        asked.append(Path(file).name)
        return original(file, mode, formats)

    monkeypatch.setattr(Image, "open", own)
    check(FromCsv(gallery, TRAINING), "inline")
    assert len(asked) == 3 * COUNT, "once for each sample of the three loaders"


class ByWorker(Files):
    """Generators of a worker, as get_worker_info() tells it."""

    def __getitem__(self, index):
        info = get_worker_info()
        generator = np.random.default_rng(index if info is None else info.seed + index)
        image = self.open(index)
        left, top = (int(generator.integers(0, side - px(32))) for side in image.size)
        worker = -1 if info is None else info.id
        assert info is None or info.dataset is not None
        part = image.crop((left, top, left + px(32), top + px(32)))
        return F.to_tensor(part), worker, torch.initial_seed() % 1000


@WAYS
def test_generators_of_workers(gallery, way):
    check(ByWorker(gallery), way)


class Raw(Files):
    """PIL images, which a collate_fn makes a batch of."""

    def __getitem__(self, index):
        return self.open(index), index


def processed(samples):
    """As a processor of a language model with eyes does: sizes first, then pixels."""
    images, labels = zip(*samples)
    side = min(min(image.size) for image in images)
    pixels = [np.asarray(image.resize((side // 4 * 2, px(30)), Image.Resampling.BICUBIC)) for image in images]
    return torch.from_numpy(np.stack(pixels)), list(labels), [image.size for image in images]


@WAYS
def test_a_collate_fn_that_makes_the_pixels(gallery, way):
    check(Raw(gallery), way, collate_fn=processed)


class Streamed(torch.utils.data.IterableDataset):
    def __init__(self, root):
        self.paths = sorted((Path(root) / "images").iterdir())

    def __iter__(self):
        info = get_worker_info()
        mine = self.paths if info is None else self.paths[info.id :: info.num_workers]
        for path in random.sample(mine, len(mine)):
            yield TRAINING(Image.open(path).convert("RGB")), path.name


@WAYS
def test_streams_of_files(gallery, way):
    check(Streamed(gallery), way, shuffle=None)


class Bytes(Files):
    """Pixels as bytes, the rest in the loop."""

    def __getitem__(self, index):
        return torch.from_numpy(np.array(self.open(index).resize((px(32), px(32))))), index


def test_transforms_after_batching(gallery):
    pictures = check(Bytes(gallery), "fork")
    assert pictures["skipped"] == 0
