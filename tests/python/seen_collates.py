"""Functions of a batch of samples: MixUp in the forms that scripts give it, others, and what looks so."""

import functools
import random

import torch
from torch.utils.data import default_collate


def mix(images, labels):
    """MixUp whose draws are fixed."""
    return 0.3 * images + 0.7 * images.roll(1, 0), torch.stack([labels, labels.roll(1)], 1)


def mix_list(batch):
    return list(mix(*batch))


def by_star(batch):
    return mix(*default_collate(batch))


def by_list(batch):
    return mix_list(default_collate(batch))


def by_module(batch):
    return mix(*torch.utils.data.default_collate(batch))


def by_dataloader_module(batch):
    return mix(*torch.utils.data.dataloader.default_collate(batch))


def in_two_steps(batch):
    batch = default_collate(batch)
    return mix(*batch)


def with_names(batch):
    images, labels = default_collate(batch)
    images, labels = mix(images, labels)
    return images, labels


def with_names_at_once(batch):
    images, labels = default_collate(batch)
    return mix(images, labels)


def with_more_names(batch):
    """The names of a batch before and behind."""
    collated = default_collate(batch)
    (images, labels) = collated
    mixed: tuple = mix(images, labels)
    images, labels = mixed
    return images, labels


def with_a_switch(batch, transform=mix, off=False):
    if off or transform is None:
        return default_collate(batch)
    return transform(*default_collate(batch))


def with_argument(batch, transform):
    return transform(*default_collate(batch))


def closure(transform):
    def collate_fn(batch):
        return transform(*default_collate(batch))

    return collate_fn


class Collator:
    def __init__(self):
        self.transform = mix

    def __call__(self, batch):
        return self.transform(*default_collate(batch))

    def method(self, batch):
        return self.transform(*default_collate(batch))


OF_THE_BATCH = {
    "star": by_star,
    "list": by_list,
    "module": by_module,
    "dataloader_module": by_dataloader_module,
    "two_steps": in_two_steps,
    "names": with_names,
    "names_at_once": with_names_at_once,
    "more_names": with_more_names,
    "switch": with_a_switch,
    "one_of_a_line": [lambda batch: default_collate(batch), lambda batch: mix(*default_collate(batch))][1],
    "lambda": lambda batch: mix(*default_collate(batch)),
    "closure": closure(mix),
    "partial": functools.partial(with_argument, transform=mix),
    "object": Collator(),
    "method": Collator().method,
}


def sorted_rows(batch):
    return default_collate(sorted(batch, key=lambda sample: -sample[1]))


def as_dict(batch):
    return {
        "pixels": torch.stack([image for image, _ in batch]),
        "labels": [label for _, label in batch],
        "n": len(batch),
    }


def images_only(batch):
    return torch.stack([image.mul_(2) for image, _ in batch])  # in place: rows are the function's own


def untouched(batch):
    return batch


def columns(batch):
    return tuple(zip(*batch))


OF_SAMPLES = {
    "sorted": sorted_rows,
    "dict": as_dict,
    "in_place": images_only,
    "samples": untouched,
    "made_list": list,
    "zip": columns,
}


mine = closure(mix)


def other_default(batch, default_collate=as_dict):
    return mix_list(default_collate(batch))


def more(batch):
    print(end="")
    return mix(*default_collate(batch))


def twice(batch):
    left = mix(*default_collate(batch))  # it may draw
    images, labels = default_collate(batch)
    return mix(images, labels) or left


def first_left(batch):
    _ = mix(*default_collate(batch))
    return default_collate(batch)


def of_two(batch):
    images, _ = default_collate(batch)
    _, labels = default_collate(batch)
    return mix(images, labels)


def turned(batch):
    images, labels = default_collate(batch)
    return mix_list((labels, images))


def turned_behind(batch):
    images, labels = default_collate(batch)
    images, labels = mix(images, labels)
    return labels, images


def a_part(batch):
    images, labels = default_collate(batch)
    return mix(images, labels)[0]


def not_mixed(batch):
    images, labels = default_collate(batch)
    return images, labels


def by_chance(batch):
    if random.random() < 0.5:
        return mix(*default_collate(batch))
    return default_collate(batch)


ONLY_LOOK_LIKE_IT = [
    lambda batch: mix(*mine(batch)),
    lambda batch: mix(*default_collate(batch[:2])),
    lambda batch: mix(*default_collate(batch), **{}),
    other_default,
    more,
    twice,
    first_left,
    of_two,
    turned,
    turned_behind,
    a_part,
    not_mixed,
    by_chance,
]
