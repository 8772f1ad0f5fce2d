"""Trains on class folders as the imagenet script of pytorch/examples does: transforms written out, samplers
of ranks where there are any, each epoch tested, a loader over a Subset for what the ranks' samplers leave.
"""

import argparse
import os

import torch
from script_parts import Training, join_group
from torch.utils.data import DataLoader, Subset
from torch.utils.data.distributed import DistributedSampler
from torchvision import datasets, transforms

parser = argparse.ArgumentParser()
parser.add_argument("data")
parser.add_argument("-j", "--workers", default=4, type=int)
parser.add_argument("-b", "--batch-size", default=4, type=int)
parser.add_argument("--epochs", default=2, type=int)
parser.add_argument("--distributed", action="store_true")
parser.add_argument("--evaluate", action="store_true")


def load(args):
    normalize = transforms.Normalize(mean=[0.485, 0.456, 0.406], std=[0.229, 0.224, 0.225])
    first = [transforms.RandomResizedCrop(32), transforms.RandomHorizontalFlip()]
    last = [transforms.ToTensor(), normalize]
    training = datasets.ImageFolder(os.path.join(args.data, "train"), transforms.Compose([*first, *last]))
    middle = [transforms.Resize(36), transforms.CenterCrop(32)]
    testing = datasets.ImageFolder(os.path.join(args.data, "val"), transforms.Compose([*middle, *last]))
    return training, testing


def main():
    args = parser.parse_args()
    torch.manual_seed(3)
    if args.distributed:
        join_group()
    training, testing = load(args)
    ranked = DistributedSampler(training) if args.distributed else None
    tested = DistributedSampler(testing, shuffle=False, drop_last=True) if args.distributed else None
    options = {"batch_size": args.batch_size, "num_workers": args.workers, "pin_memory": True}
    loader = DataLoader(training, shuffle=ranked is None, sampler=ranked, **options)
    testing_loader = DataLoader(testing, shuffle=False, sampler=tested, **options)
    run = Training(len(training.classes))
    for epoch in range(0 if args.evaluate else args.epochs):
        if ranked is not None:
            ranked.set_epoch(epoch)
        for i, (images, target) in enumerate(loader):
            run.step(images.to("cpu", non_blocking=True), target.to("cpu", non_blocking=True))
        right = sum(run.test(images, target) for images, target in testing_loader)
        print(
            f"epoch {epoch}: {i + 1} of {len(loader)} batches, {right} of {len(testing_loader.sampler)} right"
        )
    if args.evaluate:
        print(sum(run.test(images, target) for images, target in testing_loader))
    if args.distributed:
        covered = len(tested) * torch.distributed.get_world_size()
        if covered < len(testing):
            rest = DataLoader(Subset(testing, range(covered, len(testing))), shuffle=False, **options)
            for images, target in rest:
                run.test(images, target)
        torch.distributed.destroy_process_group()
    run.report()


if __name__ == "__main__":
    main()
