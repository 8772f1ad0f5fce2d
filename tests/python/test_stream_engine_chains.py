"""Random chains over WebDataset: the engine gives what Python gives, in two epochs, resumed anywhere."""

from __future__ import annotations

import pickle
import random

import pytest
import torch
from millrace import DataLoader
from millrace.datasets import WebDataset, ignore_and_continue, reraise_exception
from stream_cases import FIXED, RANDOM, assert_same, folder, write_shards  # noqa: F401

ROUNDS = 30


@pytest.fixture(scope="module")
def damaged(tmp_path_factory):
    return write_shards(tmp_path_factory.mktemp("damaged"), damaged=(0, 4, 5, 13))


class Chain:
    """A chain drawn by `draw`; `build()` makes it anew."""

    def __init__(self, draw, handler):
        self.transform, self.handler = draw.choice([FIXED, RANDOM]), handler
        self.options = {
            "shardshuffle": draw.random() < 0.5,
            "resampled": draw.random() < 0.2,
            "seed": draw.randrange(3),
        }
        self.ending = draw.choice(["tar", "tar", "tar.gz"])
        self.before, self.behind = self._stages(draw), self._stages(draw)
        self.size, self.partial, self.batched = draw.randrange(1, 9), draw.random() < 0.5, draw.random() < 0.5
        declared = [("with_epoch", draw.randrange(1, 12))]
        self.epoch = declared if self.options["resampled"] else draw.choice([[], [("repeat", 2)], declared])
        if handler is not reraise_exception:  # what is left to Python then is tested elsewhere
            self.behind, self.batched = [], self.batched or self.options["resampled"]
            self.epoch = declared if self.options["resampled"] else []

    @staticmethod
    def _stages(draw):
        def one():
            kind = draw.randrange(4)
            if kind == 0:
                return ("shuffle", draw.randrange(1, 12), draw.randrange(1, 8))
            if kind == 1:
                return ("rsample", draw.choice([0.3, 0.8]))
            if kind == 2:
                return ("slice", draw.randrange(0, 5), draw.randrange(5, 19))
            return ("slice", draw.randrange(0, 3), None, draw.randrange(1, 4))

        return [one() for _ in range(draw.randrange(3))]

    def workers(self, draw):
        """A declared epoch is longer with two workers."""
        return draw.randrange(2 if self.epoch[:1] and self.epoch[0][0] == "with_epoch" else 3)

    def __repr__(self):
        return str({name: value for name, value in vars(self).items() if name != "transform"})

    def build(self, folder):
        data = WebDataset(f"{folder}/s-{{0..3}}.{self.ending}", **self.options)
        for name, *arguments in self.before:
            data = getattr(data, name)(*arguments)
        data = (
            data.decode("pil", handler=self.handler).to_tuple("jpg;png;webp", "cls").map_tuple(self.transform)
        )
        for name, *arguments in self.behind:
            data = getattr(data, name)(*arguments)
        if self.batched:
            data = data.batched(self.size, partial=self.partial)
        for name, *arguments in self.epoch:
            data = getattr(data, name)(*arguments)
        return data

    def loader(self, folder, **options):
        torch.manual_seed(3)
        size, drop = (None, False) if self.batched else (self.size, not self.partial)
        return DataLoader(self.build(folder), batch_size=size, drop_last=drop, **options)


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("handler", [reraise_exception, ignore_and_continue], ids=["whole", "damaged"])
def test_random_chains(folder, damaged, seed, handler):
    draw, native = random.Random(seed), 0
    shards = folder if handler is reraise_exception else damaged
    for _ in range(ROUNDS):
        chain = Chain(draw, handler)
        one = chain.loader(shards, num_workers=chain.workers(draw))
        if "python —" in str(one.explain()):
            assert handler is ignore_and_continue, one.explain()
            continue
        native += 1
        first, second = list(one), list(one)
        try:
            if chain.transform is FIXED:
                two = chain.loader(shards, native="never")
                assert_same(first, list(two))
                assert_same(second, list(two))
            taken = draw.randrange(len(first) + 1)
            three = chain.loader(shards, num_workers=chain.workers(draw))
            iterator = iter(three)
            assert_same([next(iterator) for _ in range(taken)], first[:taken])
            four = chain.loader(shards, num_workers=chain.workers(draw))
            four.load_state_dict(pickle.loads(pickle.dumps(three.state_dict())))
            if taken < len(first):  # else the end may have been seen or not
                assert_same(list(four), first[taken:])
                assert_same(list(four), second)
        except AssertionError as error:
            raise AssertionError(f"{chain!r}: {error}") from error
    assert native >= ROUNDS // 2
