"""Documents that tests of PackedSequences share."""

from __future__ import annotations

import numpy as np
from packing_data import documents

LENGTHS = np.random.default_rng(0).lognormal(2.5, 1.0, 400).astype(int).tolist()


DOCS = documents(LENGTHS)


def flat(docs):
    return np.concatenate(docs), np.cumsum([0, *map(len, docs)])


def rows_of(dataset):
    return [dataset[i] for i in range(len(dataset))]
