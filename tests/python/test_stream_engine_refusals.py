"""Which streams stay in Python, and what explain() says."""

from __future__ import annotations

import re

import pytest
from millrace import DataLoader
from millrace.datasets import WebDataset
from stream_cases import FIXED, folder, images  # noqa: F401
from test_stream_engine import dicts

REFUSALS = {
    "map": (lambda d: images(d).map(tuple), {}, "Map is Python code for whole samples; use map_tuple"),
    "select": (
        lambda d: images(d).select(bool),
        {},
        r"select\(\) comes behind to_tuple\(\), where it would see pictures",
    ),
    "compose": (lambda d: images(d).compose(iter), {}, "is Python code for whole samples"),
    "no decode": (lambda d: d.to_tuple("jpg", "cls"), {}, r'no picture is decoded, .* use decode\("pil"\)'),
    "decoded twice": (lambda d: images(d.decode("pil")), {}, r"two decode\(\) stages"),
    "torchrgb": (
        lambda d: d.decode("torchrgb").to_tuple("jpg", "cls"),
        {},
        r'natively by decode\("pil"\) alone, and this is decode',
    ),
    "only": (lambda d: d.decode("pil", only="jpg").to_tuple("jpg", "cls"), {}, r'by decode\("pil"\) alone'),
    "dicts": (lambda d: d.decode("pil"), {}, r"samples should be tuples with one picture: use to_tuple"),
    "dicts renamed late": (
        lambda d: dicts(d).rename(picture="image"),
        {},
        "samples should be tuples with one picture",
    ),
    "dicts chosen late": (lambda d: dicts(d).to_dict("cls"), {}, "samples should be tuples with one picture"),
    "select behind": (lambda d: dicts(d).select(bool), {}, r"select\(\) comes behind the pictures' function"),
    "no picture": (lambda d: d.decode("pil").to_tuple("txt", "cls"), {}, "tuples with one picture"),
    "two pictures": (lambda d: d.decode("pil").to_tuple("jpg", "png"), {}, "tuples with one picture"),
    "perhaps a picture": (
        lambda d: d.decode("pil").to_tuple("jpg;txt", "cls"),
        {},
        "'jpg;txt' may be a picture or something else",
    ),
    "bytes changed": (
        lambda d: d.map_dict(jpg=len).decode("pil").to_tuple("jpg", "cls"),
        {},
        r"changed before decode\(\), as bytes",
    ),
    "two functions": (
        lambda d: images(d).map_tuple(FIXED),
        {},
        "two functions; make one of them, by Compose",
    ),
    "renamed first": (
        lambda d: d.rename(image="jpg").decode("pil").to_tuple("image", "cls"),
        {},
        r"renamed before decode\(\)",
    ),
    "tuples first": (
        lambda d: d.decode("pil").map_tuple(FIXED).to_tuple("jpg", "cls"),
        {},
        r"map_tuple\(\) comes before to_tuple\(\)",
    ),
    "behind batched": (
        lambda d: images(d).batched(4).shuffle(3),
        {"batch_size": None},
        r"behind batched\(\); the engine batches last",
    ),
    "collation_fn": (
        lambda d: images(d).batched(4, collation_fn=list),
        {"batch_size": None},
        r"batched\(\) has a collation_fn",
    ),
    "batches of batches": (
        lambda d: images(d).batched(4),
        {"batch_size": 2},
        "batches of these; give the loader batch_size=None",
    ),
    "single samples": (
        lambda d: images(d),
        {"batch_size": None},
        r"single samples; give a batch_size, or use batched\(\)",
    ),
    "on_error": (
        lambda d: images(d),
        {"on_error": "skip"},
        "takes other indices of a map-style dataset, and a stream has none",
    ),
    "transform": (lambda d: images(d, abs), {}, "transform: python"),
    "collate_fn": (lambda d: images(d), {"collate_fn": list}, "collate_fn: python"),
    "worker_init_fn": (
        lambda d: images(d),
        {"worker_init_fn": print, "num_workers": 1},
        "worker_init_fn: python",
    ),
}


# The pictures' function is known: its steps are native where samples are made (test_stream_prefix.py)
KNOWN = {
    *("map", "compose", "select", "select behind", "two functions", "dicts renamed late"),
    *("dicts chosen late", "behind batched", "collation_fn", "batches of batches", "single samples"),
    *("collate_fn", "on_error"),
}


@pytest.mark.parametrize("name", REFUSALS)
def test_explain_says_why_not(folder, name):
    make, options, reason = REFUSALS[name]
    dataset = make(WebDataset(f"{folder}/s-0.tar"))
    text = str(DataLoader(dataset, **{"batch_size": 2, **options}).explain())
    assert re.search(reason, text), text
    assert ("native —" in text) == (name in KNOWN)


def test_a_subclass_is_left_to_python(folder):
    class Mine(WebDataset):
        def __iter__(self):
            return iter(())

    loader = DataLoader(images(Mine(f"{folder}/s-0.tar")), batch_size=2)
    assert "Mine overrides __iter__ of WebDataset; use WebDataset itself" in str(loader.explain())
