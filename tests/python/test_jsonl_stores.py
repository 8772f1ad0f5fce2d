"""JSONL and JSONLStream over files of a server, plain and packed."""

from __future__ import annotations

import json
import threading
from http.server import ThreadingHTTPServer

import pytest
from line_data import write_json
from millrace import DataLoader
from millrace.datasets import JSONL, JSONLStream
from test_webdataset_stores import Ranges

NAMES = ["a.jsonl", "b.jsonl.gz", "c.jsonl.zst"]


@pytest.fixture
def urls(tmp_path):
    pytest.importorskip("obstore")
    (tmp_path / "www").mkdir()
    for part, name in enumerate(NAMES):
        write_json(
            tmp_path / "www" / name, [{"n": part * 1000 + i, "t": "x" * (i % 50)} for i in range(1000)]
        )
    server = ThreadingHTTPServer(("127.0.0.1", 0), Ranges)
    server.folder = tmp_path / "www"
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield [f"http://127.0.0.1:{server.server_port}/{name}" for name in NAMES]
    server.shutdown()
    server.server_close()


def test_any_line(urls, tmp_path):
    dataset = JSONL(urls, {"n": int}, index_dir=str(tmp_path / "kept"))
    assert dataset.file_lengths == [1000] * 3 and dataset[-1] == {"n": 2999}
    for workers in (0, 2):
        read = [
            n
            for batch in DataLoader(dataset, 100, shuffle=True, num_workers=workers, native="require")
            for n in batch["n"].tolist()
        ]
        assert sorted(read) == list(range(3000)) and read != sorted(read)


def test_as_a_stream(urls):
    def make():
        return JSONLStream(urls, {"n": int}).map(lambda sample: sample["n"])

    assert list(make()) == list(range(3000))
    stream = make()
    items = iter(stream)
    assert [next(items) for _ in range(1500)] == list(range(1500))
    resumed = make()
    resumed.load_state_dict(json.loads(json.dumps(stream.state_dict())))
    assert list(resumed) == list(range(1500, 3000))
    assert sorted(n for batch in DataLoader(make(), 64, num_workers=2) for n in batch.tolist()) == list(
        range(3000)
    )


def test_what_is_not_there(urls):
    missing = urls[0].replace("a.jsonl", "none.jsonl")
    with pytest.raises(FileNotFoundError, match="none.jsonl"):
        len(JSONL(missing))
    with pytest.raises(FileNotFoundError, match="none.jsonl"):
        list(JSONLStream(missing, {"n": int}))
