"""DataPipeline of any iterables and steps, and the modules that scripts import from."""

from __future__ import annotations

import importlib
import io
import itertools
import pickle
import random

import pytest
import torch
from millrace import DataLoader
from millrace.datasets import WebDataset
from millrace.datasets import webdataset as wds
from split_cases import number
from stream_cases import COUNT, LENGTHS, shards  # noqa: F401
from torch.utils.data import IterableDataset

ENDS = [0, *itertools.accumulate(LENGTHS)]


class LastFirst(wds.PipelineStage):
    def run(self, samples):
        return reversed(list(samples))


class Urls(IterableDataset):
    def __init__(self, urls):
        self.urls = urls

    def __iter__(self):
        return ({"url": url} for url in self.urls)


def read_by_hand(source, handler=wds.reraise_exception):
    """open_clip's own reading of shards, in its parts."""
    files = wds.tariterators.tar_file_expander(
        wds.tariterators.url_opener(source, handler=handler), handler=handler, eof_value=None
    )
    sample = None
    for file in files:
        key, suffix = wds.tariterators.base_plus_ext(file["fname"])
        if sample is not None and sample["__key__"] != key:
            yield sample
            sample = None
        sample = sample or {"__key__": key, "__url__": file["__url__"]}
        sample[suffix] = file["data"]
    if wds.tariterators.valid_sample(sample):
        yield sample


# ---------------------------------------------------------------- any steps


def test_anything_first_and_any_function_behind():
    assert list(
        wds.DataPipeline(lambda: iter([1, 2]), lambda items: (i + 4 for i in items), wds.map(str))
    ) == ["5", "6"]
    assert list(wds.DataPipeline(range(4), LastFirst(), wds.slice(2))) == [3, 2]
    assert list(
        wds.DataPipeline(torch.utils.data.DataLoader(range(4), batch_size=2), wds.map(sum)).map(int)
    ) == [1, 5]
    assert list(wds.FluidWrapper(range(3)).listed(2)) == [[0, 1], [2]]
    assert list(wds.MockDataset((1, 2), 3)) == [(1, 2)] * 3
    assert isinstance(wds.DataPipeline([1]), wds.DataPipeline)
    assert isinstance(WebDataset("a.tar"), wds.DataPipeline)
    with pytest.raises(TypeError, match="takes stages or functions"):
        wds.DataPipeline([1]).append(7)
    with pytest.raises(
        ValueError, match="begins with an iterable, or a function that gives one, not with int"
    ):
        list(wds.DataPipeline(7, wds.map(str)))


def test_shards_alone_are_urls():
    urls = wds.DataPipeline(
        wds.SimpleShardList([str(i) for i in range(10)]),
        wds.split_by_node,
        wds.split_by_worker,
        wds.non_empty,
    )
    assert [entry["url"] for entry in urls] == [str(i) for i in range(10)]
    urls.stage(0).seed = 17
    expected = [str(i) for i in range(10)]
    random.Random(17).shuffle(expected)
    assert [entry["url"] for entry in urls] == expected
    assert len(list(wds.DataPipeline(wds.SimpleShardList("{0..4}"), wds.resampled(27)))) == 27
    with pytest.raises(ValueError, match="there is nothing in this stream"):
        list(wds.DataPipeline(wds.SimpleShardList("a"), lambda source: iter([]), wds.non_empty))


@pytest.mark.parametrize("workers", [0, 2])
def test_shards_of_a_list_of_ones_own(shards, workers):
    data = wds.DataPipeline(
        Urls(shards[::-1]), wds.split_by_worker, wds.tarfile_to_samples(), wds.map(number)
    )
    expected = [i for shard in (3, 2, 1, 0) for i in range(ENDS[shard], ENDS[shard + 1])]
    seen = list(DataLoader(data, batch_size=None, num_workers=workers))
    assert seen == expected if workers == 0 else sorted(seen) == sorted(expected)


@pytest.mark.parametrize("workers", [0, 2])
def test_shards_that_a_script_reads_itself(shards, workers):
    steps = [
        wds.SimpleShardList(shards),
        wds.split_by_node,
        wds.split_by_worker,
        read_by_hand,
        wds.map(number),
        wds.listed(2),
    ]
    loader = wds.WebLoader(wds.DataPipeline(*steps).with_epoch(4), batch_size=None, num_workers=workers)
    assert sum(1 for _ in loader) == 4 * max(1, workers)
    assert sorted(wds.DataPipeline(*steps[:-1])) == list(range(COUNT))


def test_the_package_s_reading_function_is_the_native_step(shards):
    data = wds.DataPipeline(wds.SimpleShardList(shards), wds.tarfile_samples, wds.map(number))
    assert type(data) is WebDataset and list(data) == list(range(COUNT))
    assert [number(sample) for sample in wds.tarfile_samples([{"url": url} for url in shards])] == list(
        range(COUNT)
    )


def test_resampled_shards_as_they_were_asked_for(shards):
    counted = wds.DataPipeline(
        wds.ResampledShards(shards, nshards=3), wds.tarfile_to_samples(), wds.map(number)
    )
    assert all(len(list(wds.ResampledShards(shards, nshards=n))) == n for n in (0, 2, 9))
    assert 3 <= len(list(counted)) <= 3 * max(LENGTHS)
    one, two = (
        wds.ResampledShards([str(i) for i in range(10**5)], worker_seed=lambda: 3, deterministic=True)
        for _ in range(2)
    )
    firsts = [[entry["url"] for entry in itertools.islice(shards, 9)] for shards in (one, one, two)]
    assert firsts[0] == firsts[2] != firsts[1] and one.epoch == 1
    chances = [list(itertools.islice(wds.ResampledShards("{0..99999}"), 9)) for _ in range(2)]
    assert chances[0] != chances[1]
    assert type(wds.DataPipeline(wds.ResampledShards(shards), wds.tarfile_to_samples())) is WebDataset
    assert list(wds.ResampledShards([], empty_check=False)) == []
    with pytest.raises(ValueError, match="no shards"):
        wds.ResampledShards([])


def test_a_pipeline_is_a_list(shards):
    data = wds.DataPipeline(wds.SimpleShardList(shards), wds.detshuffle(10), LastFirst())
    assert len(data.pipeline) == 3 and data.stage(0) is data.pipeline[0]
    orders = [[entry["url"] for entry in data] for _ in range(2)]
    assert orders[0] != orders[1] and data.stage(1).epoch == 1
    del data.pipeline[1:]
    assert [entry["url"] for entry in data.iterator()] == shards
    data.append(wds.tarfile_samples)
    assert data.append(wds.map(number)) is None
    assert list(data) == list(data.iterator1()) == list(range(COUNT))
    other = data.compose(wds.slice(2))
    assert list(other) == [0, 1]
    assert len(data.pipeline) == 3
    assert pickle.loads(pickle.dumps(other)).stage(3) == wds.slice(2)


def test_append_changes_a_data_set_itself(shards):
    data = WebDataset(shards).map(number)
    data.append(wds.slice(3))
    assert list(data) == [0, 1, 2]
    assert list(data.invoke(wds.map(str), [1])) == ["1"]
    assert list(data.invoke([4])) == [4]
    again = wds.DataPipeline(*WebDataset(shards, shardshuffle=True, seed=4).map(number).pipeline)
    assert type(again) is WebDataset
    assert list(again) == list(WebDataset(shards, shardshuffle=True, seed=4).map(number))
    edited = WebDataset(shards, shardshuffle=True, seed=3)
    del edited.pipeline[2:]
    assert type(edited) is wds.DataPipeline
    assert sorted(entry["url"] for entry in edited) == shards != [entry["url"] for entry in edited]


def test_subclasses_append_their_steps(shards):
    class Numbers(wds.DataPipeline, wds.FluidInterface):
        def __init__(self, urls):
            super().__init__()
            self.append(wds.SimpleShardList(urls))
            self.append(wds.tarfile_to_samples())
            self.append(wds.map(number))

    assert list(Numbers(shards).map(str).slice(2)) == ["0", "1"]
    assert isinstance(Numbers(shards).slice(1), Numbers)


@pytest.mark.parametrize("taken", [0, 1, 7, 18])
def test_functions_are_run_again_to_resume(shards, taken):
    def make():
        return wds.DataPipeline(Urls(shards), read_by_hand, wds.shuffle(5), wds.map(number))

    whole, one, two = list(make()), make(), make()
    iterator = iter(one)
    for _ in range(taken):
        next(iterator)
    two.load_state_dict(pickle.loads(pickle.dumps(one.state_dict())))
    assert list(two) == whole[taken:] and sorted(whole) == list(range(COUNT))


def test_the_seed_of_a_shard_shuffle_counts(shards):
    def order(*steps):
        return list(
            wds.DataPipeline(
                wds.SimpleShardList(shards * 5), *steps, wds.tarfile_to_samples(), wds.map(number)
            )
        )

    assert order(wds.shuffle(9, seed=7)) == order(wds.shuffle(9, seed=7)) != order(wds.shuffle(9, seed=8))
    assert (
        order(wds.detshuffle())
        == order(wds.detshuffle(seed=0))
        != order(wds.detshuffle(epoch=4))
        != order(wds.detshuffle(seed=3))
    )


def test_detshuffle_counts_from_its_epoch():
    first = wds.DataPipeline(range(50), wds.detshuffle(20))
    orders = [list(first) for _ in range(3)]
    later = wds.DataPipeline(range(50), wds.detshuffle(20, epoch=0))
    assert list(later) == orders[1] and list(later) == orders[2]


def test_probabilities_of_zero():
    assert list(wds.RandomMix([[1] * 9, [2] * 9], probs=[1, 0], longest=True)) == [1] * 9
    with pytest.raises(ValueError, match="weights should be above 0"):
        wds.RandomMix([[1], [2]], probs=[0, 0])


def test_a_missing_field_is_a_key_error_too(shards):
    with pytest.raises(KeyError) as found:
        list(WebDataset(shards).map_dict(jpg=len))
    assert isinstance(found.value, ValueError)
    assert "has no field 'jpg', only 'cls'" in str(found.value)
    assert str(found.value)[0] != "'"


def test_samples_kept_in_memory(shards):
    passed = []
    data = (
        WebDataset(shards, shardshuffle=True).map(lambda sample: passed.append(1) or number(sample)).mcached()
    )
    assert list(data) == list(data) and len(passed) == COUNT


# ---------------------------------------------------------------- modules and functions


@pytest.mark.parametrize(
    "module",
    "autodecode cache compat extradatasets filters gopen mix pipeline shardlists tariterators tenbin utils"
    " writer".split(),
)
def test_modules_have_what_the_package_s_have(module):
    theirs = pytest.importorskip("webdataset")
    ours = importlib.import_module(f"millrace.datasets.webdataset.{module}")
    there = importlib.import_module(f"webdataset.{module}")
    public = {
        name
        for name, thing in vars(there).items()
        if getattr(thing, "__module__", None) == there.__name__ and name[0] != "_"
    }
    assert sorted(name for name in public if not hasattr(ours, name)) == sorted(_NOT_HERE.get(module, ()))
    names = {name for name in vars(theirs) if not name.startswith("_")} - {"pytorch", "warnings"}
    assert sorted(name for name in names if not hasattr(wds, name)) == ["MultiShardSample"]


#: Inner parts, what is obsolete there, and clients of single stores, which millrace.stores reads itself.
_NOT_HERE = {
    "autodecode": ["call_extension_handler"],
    "cache": ["download", "get_filetype", "magic_filetype"],
    "compat": ["check_empty"],
    "filters": (
        "combine_values compose2 decode_bin decode_pickle decode_text find_decoder parse_field_spec pick"
    ).split(),
    "gopen": (
        "gopen_ais gopen_curl gopen_error gopen_file gopen_gsutil gopen_hf gopen_htgs gopen_pipe set_options"
    ).split(),
    "pipeline": ["add_length_method"],
    "shardlists": (
        "MSSource MultiShardSample check_pid_is_running envlookup envsubst expand get_pid_from_filename "
        "resampled_ without_last_extension"
    ).split(),
    "tariterators": ["shardlist"],
    "tenbin": "bytedata bytelen check_acceptable_input_type check_infos roundup str64 unstr64".split(),
    "utils": (
        "ObsoleteException compute_sample_weights deprecated fnmatch_with_braces glob_with_braces "
        "obsolete repeatedly0 safe_eval"
    ).split(),
    "writer": ["add_handlers", "encode_based_on_extension", "encode_based_on_extension1", "make_handlers"],
}


def test_steps_as_functions():
    filters = wds.filters
    assert list(filters._map(range(3), str)) == ["0", "1", "2"] and list(wds.select(bool)([0, 1])) == [1]
    assert sorted(filters._shuffle(range(50), 20, 10)) == list(range(50))
    assert list(wds.shuffle(9, seed=3)(range(40))) == list(filters._shuffle(range(40), 9, seed=3))
    random.seed(1)
    first = list(wds.shuffle(20)(range(40)))
    assert first != list(wds.shuffle(20)(range(40)))
    random.seed(1)
    assert first == list(wds.shuffle(20)(range(40)))
    assert list(wds.repeatedly(range(3), nbatches=7)) == [0, 1, 2, 0, 1, 2, 0]
    assert list(wds.repeatedly([])) == []
    assert len(list(wds.repeatedly([[[1, 1], [2, 2]]] * 3, nsamples=10))) == 5
    stepped = wds.with_epoch(range(5), 3)
    assert [list(stepped), list(stepped)] == [[0, 1, 2], [3, 4, 0]] and len(wds.with_length(range(5), 9)) == 9
    assert pickle.loads(pickle.dumps(wds.pipelinefilter(sorted)(reverse=True)))([1, 3]) == [3, 1]


@pytest.mark.parametrize("bufsize, initial", [(1, 1), (7, 3), (20, 20), (100, 10)])
def test_a_shuffle_with_a_generator_draws_as_the_package_does(bufsize, initial):
    theirs = pytest.importorskip("webdataset.filters")._shuffle
    expected = list(theirs(iter(range(60)), bufsize, initial, random.Random(5)))
    assert list(wds.filters._shuffle(iter(range(60)), bufsize, initial, random.Random(5))) == expected


def test_printed_samples():
    out = io.StringIO()
    assert list(wds.info(n=1, every=3, stream=out, name="x")([{"a": 1}] * 3)) == [{"a": 1}] * 3
    assert out.getvalue().count("--- x") == 2 and "a: 1" in out.getvalue()
    out = io.StringIO()
    assert list(wds.info(fmt="{0} is {1}", stream=out)([("x", 1)])) == [("x", 1)]
    assert out.getvalue() == "x is 1\n"


def test_one_repetition_is_cut_too(shards):
    data = WebDataset(shards).map(number)
    assert list(data.repeat(1, nbatches=4)) == [0, 1, 2, 3] and len(list(data.repeat(nbatches=30))) == 30
    assert list(DataLoader(data.repeat(nepochs=1, nbatches=4), batch_size=None)) == [0, 1, 2, 3]
