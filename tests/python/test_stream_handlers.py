"""The native engine over pipelines that leave samples out: handlers, select(), declared epochs."""

from __future__ import annotations

import millrace.transforms as T
import pytest
from loader_data import advanced, going_on
from millrace import DataLoader
from millrace.datasets import WebDataset, ignore_and_continue, ignore_and_stop
from pictures import jpeg_bytes, make_picture
from shard_data import same, write_tar

COUNT, LENGTHS = 60, (13, 20, 7, 20)
DAMAGED = frozenset((0, 5, 6, 7, 8, 9, 10, 11, 31, 58, 59))
SMALL = T.Compose([T.Resize((12, 16)), T.ToTensor()])


@pytest.fixture(scope="module")
def shards(tmp_path_factory):
    folder, number, paths = tmp_path_factory.mktemp("handlers"), 0, []
    for shard, length in enumerate(LENGTHS):
        members = []
        for i in range(number, number + length):
            data = jpeg_bytes(make_picture(24, 20, seed=i), quality=90)
            members += [(f"{i:03d}.jpg", data[:100] if i in DAMAGED else data), (f"{i:03d}.cls", b"%d" % i)]
        number += length
        paths.append(write_tar(folder / f"h-{shard}.tar", members))
    return paths


def chain(shards, handler, **keywords):
    data = (
        WebDataset(shards, shardshuffle=True, seed=3, **keywords).shuffle(10).decode("pil", handler=handler)
    )
    return data.to_tuple("jpg", "cls").map_tuple(SMALL)


def in_python(data, **keywords):
    return list(DataLoader(data, batch_size=None, native="never", **keywords))


def natively(data, workers=2, **keywords):
    return DataLoader(data, batch_size=None, num_workers=workers, native="require", **keywords)


@pytest.mark.parametrize("workers", [0, 1, 2])
@pytest.mark.parametrize("size, partial", [(4, True), (7, False), (64, True), (1, True)])
def test_the_others_close_up_in_order(shards, workers, size, partial):
    seen: list[Exception] = []
    data = chain(shards, lambda error: seen.append(error) or True).batched(size, partial=partial)
    got = list(natively(data, workers))
    assert same(got, in_python(chain(shards, ignore_and_continue).batched(size, partial=partial)))
    assert len(seen) == len(DAMAGED) and all(".tar/0" in str(error) for error in seen)
    labels = [int(label) for batch in got for label in batch[1]]
    assert len(set(labels)) == len(labels) and not DAMAGED & set(labels)


def test_resumed_at_every_batch_with_any_number_of_threads(shards):
    data = chain(shards, ignore_and_continue).batched(4)
    whole = list(natively(data))
    for cut in range(len(whole) + 1):
        loader = natively(chain(shards, ignore_and_continue).batched(4), cut % 3)
        _held = advanced(loader, cut)
        state = loader.state_dict()
        again = going_on(natively(chain(shards, ignore_and_continue).batched(4), 2 - cut % 3), state)
        assert same(list(again), whole[cut:]), cut


def test_a_handler_that_stops_ends_the_stream_there(shards):
    native, python = (list(f(chain(shards, ignore_and_stop).batched(4))) for f in (natively, in_python))
    assert same(native, python) and sum(len(batch[1]) for batch in native) < COUNT - len(DAMAGED)


def test_a_handler_that_raises_raises_in_the_loop(shards):
    def refuse(error):
        raise RuntimeError("enough") from error

    iterator = iter(natively(chain(shards, refuse).batched(4)))
    with pytest.raises(RuntimeError, match="enough"):
        list(iterator)
    with pytest.raises(StopIteration):
        next(iterator)


@pytest.mark.parametrize("size, partial", [(8, True), (8, False), (7, True)])
@pytest.mark.parametrize("steps", [3, 9, 14])
@pytest.mark.parametrize("keywords", [{}, {"resampled": True}])
def test_declared_epochs(shards, keywords, steps, size, partial):
    def pipeline():
        return chain(shards, ignore_and_continue, **keywords).batched(size, partial=partial).with_epoch(steps)

    native, python = natively(pipeline(), 1), DataLoader(pipeline(), batch_size=None, native="never")
    for _ in range(3):
        assert same(one := list(native), list(python)) and len(one) == steps


def test_a_repetition_ends_where_the_handler_ends_it(shards):
    native = natively(chain(shards, ignore_and_stop).batched(4).with_epoch(6))
    python = chain(shards, ignore_and_stop).batched(4)
    assert same(list(native), in_python(python.with_epoch(12))), "six for each of two workers"


@pytest.mark.parametrize("cut", [0, 1, 5, 7, 13, 14])
def test_declared_epochs_are_resumed(shards, cut):
    def pipeline():
        return chain(shards, ignore_and_continue).batched(7).with_epoch(14)

    whole = list(natively(pipeline(), 0))
    loader = natively(pipeline(), 0)
    _held = advanced(loader, cut)
    again = going_on(natively(pipeline(), 1), loader.state_dict())
    assert same(list(again), whole[cut:])


def test_what_it_cannot_do_with_a_handler_is_said(shards):
    declared = DataLoader(chain(shards, ignore_and_continue).with_epoch(5), batch_size=8)
    assert "datasets that end with batched() only" in declared.explain()
    sizes = (
        WebDataset(shards)
        .decode("pil", handler=ignore_and_continue)
        .to_tuple("jpg", "cls")
        .map_tuple(T.ToTensor())
        .batched(1)
    )
    assert "have no fixed size" in DataLoader(sizes, batch_size=None).explain()


def test_select_looks_at_samples_before_and_after_decoding(shards):
    def pipeline():
        data = WebDataset(shards).select(
            lambda sample: "jpg" in sample and len(sample["jpg"]) > 100 and sample.get("png") is None
        )
        data = (
            data.decode("pilrgb")
            .rename(image="jpg;png", label="cls")
            .select(lambda sample: sample["image"].size[0] == 24)
        )
        return (
            data.select(lambda sample: sample["label"] % 2)
            .map_dict(image=SMALL)
            .to_tuple("image", "label")
            .batched(4)
        )

    native = list(natively(pipeline()))
    assert same(native, in_python(pipeline()))
    assert sum(len(batch[1]) for batch in native) == sum(i % 2 for i in range(COUNT) if i not in DAMAGED)


@pytest.mark.parametrize(
    "behind", [("slice", 5, 40), ("rsample", 0.5), ("shuffle", 10)], ids=lambda stage: stage[0]
)
def test_what_counts_samples_behind_a_handler_is_pythons(shards, behind):
    """In Python it counts those that could be decoded, which the engine finds out later."""
    name, *arguments = behind
    data = getattr(WebDataset(shards).decode("pil", handler=ignore_and_continue), name)(*arguments)
    data = data.to_tuple("jpg", "cls").map_tuple(SMALL).batched(4)
    loader = DataLoader(data, batch_size=None)
    assert "behind decode() with a handler, and would count what cannot be decoded; put it in front" in str(
        loader.explain()
    )


def test_slices_that_end_resampled_passes(shards):
    def pipeline():
        data = WebDataset(shards, resampled=True).slice(10).decode("pil", handler=ignore_and_continue)
        return data.to_tuple("jpg", "cls").map_tuple(SMALL).batched(4).with_epoch(9)

    assert same(list(natively(pipeline(), 1)), in_python(pipeline()))
