"""Trains on class folders with timm's datasets, loaders and mixing, as its training script arranges them."""

import argparse

import torch
from script_parts import Training
from timm.data import FastCollateMixup, Mixup, create_dataset, create_loader
from timm.data.distributed_sampler import RepeatAugSampler

parser = argparse.ArgumentParser()
parser.add_argument("data")
parser.add_argument("--aa")
parser.add_argument("--reprob", default=0.0, type=float)
parser.add_argument("--remode", default="pixel")
parser.add_argument("--mixup", default=0.0, type=float)
parser.add_argument("--no-prefetcher", action="store_true")
parser.add_argument("--multi-epochs", action="store_true")
parser.add_argument("--repeated", action="store_true")


def main():
    args = parser.parse_args()
    torch.manual_seed(3)
    training = create_dataset("", root=args.data, split="train", is_training=True, class_map="")
    testing = create_dataset("", root=args.data, split="val", is_training=False, class_map="")
    classes = len(training.reader.class_to_idx)
    collate_fn = mixup = None
    if args.mixup:
        options = {"mixup_alpha": args.mixup, "cutmix_alpha": 1.0, "num_classes": classes}
        if args.no_prefetcher:
            mixup = Mixup(**options)
        else:
            collate_fn = FastCollateMixup(**options)
    common = {
        "input_size": (3, 32, 32),
        "batch_size": 4,
        "use_prefetcher": not args.no_prefetcher,
        "num_workers": 2,
        "pin_memory": False,
        "device": torch.device("cpu"),
    }
    loader = create_loader(
        training,
        is_training=True,
        re_prob=args.reprob,
        re_mode=args.remode,
        auto_augment=args.aa,
        interpolation="random",
        collate_fn=collate_fn,
        use_multi_epochs_loader=args.multi_epochs,
        worker_seeding="all",
        **common,
    )
    if args.repeated:  # as under ranks
        sampler = RepeatAugSampler(training, num_replicas=2, rank=1, num_repeats=3)
        inner = torch.utils.data.DataLoader(
            training, 4, sampler=sampler, num_workers=2, collate_fn=loader.loader.collate_fn, drop_last=True
        )
        loader.loader = inner
    testing_loader = create_loader(testing, is_training=False, interpolation="bicubic", **common)
    run = Training(classes)
    for epoch in range(2):
        if hasattr(loader.sampler, "set_epoch"):
            loader.sampler.set_epoch(epoch)
        for input, target in loader:
            run.step(*((input, target) if mixup is None else mixup(input, target)))
        for input, target in testing_loader:
            run.test(input, target)
    run.report()


if __name__ == "__main__":
    main()
