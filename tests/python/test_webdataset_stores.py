"""WebDataset over shards that are not local: which is opened when, whose error is whose, HTTP."""

from __future__ import annotations

import json
import threading
import types
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from millrace import DataLoader, _core
from millrace.datasets import WebDataset, ignore_and_continue
from millrace.datasets.webdataset import open_shards
from shard_data import numbered_shards
from split_cases import number

# ---------------------------------------------------------------- the seam, with a store that is not one


class Stream:
    """Draws three URLs ahead, and fails at its turn for what is missing, as millrace.stores does."""

    def __init__(self, urls, log):
        self.urls, self.ahead, self.log = iter(urls), [], log

    def __iter__(self):
        return self

    def __next__(self):
        while len(self.ahead) < 3 and (url := next(self.urls, None)) is not None:
            self.ahead.append(url)
        if not self.ahead:
            raise StopIteration
        url = self.ahead.pop(0)
        self.log.append(url)
        return url, _core.open_local_file(url.removeprefix("fake://"), name=url)

    def close(self):
        self.log.append("closed")

    finish = close


@pytest.fixture
def fake_store(monkeypatch):
    log = []
    fake = types.ModuleType("millrace.stores")
    fake.DiskCache = lambda folder, size, since: (folder, size)
    fake.open_shards = lambda urls, **options: log.append(options) or Stream(urls, log)
    monkeypatch.setattr(open_shards, "stores", fake)
    monkeypatch.setattr(open_shards, "locate", lambda url: None)
    return log


def test_each_error_is_its_own_shards(fake_store, tmp_path):
    paths = numbered_shards(tmp_path, [2, 3, 2, 4])
    Path(paths[1]).unlink()
    Path(paths[3]).unlink()
    urls = [f"fake://{path}" for path in paths]
    dataset = WebDataset(
        urls, handler=ignore_and_continue, cache_dir="x", cache_size=5, memory=2**22, store_options={"a": 1}
    )
    samples = list(dataset)
    assert [number(sample) for sample in samples] == [0, 1, 5, 6] and samples[2]["__url__"] == urls[2]
    assert fake_store[0] == {"cache": ("x", 5), "memory": 2**22, "store_options": {"a": 1}}
    assert fake_store[-1] == "closed"
    with pytest.raises(FileNotFoundError):
        list(WebDataset(urls))


def test_places_are_the_same_as_of_files(fake_store, tmp_path):
    urls = [f"fake://{path}" for path in numbered_shards(tmp_path, [3, 0, 4, 5])]

    def make():
        return WebDataset(urls, shardshuffle=True).shuffle(4, initial=2).map(number)

    dataset, states = make(), []
    expected = list(make())
    states = [json.dumps(dataset.state_dict()) for _ in dataset]
    for cut, state in enumerate(states, 1):
        resumed = make()
        resumed.load_state_dict(json.loads(state))
        fake_store.clear()
        assert list(resumed) == expected[cut:]
    mixed = WebDataset([urls[0], urls[2].removeprefix("fake://")]).map(number)
    assert sorted(mixed) == [0, 1, 2, 3, 4, 5, 6]
    endless = WebDataset(urls, resampled=True).map(number).with_epoch(50)
    assert len(list(endless)) == 50


# ---------------------------------------------------------------- the real thing


class Ranges(BaseHTTPRequestHandler):
    """Files of `server.folder`, whole or a range of bytes."""

    protocol_version = "HTTP/1.1"

    def do_HEAD(self):
        self.answer(head=True)

    def do_GET(self):
        self.answer(head=False)

    def answer(self, head):
        path = self.server.folder / self.path.lstrip("/")
        if not path.is_file():
            self.send_response(404)
            self.send_header("Content-Length", "0")
            self.end_headers()
            return
        data, wanted = path.read_bytes(), self.headers.get("Range")
        status, part = 200, data
        if wanted:
            first, _, last = wanted.removeprefix("bytes=").partition("-")
            status, part = 206, data[int(first) : int(last) + 1 if last else None]
        self.send_response(status)
        self.send_header("Content-Length", str(len(part)))
        self.send_header("Accept-Ranges", "bytes")
        self.send_header("ETag", f'"{len(data)}"')
        self.send_header("Last-Modified", "Mon, 01 Jan 2024 00:00:00 GMT")
        if wanted:
            self.send_header("Content-Range", f"bytes {first}-{int(first) + len(part) - 1}/{len(data)}")
        self.end_headers()
        if not head:
            self.wfile.write(part)

    def log_message(self, *_):
        pass


@pytest.fixture
def served(tmp_path):
    pytest.importorskip("millrace.stores")
    pytest.importorskip("obstore")
    numbered_shards(tmp_path / "www", [4, 3, 5])
    server = ThreadingHTTPServer(("127.0.0.1", 0), Ranges)
    server.folder = tmp_path / "www"
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}/n-{{000..002}}.tar", server.folder
    server.shutdown()
    server.server_close()
    thread.join()


@pytest.mark.parametrize("workers", [0, 2])
def test_shards_over_http(served, tmp_path, workers):
    url, folder = served
    local = list(WebDataset(f"{folder}/n-{{000..002}}.tar").map(number))
    for _ in range(2):  # the second time from the cache
        loader = DataLoader(WebDataset(url, cache_dir=tmp_path / "cache").map(number), 4, num_workers=workers)
        assert sorted(n for batch in loader for n in batch.tolist()) == local
    (folder / "n-001.tar").unlink()
    with pytest.raises(FileNotFoundError, match="n-001.tar"):
        list(WebDataset(url))
    assert list(WebDataset(url, handler=ignore_and_continue).map(number)) == [0, 1, 2, 3, 7, 8, 9, 10, 11]
