"""WebDataset: names of shards, and arguments that mean nothing."""

from __future__ import annotations

import pytest
from millrace.datasets import WebDataset
from python_code import run_code
from shard_data import write_tar

wds = pytest.importorskip("webdataset")


@pytest.mark.parametrize(
    "text",
    (
        "a {a,b} x{a,b}y{1,2} {0..3} {08..11} {3..1} {0..9..4} {a..e} {e..a..2} {a,{b,c}d} {{a,b},c} "
        "{a} {} { } {a,b a,b} {,x} {a,} {1..} {-2..2} {001..3} \\{a,b\\} {a\\,b,c} {{0..1}} "
        "x{y{0..2},z}.tar {00..02}/{a,b}-{1..2}.tar ${a}{1,2} {a,b}{ {-01..01} {1..3..0} {a,b}} {{a,b}"
    ).split(),
)
def test_braces_expand_as_the_packages(text):
    braceexpand = pytest.importorskip("braceexpand")
    from millrace.datasets.webdataset.urls import expand_braces

    try:
        expected = list(braceexpand.braceexpand(text))
    except braceexpand.UnbalancedBracesError:
        return
    assert list(expand_braces(text)) == expected


@pytest.mark.parametrize(
    "wrong, message",
    [
        (lambda url: WebDataset([]), "no shards"),
        (lambda url: WebDataset(url, mode="x"), "mode='x'"),
        (lambda url: WebDataset(url, nodesplitter="x"), "nodesplitter='x'"),
        (lambda url: WebDataset("folder/"), "not by a specification or folder"),
        (lambda url: WebDataset(url).decode("rgb9"), "decode\\('rgb9'\\) is unknown"),
        (lambda url: WebDataset(url).decode(allow_pickle="pyd"), "give True, or a list"),
        (lambda url: WebDataset(url).map_dict(), "needs a function"),
        (lambda url: WebDataset(url).shuffle(5, rng=1), "give seed="),
        (lambda url: WebDataset(url).rsample(2), "probability"),
        (lambda url: WebDataset(url).batched(0), "1 or more"),
        (lambda url: WebDataset(url).slice(-1), "0 or more"),
        (lambda url: WebDataset(url).to_tuple("a", "b c"), "has a space"),
    ],
)
def test_arguments_that_mean_nothing(wrong, message):
    with pytest.raises(ValueError, match=message):
        wrong("x.tar")


def test_nothing_but_ours_is_imported(tmp_path):
    """The package webdataset is not needed."""
    url = write_tar(tmp_path / "a.tar", [("x.cls", b"1")])
    code = (
        "import sys; sys.modules['webdataset'] = sys.modules['braceexpand'] = None\n"
        f"from millrace.datasets import WebDataset; print(list(WebDataset({url!r}).decode().to_tuple('cls')))"
    )
    assert run_code(code).stdout == "[(1,)]\n"
