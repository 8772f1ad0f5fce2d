"""More of them: pictures of OpenCV and torchvision.io, in memory, several in a sample, of inherited methods.

`alike`: a dataset of the same samples, where the library itself cannot decode here.
"""

import io
import os
from dataclasses import dataclass

import cv2
import numpy as np
import pandas
import torch
import torchvision
import torchvision.transforms.functional as TF
from PIL import Image, ImageOps
from seen_items import Base, Pairs
from torch.utils.data import Dataset
from torchvision.datasets import ImageFolder
from torchvision.io import ImageReadMode, decode_image, decode_jpeg, read_file, read_image
from torchvision.transforms import v2


@dataclass
class Record:
    file: str
    label: int


class Other(Base):
    def __init__(self, root, count, transform):
        super().__init__(root, count, transform)
        self.count = count
        self.paths = [os.path.join(self.root, name) for name in self.names]
        self.frame = pandas.DataFrame({"path": self.paths, "label": list(self.labels)})
        self.records = [Record(path, i) for i, path in enumerate(self.paths)]
        self.blobs = [open(path, "rb").read() for path in self.paths]
        self.plain = torchvision.transforms.ToTensor()
        self.array_transform = torchvision.transforms.Compose(
            [torchvision.transforms.ToPILImage(), *self.transform.transforms]
        )
        self.tensor_transform = v2.Compose(
            [v2.Resize((18, 16), antialias=True), v2.ToDtype(torch.float32, scale=True)]
        )
        self.masks = self.paths[::-1]
        self.positives = [(i + 3) % count for i in range(count)]


class Modes(Other):
    """The pictures are RGB as they are stored."""

    def __getitem__(self, index):
        return self.transform(Image.open(self.paths[index])), self.labels[index]


class Table(Other):
    def __getitem__(self, idx):
        image = Image.open(self.frame.iloc[idx, 0]).convert("RGB")
        row = self.frame.iloc[idx]
        label = torch.tensor(int(row["label"]), dtype=torch.long)
        return self.transform(image), label, row.path


class Blobs(Other):
    def __getitem__(self, idx):
        image = Image.open(io.BytesIO(self.blobs[idx])).convert("RGB")
        return {"pixel_values": self.transform(image), "labels": self.labels[idx]}


class Grey(Other):
    def __getitem__(self, idx):
        with Image.open(self.paths[idx]) as image:
            image = image.convert("L")
        return self.transform(image), self.records[idx].label


class Upright(Other):
    def __getitem__(self, idx):
        image = ImageOps.exif_transpose(Image.open(self.records[idx].file)).convert("RGB")
        return self.transform(image), -self.labels[idx]


class Sized(Other):
    def __getitem__(self, idx):
        img = Image.open(self.paths[idx]).convert("RGB").resize((20, 18), Image.BILINEAR)
        array = np.array(img).astype(np.float32) / 255.0
        return torch.from_numpy(array.transpose(2, 0, 1)), idx


class Floats(Other):
    def __getitem__(self, idx):
        img = np.asarray(Image.open(self.paths[idx]).convert("RGB").resize((20, 18)))
        return {"x": torch.from_numpy(img.copy()).permute(2, 0, 1).float() / 255, "i": idx}


class Views(Other):
    def __getitem__(self, idx):
        img = Image.open(self.paths[idx]).convert("RGB")
        return self.transform(img), self.transform(img), self.labels[idx]


class TwoFiles(Other):
    def __getitem__(self, idx):
        a = Image.open(self.paths[idx]).convert("RGB")
        b = Image.open(self.masks[idx]).convert("RGB")
        return {"A": self.transform(a), "B": self.transform(b), "A_paths": self.paths[idx]}


class Unlike(Other):
    def __getitem__(self, idx):
        image, mask = Image.open(self.paths[idx]).convert("RGB"), Image.open(self.masks[idx]).convert("L")
        return self.transform(image), self.transform(mask)


class Triplets(Other):
    def _load(self, i):
        return self.transform(Image.open(self.paths[i]).convert("RGB"))

    def __getitem__(self, idx):
        return (self._load(idx), self._load(self.positives[idx])), self._load((idx + 7) % self.count)


class Frames(Other):
    def __getitem__(self, idx):
        frames = []
        for k in range(4):
            path = f"{self.root}/{(idx + k) % self.count}.jpg"
            frames.append(self.transform(Image.open(path).convert("RGB")))
        return torch.stack(frames), self.labels[idx]


class FrameList(Other):
    def __getitem__(self, idx):
        names = [self.paths[(idx + k) % self.count] for k in range(3)]
        images = [Image.open(name).convert("RGB") for name in names]
        return [self.transform(image) for image in images], idx


class Named(Other):
    def __getitem__(self, idx):
        image = Image.open(os.path.join(self.root, "%d.jpg" % (idx % len(self.labels)))).convert("RGB")  # noqa: UP031
        target = {"id": idx, "box": [idx, idx + 1], "name": os.path.basename(self.paths[idx])}
        return self.transform(image), target


class Functions(Other):
    def __getitem__(self, idx):
        img = TF.to_tensor(TF.resize(Image.open(self.paths[idx]).convert("RGB"), [16, 20]))
        return TF.normalize(img, [0.5, 0.5, 0.5], [0.25, 0.25, 0.25]), self.frame["label"].iloc[idx]


class Inherited(Pairs):
    def __getitem__(self, index):
        image, label = super().__getitem__(index)
        return image, label, self.samples[index][0]


class Doubled(Inherited):
    def __getitem__(self, index):
        original = super(Inherited, self).__getitem__(index)
        return original + (index,)


class Colours(Other):
    """OpenCV's own order is put right."""

    def __getitem__(self, idx):
        image = cv2.imread(self.paths[idx])
        image = cv2.cvtColor(image, cv2.COLOR_BGR2RGB)
        return self.array_transform(image), self.labels[idx]


class Coloured(Other):
    def __getitem__(self, idx):
        image = cv2.cvtColor(
            cv2.imread(str(self.folder / self.names[idx]), cv2.IMREAD_COLOR), cv2.COLOR_BGR2RGB
        )
        return self.transform(Image.fromarray(image)), idx


class Buffers(Other):
    def __getitem__(self, idx):
        data = np.frombuffer(self.blobs[idx], dtype=np.uint8)
        image = cv2.cvtColor(cv2.imdecode(data, cv2.IMREAD_COLOR), cv2.COLOR_BGR2RGB)
        return self.transform(Image.fromarray(image)), idx


class Bytes(Other):
    def __getitem__(self, idx):
        with open(self.paths[idx], "rb") as f:
            data = f.read()
        return self.transform(Image.open(io.BytesIO(data)).convert("RGB")), idx


class OfTensors(Other):
    def __getitem__(self, idx):
        img = Image.open(self.paths[idx]).convert("RGB")
        return self.tensor_transform(TF.pil_to_tensor(img)), self.labels[idx]


class Read(Other):
    alike = OfTensors

    def __getitem__(self, idx):
        image = read_image(self.paths[idx], mode=ImageReadMode.RGB)
        return self.tensor_transform(image), self.labels[idx]


class Decoded(Other):
    alike = OfTensors

    def __getitem__(self, idx):
        image = decode_image(self.paths[idx])
        label = self.labels[idx]
        if self.transform:
            image = self.tensor_transform(image)
        if self.target_transform:
            label = self.target_transform(label)
        return image, label


class OfFiles(Other):
    alike = OfTensors

    def __getitem__(self, idx):
        return self.tensor_transform(decode_jpeg(read_file(self.paths[idx]))), self.labels[idx]


class Tries(Other):
    def __getitem__(self, idx):
        try:
            with Image.open(self.paths[idx]) as image:
                image.load()
                if image.mode != "RGB":
                    image = image.convert("RGB")
        except OSError:
            return self.__getitem__((idx + 1) % self.count)
        return self.transform(image), torch.nn.functional.one_hot(torch.tensor(int(self.labels[idx])), 7)


class Wrapped(Dataset):
    """Transforms on top of a part of another dataset, as after random_split()."""

    def __init__(self, root, count, transform):
        self.transform = transform
        self.subset = torch.utils.data.Subset(Pairs(root, count, None), list(range(count))[::-1])
        self.target_transform = torchvision.transforms.Lambda(
            lambda y: torch.zeros(10, dtype=torch.float).scatter_(0, torch.tensor(y), value=1)
        )

    def __len__(self):
        return len(self.subset)

    def __getitem__(self, index):
        x, y = self.subset[index]
        if self.transform:
            x = self.transform(x)
        return x, self.target_transform(y)


class FromPaths(Other):
    """What a picture is called says what it is."""

    def __getitem__(self, idx):
        path = self.paths[idx]
        stem, ending = os.path.splitext(os.path.basename(path))
        image = Image.open(path).convert("RGB")
        return self.transform(image), self.by_name[stem + ending]["label"], path.split("/")[-1].upper()


class TwoCrops(Other):
    def __getitem__(self, idx):
        image = Image.open(self.paths[idx]).convert("RGB")
        return torch.stack([self.transform(image), self.transform(image)]), self.labels[idx]


class Options(Other):
    def _open(self, path, mode="RGB", size=None):
        image = Image.open(path).convert(mode)
        return image if size is None else image.resize(size)

    def __getitem__(self, idx):
        import numpy

        image = self._open(path=self.paths[idx], size=(30, 24))
        if isinstance(self.transform, dict):
            raise TypeError("one transform, please")
        image = self.transform(image) if self.transform is not None else numpy.asarray(image)
        return {
            "image": image,
            "size": [30, 24],
            "target": {"label": self.labels[idx], "weights": (0.5, idx)},
        }


class Long(Other):
    """Some lines more than are needed."""

    def __getitem__(self, idx):
        image_path = os.path.join(os.fspath(self.root), "", self.samples[idx][0])
        with open(image_path, "rb") as file:
            content = file.read()
            file.close()
        image = Image.open(io.BytesIO(content))
        image.load()
        if image.mode != "RGB":
            image = image.convert("RGB")
        label = torch.LongTensor([self.labels[idx]]).squeeze(0).type(torch.int32) if self.is_train else None
        to_tensor = torchvision.transforms.ToTensor()
        return self.transform(image) if self.transform else to_tensor(image), label


class Arrays(Other):
    """Pictures in memory, as CIFAR10 and MNIST have them."""

    def __init__(self, root, count, transform):
        super().__init__(root, count, transform)
        draws = np.random.default_rng(3)
        self.data = draws.integers(0, 256, (count, 24, 30, 3), np.uint8)
        self.grey = torch.from_numpy(draws.integers(0, 256, (count, 30, 24), np.uint8))


class Contrasts(Arrays):
    """SimCLR's pair of CIFAR10."""

    def __getitem__(self, index):
        img, target = self.data[index], self.labels[index]
        img = Image.fromarray(img)
        if self.transform is not None:
            pos_1 = self.transform(img)
            pos_2 = self.transform(img)
        return pos_1, pos_2, target


class Digits(Arrays):
    def __getitem__(self, index):
        img, target = self.grey[index], int(self.labels[index])
        img = Image.fromarray(img.numpy(), mode="L")
        return self.transform(img), target


class Folder(ImageFolder):
    """`root` has a folder of the pictures."""

    def __init__(self, root, count, transform):
        super().__init__(str(root), transform)

    def __getitem__(self, index):
        sample, target = super().__getitem__(index)
        path, _ = self.imgs[index]
        return sample, target, path


SEEN = [
    Modes,
    Table,
    Blobs,
    Grey,
    Upright,
    Sized,
    Floats,
    Views,
    TwoFiles,
    Unlike,
    Triplets,
    Frames,
    FrameList,
]
SEEN += [Named, Functions, Inherited, Doubled, Colours, Coloured, Buffers, Bytes, OfTensors]
SEEN += [Tries, Wrapped, FromPaths, TwoCrops, Options, Long, Contrasts, Digits]
SEEN += [Read, Decoded, OfFiles]
