"""Training scripts over WebDataset shards as people write them, boiled down: each is a function of the
package that it imports as `wds`.

They take (wds, DataLoader, shards, workers) and return what a training loop would see. What each stands for
is in its first line.
"""

from __future__ import annotations

import io
import json
import math
from functools import partial

import torch
from PIL import Image
from torch.utils.data import default_collate
from wds_own_steps import own_shards, own_split, own_steps, sound, sound_with_a_collation
from wds_parts import SIDE, go_on, has_caption_and_picture, to_tensor, tokenize


def readme(wds, DataLoader, shards, workers):
    """The first example of everybody."""
    dataset = wds.WebDataset(shards, shardshuffle=False).decode("rgb").to_tuple("jpg;png", "json")
    dataset = dataset.map_tuple(lambda image: image[:SIDE, :SIDE], lambda meta: meta["width"])
    return list(DataLoader(dataset, num_workers=workers, batch_size=4))


def classification(wds, DataLoader, shards, workers):
    """ImageNet in shards: labels that are cast once more, the loader's batches."""
    dataset = wds.WebDataset(shards, shardshuffle=False, handler=wds.warn_and_continue)
    dataset = (
        dataset.decode("pil", handler=wds.warn_and_continue)
        .to_tuple("jpg;png;jpeg", "cls")
        .map_tuple(to_tensor, lambda y: int(y))
    )
    return list(
        DataLoader(dataset, batch_size=3, num_workers=workers, drop_last=True, persistent_workers=workers > 0)
    )


def contrastive(wds, DataLoader, shards, workers):
    """CLIP's training: steps in a list, an epoch's batches per worker, metadata on the loader."""
    steps = [wds.SimpleShardList(shards)]
    steps.extend(
        [
            wds.split_by_node,
            wds.split_by_worker,
            wds.tarfile_to_samples(handler=go_on),
            wds.shuffle(bufsize=1, initial=1),
        ]
    )
    steps.extend(
        [
            wds.select(has_caption_and_picture),
            wds.decode("pilrgb", handler=go_on),
            wds.rename(image="jpg;png;jpeg;webp", text="txt"),
            wds.map_dict(image=to_tensor, text=tokenize),
            wds.to_tuple("image", "text"),
            wds.batched(4, partial=False),
        ]
    )
    dataset = wds.DataPipeline(*steps)
    batches = 4 // max(1, workers) * max(1, workers)
    dataset = dataset.with_epoch(batches // max(1, workers))
    loader = wds.WebLoader(
        dataset, batch_size=None, shuffle=False, num_workers=workers, persistent_workers=workers > 0
    )
    loader.num_batches, loader.num_samples = batches, batches * 4
    assert loader.num_batches == batches
    return list(loader)


def contrastive_validation(wds, DataLoader, shards, workers):
    """The same, evaluated: every sample once, the last batch short."""
    steps = [
        wds.SimpleShardList(shards),
        wds.split_by_worker,
        wds.tarfile_to_samples(handler=go_on),
        wds.decode("pilrgb", handler=go_on),
        wds.rename(image="jpg;png", text="txt"),
        wds.map_dict(image=to_tensor, text=tokenize),
        wds.to_tuple("image", "text", "__key__"),
        wds.batched(5, partial=True),
    ]
    return list(wds.WebLoader(wds.DataPipeline(*steps), batch_size=None, shuffle=False, num_workers=workers))


def repeated_and_cut(wds, DataLoader, shards, workers):
    """Equal steps for all ranks as older scripts made them: the loader's batches twice, cut off."""
    dataset = wds.WebDataset(shards, shardshuffle=False).decode("pil").rename(image="jpg;png", text="txt")
    dataset = (
        dataset.map_dict(image=to_tensor, text=tokenize).to_tuple("image", "text").batched(4, partial=False)
    )
    return list(
        wds.WebLoader(dataset, batch_size=None, shuffle=False, num_workers=workers).repeat(2).slice(9)
    )


def rebatched(wds, DataLoader, shards, workers):
    """Batches of workers taken apart and made anew; an epoch of so many batches."""
    dataset = (
        wds.WebDataset(shards, shardshuffle=False)
        .decode("pil")
        .to_tuple("jpg", "cls")
        .map_tuple(to_tensor, wds.utils.identity)
    )
    loader = wds.WebLoader(dataset.batched(6), batch_size=None, num_workers=workers)
    return list(loader.unbatched().batched(4).with_epoch(5))


def mixed_between_workers(wds, DataLoader, shards, workers):
    """Batches taken apart, shuffled and made anew: every sample once."""
    dataset = (
        wds.WebDataset(shards, shardshuffle=100).shuffle(1000).decode("pil").to_tuple("jpg", "cls", "__key__")
    )
    loader = wds.WebLoader(dataset.map_tuple(to_tensor).batched(6), batch_size=None, num_workers=workers)
    return list(loader.unbatched().shuffle(1000).batched(4))


def dicts_of_a_diffusion_trainer(wds, DataLoader, shards, workers):
    """Fields through their functions, then a dict of them by a lambda; an iterator asked for batches."""
    fields = [("jpg;png", to_tensor, "image"), ("txt", tokenize, "text")]
    dataset = (
        wds.WebDataset(
            shards, shardshuffle=False, handler=wds.handlers.warn_and_continue, nodesplitter=wds.split_by_node
        )
        .select(lambda sample: json.loads(sample["json"])["width"] > 21)
        .shuffle(0)
        .decode("pilrgb", handler=wds.warn_and_continue)
        .to_tuple(*[f[0] for f in fields], handler=wds.warn_and_continue)
        .map_tuple(*[f[1] for f in fields], handler=wds.warn_and_continue)
        .map(lambda x: {f[2]: x[i] for i, f in enumerate(fields)})
    )
    batches = iter(DataLoader(dataset, batch_size=3, num_workers=workers, pin_memory=False))
    return [next(batches) for _ in range(4)]


def robot(wds, DataLoader, shards, workers):
    """Observations and actions: arrays, torch's collation in batched()."""

    def prepared(sample):
        image = torch.from_numpy(sample["jpg"][:SIDE, :SIDE].copy()).permute(2, 0, 1)
        return {"image": image, "action": sample["action.npy"], "width": sample["json"]["width"]}

    steps = [
        wds.SimpleShardList(shards),
        wds.split_by_worker,
        wds.tarfile_to_samples(),
        wds.decode("rgb8"),
        wds.map(prepared),
        wds.batched(4, collation_fn=default_collate, partial=False),
    ]
    return list(
        wds.WebLoader(
            wds.DataPipeline(*steps),
            batch_size=None,
            num_workers=workers,
            prefetch_factor=2 if workers else None,
        )
    )


def captions_with_prompts(wds, DataLoader, shards, workers):
    """Picture and caption of a language model's tuning, by the loader's collation of dicts."""
    dataset = wds.DataPipeline(
        wds.SimpleShardList(shards),
        wds.split_by_worker,
        wds.tarfile_to_samples(handler=wds.warn_and_continue),
        wds.decode("pilrgb", handler=wds.warn_and_continue),
        wds.to_tuple("jpg", "json", handler=wds.warn_and_continue),
        wds.map_tuple(to_tensor, handler=wds.warn_and_continue),
        wds.map(
            lambda sample: {"image": sample[0], "text_output": sample[1]["caption"]},
            handler=wds.warn_and_continue,
        ),
    )
    return list(DataLoader(dataset, batch_size=4, num_workers=workers))


def check_of_pictures(wds, DataLoader, shards, workers):
    """A script that opens each picture by itself."""
    seen = []
    for shard in shards:
        for key, data in wds.WebDataset(shard, shardshuffle=False).to_tuple("__key__", "jpg;png;jpeg;webp"):
            Image.open(io.BytesIO(data)).verify()
            seen.append((key, len(data)))
    return seen


def whole_samples(wds, DataLoader, shards, workers):
    """One function for the whole sample, None for what it cannot use, and a collate_fn for dicts."""

    def decoded(sample):
        try:
            caption = sample["txt"].decode().strip()
            image = Image.open(io.BytesIO(sample["jpg"])).convert("RGB")
            return (
                None
                if image.width % 2
                else {"image": to_tensor(image), "caption": caption, "key": sample["__key__"]}
            )
        except KeyError:
            return None

    def collated(batch):
        return {name: [sample[name] for sample in batch] for name in batch[0]}

    dataset = (
        wds.WebDataset(shards, shardshuffle=False, empty_check=False)
        .map(decoded)
        .select(lambda x: x is not None)
    )
    return list(DataLoader(dataset, batch_size=3, num_workers=workers, collate_fn=collated))


def features(wds, DataLoader, shards, workers):
    """Vectors that were computed before, renamed by patterns or by names."""
    dataset = (
        wds.WebDataset(shards, shardshuffle=False)
        .decode()
        .rename(vector="action.npy", label="cls")
        .to_tuple("vector", "label")
    )
    dataset = dataset.map_tuple(torch.from_numpy, None).batched(5, partial=False)
    kept = (
        wds.WebDataset(shards, shardshuffle=False)
        .rename_keys(vector="*.npy", label="cls", keep_unselected=False)
        .slice(2)
    )
    keys = wds.WebDataset(shards, shardshuffle=False).extract_keys("*.npy", "*.cls").slice(2)
    return list(wds.WebLoader(dataset, batch_size=None, num_workers=workers)), list(kept), list(keys)


def windows(wds, DataLoader, shards, workers):
    """A step of one's own, by pipelinefilter, that gives pairs; the loader's batches taken apart."""

    def _pairs(samples, distance):
        held = []
        for sample in samples:
            held.append(sample)
            if len(held) > distance:
                yield held[0][0] - held[-1][0], held[-1][1]
                held.pop(0)

    pairs = wds.filters.pipelinefilter(_pairs)
    dataset = (
        wds.WebDataset(shards, shardshuffle=False)
        .decode("torchrgb8")
        .to_tuple("action.npy", "__key__")
        .compose(pairs(2))
        .batched(3)
    )
    return list(wds.WebLoader(dataset, batch_size=None, num_workers=workers).unbatched().batched(4))


def chosen_fields_of_json(wds, DataLoader, shards, workers):
    """A decoder with settings beside "pilrgb", the rest by the table."""

    def json_fields(key, data, fields):
        return None if not key.endswith("json") else [json.loads(data).get(name) for name in fields]

    dataset = wds.DataPipeline(
        [
            wds.SimpleShardList(shards),
            wds.split_by_worker,
            wds.tarfile_to_samples(handler=wds.warn_and_continue),
            wds.decode(
                "pilrgb", partial(json_fields, fields=["width", "nothing"]), handler=wds.warn_and_continue
            ),
            wds.rename(image="jpg;png;jpeg;webp", text="txt"),
            wds.to_tuple("image", "json", "__key__"),
            wds.map_tuple(to_tensor, lambda x: x, lambda x: x),
            wds.batched(4, partial=True),
        ]
    )
    return list(
        wds.WebLoader(
            dataset, batch_size=None, shuffle=False, num_workers=workers, persistent_workers=workers > 0
        )
    )


def associated(wds, DataLoader, shards, workers):
    """Further fields by the sample's key, masks beside pictures, tensors of numbers."""
    extra = {f"{i:09d}": {"score": i / 2} for i in range(0, 100, 2)}
    dataset = (
        wds.WebDataset(shards, shardshuffle=False)
        .compose(wds.associate(extra))
        .decode("torchl8", only=["jpg"])
    )
    dataset = dataset.map(
        lambda sample: {"mean": sample["jpg"].float().mean(), "score": sample.get("score", -1.0)}
    )
    return list(DataLoader(dataset.to_tuple("mean", "score", "__key__"), batch_size=4, num_workers=workers))


def in_turn(wds, DataLoader, shards, workers):
    """Two data sets, one sample of each in turn, until the first ends."""
    parts = [
        wds.WebDataset(part, shardshuffle=False).decode().to_tuple("cls", "__key__")
        for part in (shards[:2], shards[2:])
    ]
    loader = wds.WebLoader(wds.RoundRobin(parts), batch_size=4, num_workers=workers)
    return list(loader.with_length(math.ceil(100 / 4)))


def with_transforms(wds, DataLoader, shards, workers, transform):
    """Pictures through torchvision's transforms, labels cast: what runs natively."""
    dataset = (
        wds.WebDataset(shards, shardshuffle=False)
        .decode("pil")
        .to_tuple("jpg;png", "cls", "__key__")
        .map_tuple(transform, int)
    )
    return DataLoader(dataset, batch_size=4, num_workers=workers)


def contrastive_with_transforms(wds, DataLoader, shards, workers, transform):
    """contrastive(), with torchvision's transforms."""
    steps = [
        wds.SimpleShardList(shards),
        wds.split_by_node,
        wds.split_by_worker,
        wds.tarfile_to_samples(handler=go_on),
    ]
    steps += [
        wds.select(has_caption_and_picture),
        wds.decode("pilrgb", handler=go_on),
        wds.rename(image="jpg;png", text="txt"),
    ]
    steps += [
        wds.map_dict(image=transform, text=tokenize),
        wds.to_tuple("image", "text", "__key__"),
        wds.batched(3, partial=False),
    ]
    return DataLoader(wds.DataPipeline(*steps).with_epoch(4), batch_size=None, num_workers=workers)


def diffusion_with_transforms(wds, DataLoader, shards, workers, transform):
    """Dicts, by the loader's collation."""
    only = {"image": "jpg", "text": "txt", "__key__": "__key__"}
    dataset = (
        wds.WebDataset(shards, shardshuffle=False)
        .decode("pil")
        .compose(wds.filters.rename(keep=False, **only))
    )
    return DataLoader(dataset.map_dict(image=transform), batch_size=4, num_workers=workers)


#: Scripts whose order is given.
ORDERED = [
    own_steps,
    own_shards,
    readme,
    classification,
    contrastive,
    contrastive_validation,
    repeated_and_cut,
    rebatched,
    dicts_of_a_diffusion_trainer,
    sound,
    sound_with_a_collation,
    robot,
    captions_with_prompts,
    check_of_pictures,
    whole_samples,
    features,
    windows,
    chosen_fields_of_json,
    own_split,
    associated,
    in_turn,
]
