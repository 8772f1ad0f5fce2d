"""Signed URLs: one name for an object however often it is signed; no signature is shown or kept."""

from __future__ import annotations

from pathlib import Path

import pytest
from fault_proxy import FaultProxy
from millrace import stores
from millrace._common.signed_urls import is_signed, unsigned
from millrace.datasets import WebDataset
from millrace.stores import DiskCache
from shard_data import numbered_shards

S3 = (
    "X-Amz-Algorithm=AWS4-HMAC-SHA256&X-Amz-Credential=AKIA%2F2026&X-Amz-Date={}&X-Amz-Expires=60"
    "&X-Amz-Signature=SECRET{}"
)


@pytest.mark.parametrize(
    "url, name",
    [
        ("https://b.s3.amazonaws.com/a.tar?" + S3.format(1, 1), "https://b.s3.amazonaws.com/a.tar"),
        ("https://h/a.tar?versionId=3&" + S3.format(1, 1) + "&part=2", "https://h/a.tar?versionId=3&part=2"),
        (
            "https://storage.googleapis.com/b/a.tar?X-Goog-Signature=f00&x-goog-date=1",
            "https://storage.googleapis.com/b/a.tar",
        ),
        ("https://h/a.tar?Expires=1&Signature=x%2By&Key-Pair-Id=K&v=2", "https://h/a.tar?v=2"),
        ("https://h/a.tar?Expires=1&v=2", "https://h/a.tar?Expires=1&v=2"),
        (
            "https://x.blob.core.windows.net/c/a.tar?sv=2024&st=1&se=2&sr=b&sp=r&sig=abc%3D",
            "https://x.blob.core.windows.net/c/a.tar",
        ),
        ("https://h/get?sp=1&key=a.tar", "https://h/get?sp=1&key=a.tar"),
        ("https://h/get?file=a.tar&token=SECRET", "https://h/get?file=a.tar"),
        ("https://user:SECRET@h/a@b.tar", "https://h/a@b.tar"),
        ("s3://bucket/a.tar", "s3://bucket/a.tar"),
        ("/data/what?token=is/a.tar", "/data/what?token=is/a.tar"),
    ],
)
def test_names(url: str, name: str) -> None:
    assert unsigned(url) == name == unsigned(name)
    assert is_signed(url) == any(sign in url.lower() for sign in ("-signature=", "&signature=", "sig="))


@pytest.fixture
def signed(tmp_path: Path):
    """(store, a function from a number to the URLs that are signed with it): two shards, for GET only."""
    pytest.importorskip("obstore", reason="obstore is not installed: pip install obstore")
    data = [Path(path).read_bytes() for path in numbered_shards(tmp_path / "shards", [3, 2])]
    objects = {
        f"/s{i}.tar?{S3.format(number, number)}": shard for number in (1, 2) for i, shard in enumerate(data)
    }
    with FaultProxy(objects) as store:
        store.etags = {path: f'"{path[2]}"' for path in objects}
        store.faults = lambda request: (
            403 if request.method == "HEAD" or request.path not in objects else None
        )
        yield (
            store,
            lambda number: [store.url(path[1:]) for path in objects if path.endswith(f"SECRET{number}")],
        )


def test_signed_anew_it_is_the_same_object(signed, tmp_path: Path) -> None:
    store, urls = signed
    cache = DiskCache(tmp_path / "cache")
    for number, sent in ((1, True), (2, False)):
        before = store.bytes_sent
        with stores.open_shards(urls(number), cache=cache) as shards:
            for path, (_, source) in zip(store.objects, shards):
                assert source.read_at(0, source.size) == store.objects[path]
                assert source.name == store.url(path[1:7])
        assert (store.bytes_sent - before > 1000) == sent, (
            "the second time only one byte of each, to see whether they are the same"
        )
    assert cache.stats()["entries"] == 2 and cache.stats()["hit_rate"] == 0.5
    kept = b"".join(path.read_bytes() for path in (tmp_path / "cache").iterdir())
    assert b"SECRET" not in kept and b"X-Amz" not in kept


def test_samples_and_messages_show_no_signature(
    signed, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    store, urls = signed
    shown = []
    for dataset in (
        WebDataset(urls(1), verbose=True),
        WebDataset(urls(1)).indexed(index_dir=str(tmp_path / "index")),
    ):
        samples = [dataset[i] for i in range(5)] if hasattr(dataset, "key") else list(dataset)
        assert [sample["__url__"] for sample in samples] == [store.url("s0.tar")] * 3 + [
            store.url("s1.tar")
        ] * 2
        shown.append(repr(dataset))
    assert len(WebDataset(urls(2)).indexed(index_dir=str(tmp_path / "index"))) == 5
    assert len(list((tmp_path / "index").iterdir())) == 2, "one index of each, whoever signed it"
    shown.append(WebDataset(urls(1)).describe_split(2))
    for path in list(store.objects):
        store.objects[path] = store.objects[path][:300]
    for broken in (urls(1), [url.replace("s0", "none") for url in urls(1)]):
        with pytest.raises(OSError) as caught:
            list(WebDataset(broken).decode())
        shown += [str(caught.value), repr(caught.value), str(caught.value.__cause__)]
    with pytest.raises(ValueError) as caught:
        WebDataset("https://user:SECRET@host?token=SECRET")
    shown += [str(caught.value), *capsys.readouterr()]
    assert not [text for text in shown if "SECRET" in text], shown
