"""Functions for set_transform() and with_transform() of Hugging Face's datasets: those whose source says all,
and those that the engine must leave alone. Not a test's module, whose functions pytest changes.
"""

import functools
import random

PLAIN = None  # a transform, set by the tests
TRAINING = True
COUNTER = {"calls": 0}
SEEN = []


class Arguments:  # as transformers' HfArgumentParser makes them
    image_column_name = "image"
    label_column_name = "label"


def run_image_classification(_train_transforms, data_args=Arguments()):
    """As transformers/examples/pytorch/image-classification/run_image_classification.py has them."""

    def train_transforms(example_batch):
        """Apply _train_transforms across a batch."""
        example_batch["pixel_values"] = [
            _train_transforms(pil_img.convert("RGB"))
            for pil_img in example_batch[data_args.image_column_name]
        ]
        return example_batch

    return train_transforms


def deleted(examples):
    examples["pixel_values"] = [PLAIN(image.convert("RGB")) for image in examples["image"]]
    del examples["image"]
    return examples


def popped(examples):
    examples["pixel_values"] = [PLAIN(image.convert("RGB")) for image in examples.pop("image")]
    return examples


def in_place(batch):
    batch["image"] = [PLAIN(x.convert("RGB")) for x in batch["image"]]
    batch.pop("text")
    return batch


def renamed(batch):
    images = [x.convert("RGB") for x in batch["image"]]
    inputs = {"labels": batch["label"]}
    inputs["x"] = [PLAIN(x) for x in images]
    return inputs


def chosen(examples):
    if TRAINING:
        made = [PLAIN(image.convert("RGB")) for image in examples["image"]]
    else:
        made = [PLAIN(image) for image in examples["image"]]
    return {"pixel_values": made, "text": examples["text"], "label": examples["label"]}


def bound(examples, transform, key):
    return {key: [transform(image.convert("RGB")) for image in examples["image"]]}


class Preprocess:
    def __init__(self, transform):
        self.transform = transform

    def __call__(self, examples):
        examples["pixel_values"] = [self.transform(image.convert("RGB")) for image in examples["image"]]
        del examples["image"], examples["text"]
        return examples


def known(transform):
    """name -> function; `transform` is also PLAIN."""
    return {
        "transformers": run_image_classification(transform),
        "deleted": deleted,
        "popped": popped,
        "in_place": in_place,
        "renamed": renamed,
        "chosen": chosen,
        "bound": functools.partial(bound, transform=transform, key="x"),
        "object": Preprocess(transform),
        "lambda": lambda e: {"y": e["label"], "x": [transform(i.convert("RGB")) for i in e["image"]]},
    }


def a_coin_for_each(examples):
    images = [image.convert("RGB") if random.random() < 0.5 else image for image in examples["image"]]
    return {"image": [PLAIN(image) for image in images]}


# ---------------------------------------------------------------- what else may happen


def counts(examples):
    COUNTER["calls"] += 1
    return deleted(examples)


def counts_in_a_global(examples):
    global TRAINING
    TRAINING = not TRAINING
    examples["pixel_values"] = [PLAIN(image.convert("RGB")) for image in examples["image"]]
    return examples


def writes_down(examples):
    SEEN.append(1)
    examples["pixel_values"] = [PLAIN(image.convert("RGB")) for image in examples["image"]]
    return examples


def calls_another(examples):
    return popped(examples)


def leaves_out(examples):
    [PLAIN(image.convert("RGB")) for image in examples["image"]]
    examples["pixel_values"] = [PLAIN(image.convert("RGB")) for image in examples["image"]]
    return examples


def one_coin_for_all(examples):
    p = random.random()
    examples["image"] = [PLAIN(i) if p < 0.5 else PLAIN(i.convert("RGB")) for i in examples["image"]]
    return examples


def one_coin_inside_a_list(examples):
    coins = [random.random()]
    examples["image"] = [PLAIN(i.convert("RGB") if coins[0] < 0.5 else i) for i in examples["image"]]
    return examples


def by_size(examples):
    examples["image"] = [PLAIN(i) if i.width > 80 else PLAIN(i.convert("RGB")) for i in examples["image"]]
    return examples


def by_label(examples):
    if examples["label"][0]:
        examples["image"] = [PLAIN(i.convert("RGB")) for i in examples["image"]]
    return examples


def with_labels(examples):
    pairs = zip(examples["image"], examples["label"])
    examples["image"] = [PLAIN(i.convert("RGB")) for i, label in pairs]
    return examples


def filters(examples):
    examples["image"] = [PLAIN(i.convert("RGB")) for i in examples["image"] if i]
    return examples


def only_the_first(examples):
    first = examples["image"][0]
    examples["image"] = [PLAIN(first.convert("RGB")) for i in examples["image"]]
    return examples


def reverses(examples):
    examples["image"] = [PLAIN(i.convert("RGB")) for i in examples["image"][::-1]]
    return examples


def changes_labels(examples):
    examples["label"] = [label + 1 for label in examples["label"]]
    examples["image"] = [PLAIN(i.convert("RGB")) for i in examples["image"]]
    return examples


def two_columns(examples):
    examples["a"] = [PLAIN(i.convert("RGB")) for i in examples["image"]]
    examples["b"] = [PLAIN(i.convert("RGB")) for i in examples["image"]]
    return examples


def another_column(examples):
    examples["image"] = [PLAIN(i.convert("RGB")) for i in examples["picture"]]
    return examples


def no_pictures(examples):
    return {"label": examples["label"]}


def returns_a_list(examples):
    return [PLAIN(i.convert("RGB")) for i in examples["image"]]


def in_any_mode(examples):
    examples["image"] = [PLAIN(i) for i in examples["image"]]
    return examples


UNKNOWN = [
    *(counts, counts_in_a_global, writes_down, calls_another, leaves_out, one_coin_for_all),
    *(one_coin_inside_a_list, by_size, by_label, with_labels, filters, only_the_first, reverses),
    *(changes_labels, two_columns, another_column, no_pictures, returns_a_list, in_any_mode),
]
