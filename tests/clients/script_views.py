"""Trains on several crops of each picture as DINO's script does: an object makes them, a sampler of ranks
orders them, and the teacher sees the first two.
"""

import argparse

import torch
from script_parts import Training, join_group
from torch.utils.data import DataLoader, DistributedSampler
from torchvision import datasets
from view_scripts import DataAugmentationDINO


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--data_path", required=True)
    parser.add_argument("--local_crops_number", type=int, default=4)
    parser.add_argument("--num_workers", type=int, default=2)
    args = parser.parse_args()
    torch.manual_seed(3)
    join_group()
    transform = DataAugmentationDINO((0.4, 1.0), (0.05, 0.4), args.local_crops_number)
    dataset = datasets.ImageFolder(args.data_path, transform=transform)
    sampler = DistributedSampler(dataset, shuffle=True)
    loader = DataLoader(
        dataset,
        sampler=sampler,
        batch_size=4,
        num_workers=args.num_workers,
        pin_memory=True,
        drop_last=True,
    )
    student, teacher = Training(8), Training(8)
    for epoch in range(2):
        loader.sampler.set_epoch(epoch)
        for images, labels in loader:
            with torch.no_grad():
                targets = teacher.model(torch.cat(images[:2])).argmax(1)
            student.step(torch.cat(images[2:4]), targets)
            student.notes["trained"][-1] = labels.tolist()
            student.notes["shapes"][-1] = [list(image.shape) for image in images]
    torch.distributed.destroy_process_group()
    student.report()


if __name__ == "__main__":
    main()
