"""Shards from an object store, twice: the first epoch comes over the network, the second from the disk cache.

    python examples/object_storage.py          needs `pip install obstore fsspec`

A small HTTP server on this machine plays the store, 20 ms away and with 40 MB/s per connection. With a real
one only the URLs are others (https://, s3://, gs://, az://) and credentials come from where the store's own
tools find them.
"""

from __future__ import annotations

import http.server
import io
import random
import tarfile
import tempfile
import threading
import time

from millrace import stores
from millrace._core import ShardReader

SHARDS, SAMPLES = 6, 100


def make_shard(number: int) -> bytes:
    """A WebDataset shard: 100 samples of 100 kB and a label."""
    draws, out = random.Random(number), io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as tar:
        for sample in range(SAMPLES):
            for suffix, data in (("bin", draws.randbytes(100_000)), ("cls", str(sample % 10).encode())):
                entry = tarfile.TarInfo(f"{number:03}-{sample:03}.{suffix}")
                entry.size = len(data)
                tar.addfile(entry, io.BytesIO(data))
    return out.getvalue()


class Store(http.server.BaseHTTPRequestHandler):
    """GET with ranges, and HEAD."""

    protocol_version = "HTTP/1.1"
    objects = {f"/shard-{i}.tar": make_shard(i) for i in range(SHARDS)}
    sent, counting = 0, threading.Lock()

    def do_GET(self) -> None:
        data = self.objects.get(self.path)
        time.sleep(0.02)
        if data is None:
            self.send_error(404)
            return
        first, _, last = self.headers.get("Range", "bytes=0-").removeprefix("bytes=").partition("-")
        part = data[int(first) : int(last) + 1 if last else None]
        self.send_response(206 if "Range" in self.headers else 200)
        self.send_header("Content-Length", str(len(part)))
        self.send_header("Content-Range", f"bytes {first}-{int(first) + len(part) - 1}/{len(data)}")
        self.send_header("ETag", f'"{len(data)}"')
        self.end_headers()
        if self.command == "GET":
            with self.counting:  # before the bytes: the reader may look as soon as it has them
                Store.sent += len(part)
            for at in range(0, len(part), 400_000):
                time.sleep(0.01)
                self.wfile.write(part[at : at + 400_000])

    do_HEAD = do_GET

    def log_message(self, *_: object) -> None:
        pass


def epoch(urls: list[str], cache: stores.DiskCache) -> None:
    begun, sent, samples = time.perf_counter(), Store.sent, 0
    with stores.open_shards(urls, cache=cache) as shards:
        for _, shard in shards:
            for sample in ShardReader(shard):
                assert len(sample["bin"]) == 100_000
                samples += 1
        stats = shards.stats()
    print(
        f"  {samples} samples in {time.perf_counter() - begun:.2f} s; {(Store.sent - sent) / 1e6:.0f} MB came"
        f" over the network in {stats['requests']} requests"
    )


def main() -> None:
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Store)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    urls = [f"http://127.0.0.1:{server.server_port}{name}" for name in Store.objects]
    with tempfile.TemporaryDirectory() as folder:
        cache = stores.DiskCache(folder, max_bytes=200_000_000)
        for number in (1, 2):
            before = cache.stats()
            print(f"epoch {number}")
            epoch(urls, cache)
            hits, misses = (cache.stats()[name] - before[name] for name in ("hits", "misses"))
            print(f"  hit rate of the cache: {100 * hits / (hits + misses):.0f} %")
        print(f"the cache holds {cache.stats()['bytes'] / 1e6:.0f} MB in {cache.stats()['entries']} entries")
    try:
        stores.open_source(urls[0].replace("shard-0", "shard-99"))
    except FileNotFoundError as error:
        print("and what is not there says so:", error)
    server.shutdown()


if __name__ == "__main__":
    main()
