"""Feeds of several kinds for the tests of drift: `draw(rng, rows) -> batch`, and what can be done to them."""

import numpy as np
import torch


class Feed(torch.utils.data.IterableDataset):
    """Batches drawn one after another; from batch `since` on, `change(batch, rng)` is applied."""

    def __init__(self, draw, rows, batches, seed, change=None, since=0):
        self.draw, self.rows, self.batches, self.seed, self.change, self.since = (
            draw,
            rows,
            batches,
            seed,
            change,
            since,
        )

    def __iter__(self):
        rng = np.random.default_rng(self.seed)
        for number in range(self.batches):
            batch = self.draw(rng, self.rows)
            yield self.change(batch, rng) if self.change and number >= self.since else batch

    def __len__(self):
        return self.batches


def pictures_uint8(rng, rows):
    """Smooth pictures whose brightness and colour differ from one to the next, as photos' do."""
    light = rng.normal(0, 30, (rows, 1, 1, 1)) + rng.normal(0, 8, (rows, 3, 1, 1))
    pixels = np.array([124, 116, 104]).reshape(1, 3, 1, 1) + light + rng.normal(0, 45, (rows, 3, 12, 12))
    labels = rng.choice(10, rows)
    return [torch.from_numpy(pixels.clip(0, 255).astype(np.uint8)), torch.from_numpy(labels)]


def pictures_float(rng, rows):
    images, labels = pictures_uint8(rng, rows)
    return {"image": images.float() / 255, "label": labels}


def table_heavy(rng, rows):
    """Columns: normal, log-normal, Cauchy, mostly zero, constant, far from zero."""
    columns = [
        rng.normal(5, 2, rows),
        rng.lognormal(0, 2, rows),
        rng.standard_cauchy(rows),
        # fmt: skip
        rng.exponential(1, rows) * (rng.random(rows) < 0.05),
        np.full(rows, 3.0),
        1.7e9 + rng.normal(0, 1000, rows),
    ]
    return {
        "x": torch.from_numpy(np.stack(columns, 1)),
        "y": torch.from_numpy(rng.normal(0, 1, rows)).float(),
    }


def tokens(rng, rows, mean_length=40):
    """Ids as frequent as words are, rows filled up with 0, and the mask."""
    lengths = np.clip(rng.poisson(mean_length, rows), 1, 64)
    ids = np.minimum(rng.zipf(1.3, (rows, 64)), 30_000)
    mask = np.arange(64) < lengths[:, None]
    return {
        "input_ids": torch.from_numpy(np.where(mask, ids, 0)),
        "attention_mask": torch.from_numpy(mask.astype(np.int64)),
    }


def imbalanced(rng, rows):
    """Twelve classes, the most frequent 600 times as frequent as the rarest."""
    shares = 0.5 ** np.arange(12.0) + 0.0005
    labels = rng.choice(12, rows, p=shares / shares.sum())
    texts = ["x" * n for n in rng.poisson(30, rows)]
    return [
        torch.from_numpy(rng.normal(labels[:, None] * 0.1, 1, (rows, 8))).float(),
        torch.from_numpy(labels),
        texts,
    ]


STREAMS = {
    "pictures_uint8": (pictures_uint8, 16),
    "pictures_float": (pictures_float, 16),
    "table_heavy": (table_heavy, 64),
    "tokens": (tokens, 16),
    "imbalanced": (imbalanced, 32),
    "imbalanced_small": (imbalanced, 3),
    "table_small": (table_heavy, 4),
}


def changed(batch, name, value):
    if isinstance(batch, dict):
        return {**batch, name: value}
    return [value if str(i) == name else part for i, part in enumerate(batch)]


def of(batch, name):
    return batch[name] if isinstance(batch, dict) else batch[int(name)]


def brighter(batch, rng):
    return changed(batch, "0", (batch[0].int() + 25).clamp(0, 255).to(torch.uint8))


def swapped(batch, rng):
    name = "image" if isinstance(batch, dict) else "0"
    return changed(batch, name, of(batch, name).flip(1))


def other_balance(batch, rng):
    """A third of the labels become one class."""
    name = "label" if isinstance(batch, dict) else "1"
    labels = of(batch, name)
    return changed(
        batch,
        name,
        torch.where(torch.from_numpy(rng.random(len(labels)) < 0.33), torch.full_like(labels, 4), labels),
    )


def shifted_column(batch, rng):
    x = batch["x"].clone()
    x[:, 1] *= 2.5
    return {**batch, "x": x}


def some_nan(batch, rng):
    name = "x" if isinstance(batch, dict) and "x" in batch else "image" if isinstance(batch, dict) else "0"
    x = of(batch, name).clone()
    x[torch.from_numpy(rng.random(len(x)) < 0.1)] = float("nan")
    return changed(batch, name, x)


def shorter(batch, rng):
    return tokens(rng, len(batch["input_ids"]), 30)


def shorter_texts(batch, rng):
    return changed(batch, "2", [text[: len(text) * 2 // 3] for text in batch[2]])


def same_again(batch, rng):
    return changed(batch, "0", batch[0][:1].expand_as(batch[0]).contiguous())


# (feed, change, field, kinds of which one must be reported)
SHIFTS = {
    "brighter": ("pictures_uint8", brighter, "0", {"mean"}),
    "swapped uint8": ("pictures_uint8", swapped, "0", {"channels"}),
    "swapped float": ("pictures_float", swapped, "image", {"channels"}),
    "balance of pictures": ("pictures_float", other_balance, "label", {"classes"}),
    "NaN pictures": ("pictures_float", some_nan, "image", {"nan"}),
    "column": ("table_heavy", shifted_column, "x", {"mean", "histogram"}),
    "column, small batches": ("table_small", shifted_column, "x", {"mean", "histogram"}),
    "NaN rows": ("table_heavy", some_nan, "x", {"nan"}),
    "NaN rows, small batches": ("table_small", some_nan, "x", {"nan"}),
    "lengths": ("tokens", shorter, "input_ids", {"lengths"}),
    "texts": ("imbalanced", shorter_texts, "2", {"mean"}),
    "balance": ("imbalanced", other_balance, "1", {"classes"}),
    "balance, small batches": ("imbalanced_small", other_balance, "1", {"classes"}),
    "one sample again": ("imbalanced", same_again, "", {"duplicates"}),
}
