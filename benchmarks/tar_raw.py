"""One way through shards without decoding, in a process of its own: tar_shards.py starts it and talks to it
in lines of JSON.

{"side": ..., "shards": [...], "cpus": [...]}    first line; answered when the side is ready
["check"]                                        one pass                  -> samples, bytes and a digest of
the payloads in order ["timed", passes]                                so many passes, timed     -> times,
samples
"""

from __future__ import annotations

import hashlib
import json
import os
import sys
import tarfile
from collections.abc import Callable, Iterable, Iterator

CHUNK = 8 << 20


def millrace(shards: list[str]) -> Callable[[], Iterable]:
    from millrace.datasets import WebDataset

    return lambda: WebDataset(shards)


def webdataset(shards: list[str]) -> Callable[[], Iterable]:
    import webdataset

    return lambda: webdataset.WebDataset(shards, shardshuffle=False, empty_check=False)


def members(shards: list[str]) -> list[tuple[str, list[list[tuple[int, int]]]]]:
    """(shard, samples), each of (offset, size) of jpg and cls."""
    result = []
    for shard in shards:
        with tarfile.open(shard) as tar:
            places = [(entry.offset_data, entry.size) for entry in tar]
        result.append((shard, [places[at : at + 2] for at in range(0, len(places), 2)]))
    return result


def pread_members(shards: list[str]) -> Callable[[], Iterable]:
    """A new bytes object per file in the shards, at places that were known before."""
    known = members(shards)

    def samples() -> Iterator[dict[str, bytes]]:
        for shard, places in known:
            file = os.open(shard, os.O_RDONLY)
            for (picture, size), (label, width) in places:
                yield {"jpg": os.pread(file, size, picture), "cls": os.pread(file, width, label)}
            os.close(file)

    return samples


def pread_shards(shards: list[str]) -> Callable[[], Iterable]:
    """The shards as they lie there, through one buffer; no samples."""
    count = sum(len(samples) for _, samples in members(shards))

    def epoch() -> range:
        read_through(shards)
        return range(count)

    return epoch


def read_through(shards: list[str]) -> None:
    buffer = bytearray(CHUNK)
    for shard in shards:
        file, at = os.open(shard, os.O_RDONLY), 0
        while got := os.preadv(file, [buffer], at):
            at += got
        os.close(file)


SIDES = {
    "millrace": millrace,
    "webdataset": webdataset,
    "pread_members": pread_members,
    "pread_shards": pread_shards,
}


def check(samples: Iterable) -> dict:
    digest, count, size = hashlib.sha256(), 0, 0
    for sample in samples:
        count += 1
        for name in ("jpg", "cls") if isinstance(sample, dict) else ():
            content = bytes(sample[name])
            size += len(content)
            digest.update(b"%d " % len(content) + content)
    return {"samples": count, "bytes": size, "digest": digest.hexdigest() if size else None}


def timed(epochs: Callable[[], Iterable], passes: int, cpus: list[int]) -> dict:
    from benchmarks.probes import Epoch

    timer, count = Epoch(cpus), 0
    for _ in range(passes):
        for _ in epochs():
            count += 1
    return {**timer.stop(), "samples": count}


def main() -> None:
    answers = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)
    settings = json.loads(sys.stdin.readline())
    os.sched_setaffinity(0, settings["cpus"])
    epochs = SIDES[settings["side"]](settings["shards"])
    print("{}", file=answers)
    for line in sys.stdin:
        command, *arguments = json.loads(line)
        print(
            json.dumps(
                check(epochs()) if command == "check" else timed(epochs, *arguments, settings["cpus"])
            ),
            file=answers,
        )


if __name__ == "__main__":
    main()
