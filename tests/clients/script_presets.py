"""Trains on class folders as torchvision's reference does: presets that are objects around a Compose, of v1
or v2 and of PIL images or tensors; samples repeated over the ranks; batches mixed in the collate_fn; datasets
kept in a file between runs.
"""

import argparse
import math
import os

import torch
import torchvision
from script_parts import Training
from torch.utils.data.dataloader import default_collate
from torchvision.transforms.functional import InterpolationMode

MEAN, STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)


def library(v2):
    import torchvision.transforms
    import torchvision.transforms.v2

    return torchvision.transforms.v2 if v2 else torchvision.transforms


def conversions(T, args):
    steps = [T.PILToTensor()] if args.backend == "pil" else []
    steps.append(T.ToDtype(torch.float, scale=True) if args.v2 else T.ConvertImageDtype(torch.float))
    return [*steps, T.Normalize(mean=MEAN, std=STD)]


class Train:
    def __init__(self, args, *, size=32, flip=0.5):
        T, bilinear = library(args.v2), InterpolationMode.BILINEAR
        steps = [T.PILToTensor()] if args.backend == "tensor" else []
        steps.append(T.RandomResizedCrop(size, interpolation=bilinear, antialias=True))
        if flip > 0:
            steps.append(T.RandomHorizontalFlip(flip))
        if args.policy == "ra":
            steps.append(T.RandAugment(interpolation=bilinear, magnitude=9))
        elif args.policy == "ta_wide":
            steps.append(T.TrivialAugmentWide(interpolation=bilinear))
        elif args.policy:
            steps.append(T.AutoAugment(policy=T.AutoAugmentPolicy(args.policy), interpolation=bilinear))
        steps += conversions(T, args)
        if args.erase > 0:
            steps.append(T.RandomErasing(p=args.erase))
        if args.v2:
            steps.append(T.ToPureTensor())
        self.transforms = T.Compose(steps)

    def __call__(self, image):
        return self.transforms(image)


class Test:
    def __init__(self, args):
        T = library(args.v2)
        steps = [T.PILToTensor()] if args.backend == "tensor" else []
        steps += [T.Resize(36, interpolation=InterpolationMode.BILINEAR, antialias=True), T.CenterCrop(32)]
        steps += conversions(T, args)
        if args.v2:
            steps.append(T.ToPureTensor())
        self.transforms = T.Compose(steps)

    def __call__(self, image):
        return self.transforms(image)


class Repeated(torch.utils.data.Sampler):
    """Each sample several times, in the shuffled order of an epoch, dealt to the ranks."""

    def __init__(self, dataset, ranks, rank, times):
        self.dataset, self.ranks, self.rank, self.times, self.epoch = dataset, ranks, rank, times, 0

    def __len__(self):
        return math.ceil(len(self.dataset) / self.ranks)

    def __iter__(self):
        generator = torch.Generator().manual_seed(self.epoch)
        order = torch.randperm(len(self.dataset), generator=generator).tolist()
        repeated = [index for index in order for _ in range(self.times)]
        return iter(repeated[self.rank :: self.ranks][: len(self)])

    def set_epoch(self, epoch):
        self.epoch = epoch


def mixes(args, classes):
    """MixUp and CutMix of batches, for a collate_fn."""
    from torchvision.transforms import v2

    return v2.RandomChoice(
        [v2.MixUp(alpha=0.2, num_classes=classes), v2.CutMix(alpha=1.0, num_classes=classes)]
    )


def made_or_kept(folder, make, kept):
    """A dataset, transforms included, out of the file `kept` where there is one."""
    if kept and os.path.exists(kept):
        return torch.load(kept, weights_only=False)[0]
    dataset = torchvision.datasets.ImageFolder(folder, make())
    if kept:
        torch.save((dataset, folder), kept)
    return dataset


def arguments():
    parser = argparse.ArgumentParser()
    parser.add_argument("data")
    parser.add_argument("--workers", default=2, type=int)
    parser.add_argument("--backend", default="pil", choices=["pil", "tensor"])
    parser.add_argument("--v2", action="store_true")
    parser.add_argument("--policy")
    parser.add_argument("--erase", default=0.0, type=float)
    parser.add_argument("--mix", action="store_true")
    parser.add_argument("--repeated", action="store_true")
    parser.add_argument("--kept")
    return parser.parse_args()


def main():
    args = arguments()
    torch.manual_seed(3)
    training = made_or_kept(os.path.join(args.data, "train"), lambda: Train(args), args.kept)
    testing = torchvision.datasets.ImageFolder(os.path.join(args.data, "val"), Test(args))
    sampler = Repeated(training, 2, 1, 3) if args.repeated else torch.utils.data.RandomSampler(training)

    collate_fn = default_collate
    if args.mix:
        mixed = mixes(args, len(training.classes))

        def collate_fn(batch):
            return mixed(*default_collate(batch))

    loader = torch.utils.data.DataLoader(
        training,
        batch_size=4,
        sampler=sampler,
        num_workers=args.workers,
        pin_memory=True,
        collate_fn=collate_fn,
    )
    testing_loader = torch.utils.data.DataLoader(
        testing,
        batch_size=4,
        sampler=torch.utils.data.SequentialSampler(testing),
        num_workers=args.workers,
        pin_memory=True,
    )
    run = Training(len(training.classes))
    for epoch in range(2):
        if args.repeated:
            sampler.set_epoch(epoch)
        for image, target in loader:
            run.step(image, target)
        for image, target in testing_loader:
            run.test(image, target)
    run.report()


if __name__ == "__main__":
    main()
