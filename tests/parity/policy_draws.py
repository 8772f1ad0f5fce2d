"""How the tests of augmentation policies compare what is drawn: by chi-square and Kolmogorov and Smirnov."""

import math
from collections import Counter

import numpy as np


def most_chi_square(degrees):
    """The chi-square of so many degrees of freedom exceeded once in 30,000 times (Wilson and Hilferty)."""
    share = 2 / (9 * degrees)
    return degrees * (1 - share + 4 * math.sqrt(share)) ** 3


def same_counts(mine, theirs):
    """Two lists of as many outcomes, drawn alike. Those that hardly occur count as one."""
    assert len(mine) == len(theirs)
    a, b = Counter(mine), Counter(theirs)
    rare = {key for key in a.keys() | b.keys() if a[key] + b[key] < 10}
    pairs = [(a[key], b[key]) for key in (a.keys() | b.keys()) - rare]
    pairs.append((sum(a[key] for key in rare), sum(b[key] for key in rare)))
    found = sum((x - y) ** 2 / (x + y) for x, y in pairs if x + y)
    assert len(pairs) > 2 and found < most_chi_square(len(pairs) - 1), (a, b)


def same_distribution(mine, theirs):
    """Of numbers, at a level of 1e-4."""
    values = np.sort(np.concatenate([mine, theirs]))
    below = [np.searchsorted(np.sort(x), values, "right") / len(x) for x in (mine, theirs)]
    share = (len(mine) + len(theirs)) / (len(mine) * len(theirs))
    assert np.abs(below[0] - below[1]).max() < math.sqrt(-math.log(1e-4 / 2) / 2 * share)


def drawn(pipeline, draws, size=(331, 200), place=0):
    """Of each draw, its operations as tuples (kind, value)."""
    decided = (pipeline.draw(*size, 5, 1, i)[place] for i in range(draws))
    return [tuple((op["kind"], op["value"]) for op in decision["ops"]) for decision in decided]
