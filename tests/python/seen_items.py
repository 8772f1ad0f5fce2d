"""Datasets in the forms that public repositories have: a __getitem__ that opens a picture. All of them are
read; the tests change them, too.
"""

import os
from pathlib import Path

import numpy as np
import torch
from PIL import Image
from torch.utils.data import Dataset


def rgb_loader(path):
    with open(path, "rb") as f:
        img = Image.open(f)
        return img.convert("RGB")


class Base(Dataset):
    def __init__(self, root, count, transform):
        self.root, self.transform, self.target_transform = str(root), transform, None
        self.samples = [(f"{i}.jpg", i % 3) for i in range(count)]
        self.names = [name for name, _ in self.samples]
        self.labels = np.arange(count) % 5
        self.tensor = torch.arange(count).float() / 3
        self.by_name = {name: {"label": label, "id": f"id{label}"} for name, label in self.samples}
        self.folder = Path(root)
        self.classes = ("cat", "dog", "cow")
        self.num_classes = 3
        self.is_train = True

    def __len__(self):
        return len(self.samples)


class Pairs(Base):
    def __getitem__(self, index):
        path, label = self.samples[index]
        image = Image.open(os.path.join(self.root, path)).convert("RGB")
        if self.transform is not None:
            image = self.transform(image)
        return image, label


class Tutorial(Base):
    def __getitem__(self, idx):
        if torch.is_tensor(idx):
            idx = idx.tolist()
        img_path = os.path.join(self.root, self.names[idx])
        image = Image.open(img_path).convert("RGB")
        label = self.labels[idx]
        if self.transform:
            image = self.transform(image)
        if self.target_transform:
            label = self.target_transform(label)
        return image, label


class Dicts(Base):
    """Samples are dicts."""

    def __getitem__(self, i):
        name = self.names[i]
        img = Image.open(self.folder / name)
        img = img.convert("RGB")
        sample = {"image": self.transform(img), "label": torch.tensor(self.by_name[name]["label"])}
        sample["name"] = f"{name}-{i:03d}"
        return sample


class Helpers(Base):
    def load(self, i):
        return rgb_loader(self.root + "/" + self.names[i])

    def get_label(self, i):
        return int(self.labels[i])

    def __getitem__(self, i):
        img, label = self.load(i), self.get_label(i)
        if self.is_train and self.transform is not None:
            img = self.transform(img)
        return {"x": img, "y": (label, float(self.tensor[i]))}


class Formats(Base):
    def __getitem__(self, index):
        assert index < len(self)
        path = "{}/{}".format(self.root, self.samples[index][0])  # noqa: UP032
        target = self.samples[index][1] * 2 + 1
        img = Image.open("%s" % path).convert("RGB")  # noqa: UP031
        img = self.transform(img)
        return img, target, str(index), self.tensor[index]


class Alone(Base):
    def __getitem__(self, index):
        return self.transform(Image.open(str(self.folder / self.names[index])).convert("RGB"))


class Lists(Base):
    def __getitem__(self, index):
        name = self.names[index].split(".")[0]
        img = rgb_loader(os.path.join(self.root, name + ".jpg"))
        one_hot = torch.as_tensor([self.labels[index], self.num_classes])
        return [self.transform(img), one_hot, self.classes[self.samples[index][1]]]


SEEN = [Pairs, Tutorial, Dicts, Helpers, Formats, Alone, Lists]
