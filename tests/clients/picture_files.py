"""Files and a base class for datasets as training repositories have them, and what their batches must be."""

import csv
import io
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
MEAN, STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
TRAINING = T.Compose(
    [T.RandomResizedCrop(32), T.RandomHorizontalFlip(), T.ToTensor(), T.Normalize(MEAN, STD)]
)
WAYS = pytest.mark.parametrize("way", ["inline", "fork"])


def jpeg(i):
    exif = Image.Exif()
    exif[0x0112] = 1 + i % 8
    photo = make_picture(70 + 5 * i, 60 + 3 * i, seed=i, mode="L" if i % 5 == 4 else "RGB")
    return jpeg_bytes(photo, quality=80, exif=exif.tobytes(), progressive=i % 4 == 3)


def mask(i):
    file = io.BytesIO()
    pixels = np.asarray(make_picture(70 + 5 * i, 60 + 3 * i, seed=i, mode="L")) // 64
    Image.fromarray(pixels).save(file, "PNG")
    return file.getvalue()


def make_gallery(root):
    """Fills a folder: images/NN.jpg, masks/NN.png, labels.csv, class folders."""
    for name in ("images", "masks", "classes/ant", "classes/bee"):
        (root / name).mkdir(parents=True)
    with open(root / "labels.csv", "w", newline="") as file:
        rows = csv.writer(file)
        rows.writerow(["file", "label"])
        for i in range(COUNT):
            rows.writerow([f"{i:02}.jpg", i % 3])
            (root / "images" / f"{i:02}.jpg").write_bytes(jpeg(i))
            (root / "classes" / ("ant", "bee")[i % 2] / f"{i:02}.jpg").write_bytes(jpeg(i))
            (root / "masks" / f"{i:02}.png").write_bytes(mask(i))
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
