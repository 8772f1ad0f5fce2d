"""Files and a base class for datasets as training repositories have them, and what their batches must be."""

import csv
import io
import os
from pathlib import Path

import numpy as np
import pytest
from lazy_cases import same_batches
from loader_data import torchvision_or_skip
from pictures import jpeg_bytes, make_picture
from PIL import Image
from torch.utils.data import Dataset

torchvision = torchvision_or_skip()
from torchvision import transforms as T  # noqa: E402

COUNT = 14
LARGER = int(
    os.environ.get("MILLRACE_CLIENT_PICTURES", "1")
)  # benchmarks/picture_clients.py wants whole photos


def px(pixels):
    return pixels * LARGER


MEAN, STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
TRAINING = T.Compose(
    [T.RandomResizedCrop(px(32)), T.RandomHorizontalFlip(), T.ToTensor(), T.Normalize(MEAN, STD)]
)
WAYS = pytest.mark.parametrize("way", ["inline", "fork"])


def jpeg(i):
    exif = Image.Exif()
    exif[0x0112] = 1 + i % 8
    photo = make_picture(70 + 5 * i, 60 + 3 * i, seed=i, mode="L" if i % 5 == 4 else "RGB")
    return jpeg_bytes(photo, quality=80, exif=exif.tobytes(), progressive=i % 4 == 3)


def mask_of(photo):
    file = io.BytesIO()
    Image.fromarray(np.asarray(photo.convert("L")) // 64).save(file, "PNG")
    return file.getvalue()


def mask(i):
    return mask_of(make_picture(70 + 5 * i, 60 + 3 * i, seed=i, mode="L"))


def make_gallery(root, files=None):
    """Fills a folder: images/NN.jpg, masks/NN.png, labels.csv, class folders. `files`: (JPEG, mask) each."""
    for name in ("images", "masks", "classes/ant", "classes/bee"):
        (root / name).mkdir(parents=True)
    with open(root / "labels.csv", "w", newline="") as file:
        rows = csv.writer(file)
        rows.writerow(["file", "label"])
        for i, (photo, its_mask) in enumerate(files or [(jpeg(i), mask(i)) for i in range(COUNT)]):
            rows.writerow([f"{i:02}.jpg", i % 3])
            (root / "images" / f"{i:02}.jpg").write_bytes(photo)
            (root / "classes" / ("ant", "bee")[i % 2] / f"{i:02}.jpg").write_bytes(photo)
            (root / "masks" / f"{i:02}.png").write_bytes(its_mask)
    return root


class Files(Dataset):
    """The base of those below: one sample per JPEG."""

    def __init__(self, root):
        self.root = Path(root)
        self.paths = sorted((self.root / "images").iterdir())

    def __len__(self):
        return len(self.paths)

    def open(self, index):
        return Image.open(self.paths[index]).convert("RGB")


def check(dataset, way, each=1, **options):
    """The batches, and that `each` pictures a sample waited."""
    options.setdefault("shuffle", True)
    pictures = same_batches(dataset, way, **options)
    assert pictures["opened"] == each * COUNT and pictures["left_to_pillow"] == 0, pictures
    return pictures
