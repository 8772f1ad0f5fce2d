"""Scripts over WebDataset shards, as in wds_scripts.py, with steps, shards and decoders of their own."""

from __future__ import annotations

import io
import itertools
import random
import wave
from functools import partial

import torch
from wds_parts import go_on, has_caption_and_picture, to_tensor, tokenize


def read_wave(data):
    with wave.open(io.BytesIO(data)) as file:
        return (
            torch.frombuffer(bytearray(file.readframes(file.getnframes())), dtype=torch.int16),
            file.getframerate(),
        )


def sound(wds, DataLoader, shards, workers):
    """Sound by a decoder beside the table's, a filter over the stream, several crops of a sample."""

    def of_rate(stream):
        for (signal, rate), text, key in stream:
            if rate == 8000:
                yield signal, text, key

    def crops(stream, length):
        for signal, text, key in stream:
            for start in range(0, len(signal) - length + 1, length):
                yield signal[start : start + length], text, key

    dataset = wds.DataPipeline(
        wds.SimpleShardList(shards),
        wds.split_by_worker,
        wds.tarfile_to_samples(),
        wds.decode(wds.handle_extension("wav", read_wave), handler=wds.warn_and_continue),
        wds.to_tuple("mp3;wav;flac", "txt", "__key__"),
        of_rate,
        partial(crops, length=20),
        wds.batched(4),
    )
    return list(DataLoader(dataset, batch_size=None, num_workers=workers))


def sound_with_a_collation(wds, DataLoader, shards, workers):
    """The table's decoder named, samples as dicts, a collation of one's own."""

    def collate(samples):
        return torch.stack([sample["wav"][0][:20] for sample in samples]), [
            sample["__key__"] for sample in samples
        ]

    dataset = wds.WebDataset(map(str, shards), shardshuffle=False).select(lambda sample: "wav" in sample)
    dataset = dataset.decode(wds.autodecode.basichandlers, wds.handle_extension("wav", read_wave)).batched(
        4, collation_fn=collate
    )
    return list(DataLoader(dataset, batch_size=None, num_workers=workers))


def own_split(wds, DataLoader, shards, workers):
    """Shards divided by a function of the script's, endless data, batches counted by the loop."""

    def by_rank(source):
        yield from itertools.islice(source, 0, None, 1)

    dataset = (
        wds.WebDataset(
            shards,
            shardshuffle=False,
            nodesplitter=by_rank,
            workersplitter=wds.split_by_worker,
            empty_check=False,
        )
        .decode("pil")
        .to_tuple("__key__", "jpg;JPEG;jpeg;png")
        .map_tuple(lambda key: key, to_tensor)
        .map(lambda pair: (pair[1], int(pair[0][-3:])))
        .repeat()
        .batched(4, partial=False)
    )
    return list(itertools.islice(DataLoader(dataset, batch_size=None, num_workers=workers), 14))


class ShuffledByEpoch:
    """Made a PipelineStage below: the epoch's shards, by the package's inner function."""

    def __init__(self, shuffle):
        self.shuffle, self.epoch = shuffle, -1

    def run(self, source):
        self.epoch += 1
        return self.shuffle(source, 100, 10, random.Random(7 + self.epoch))


class WeightedShards(torch.utils.data.IterableDataset):
    """Shards drawn with weights, without end, by the worker's seed."""

    def __init__(self, urls, weights, seed):
        super().__init__()
        self.urls, self.weights, self.seed = urls, weights, seed

    def __iter__(self):
        draw = random.Random(self.seed())
        while True:
            yield {"url": draw.choices(self.urls, weights=self.weights)[0]}


def grouped(files):
    """Files to samples, by a script's own rule: two samples of one key stay two."""
    sample = None
    for file in filter(None, files):
        key, _, suffix = file["fname"].partition(".")
        if sample is not None and (key != sample["__key__"] or suffix in sample):
            yield sample
            sample = None
        sample = sample or {"__key__": key, "__url__": file["__url__"]}
        sample[suffix] = file["data"]
    if sample is not None:
        yield sample


def read_by_itself(wds, source):
    return grouped(
        wds.tariterators.tar_file_expander(wds.tariterators.url_opener(source, handler=go_on), handler=go_on)
    )


def own_steps(wds, DataLoader, shards, workers):
    """Contrastive training with the script's own order of shards and its own reading of them."""
    stage = type("Stage", (ShuffledByEpoch, wds.PipelineStage), {})(wds.filters._shuffle)
    steps = [
        wds.SimpleShardList(shards),
        stage,
        wds.split_by_node,
        wds.split_by_worker,
        partial(read_by_itself, wds),
    ]
    steps += [
        wds.select(has_caption_and_picture),
        wds.decode("pilrgb", handler=go_on),
        wds.rename(image="jpg;png", text="txt"),
    ]
    steps += [
        wds.map_dict(image=to_tensor, text=tokenize),
        wds.to_tuple("image", "text"),
        wds.batched(4, partial=False),
    ]
    dataset = wds.DataPipeline(*steps).with_epoch(3)
    loader = wds.WebLoader(dataset, batch_size=None, num_workers=workers, persistent_workers=workers > 0)
    return [*loader, *loader]


def own_shards(wds, DataLoader, shards, workers):
    """Shards drawn with weights by a data set of the script's own."""
    source = WeightedShards(shards, [1.0, 2.0, 1.0, 3.0][: len(shards)], wds.utils.pytorch_worker_seed)
    dataset = wds.DataPipeline(
        source, wds.tarfile_to_samples(handler=go_on), wds.to_tuple("__key__", "txt")
    ).with_epoch(15)
    return [list(map(str, row)) for row in wds.WebLoader(dataset, batch_size=None, num_workers=workers)]
