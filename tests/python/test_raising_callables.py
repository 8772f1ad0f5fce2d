"""What a dataset's functions raise in the engine's threads is what next() raises, in its batch's place."""

import gc
import threading

import millrace
import numpy as np
import pytest
import torch
from millrace import DataLoader
from millrace.datasets.batches import BatchDataset, BatchMaker, ChunkedDataset, Field

CHUNKS, ROWS, BATCH = 8, 6, 3
LIMIT_S = 30.0


class Names:
    def __init__(self, dataset, number):
        self.dataset, self.number = dataset, number

    @property
    def nbytes(self):
        self.dataset.maybe("nbytes", self.number)
        return 100

    def take(self, rows):
        self.dataset.maybe("take", self.number)
        return [f"{self.number}/{row}" for row in rows]


class Raising(ChunkedDataset):
    """Sample i: x = i. `where` raises `error` for the chunks `of`."""

    def __init__(self, where, error, of=(3,), named=True):
        super().__init__(cache_bytes=300)
        self.fields = (Field("x", "int64", ()), *([Field("name")] if named else []))
        self.chunk_lengths = np.full(CHUNKS, ROWS)
        self.where, self.error, self.of, self.named = where, error, of, named

    def maybe(self, where, number):
        if where == self.where and number in self.of:
            raise self.error(f"{where} of chunk {number}")

    def read_chunk(self, number):
        self.maybe("read_chunk", number)
        x = np.arange(number * ROWS, (number + 1) * ROWS)
        return (x, Names(self, number)) if self.named else (x,)

    def chunk_bytes(self, number):
        self.maybe("chunk_bytes", number)
        return 8 * ROWS

    def laid_out(self, values, sequence):
        self.maybe("laid_out", int(torch.as_tensor(values[0]).flatten()[0]) // ROWS)
        return super().laid_out(values, sequence)


def outcomes(loader, most=60):
    """What each next() comes to, until the end. In a thread, so that what hangs is seen."""
    seen = []

    def consume():
        iterator = None
        for _ in range(most):
            try:
                iterator = iter(loader) if iterator is None else iterator
                seen.append(next(iterator)["x"].tolist())
            except StopIteration:
                seen.append("end")
                return
            except BaseException as error:
                seen.append(error)
                if not isinstance(error, Exception):
                    return

    thread = threading.Thread(target=consume, daemon=True)
    thread.start()
    thread.join(LIMIT_S)
    assert not thread.is_alive(), "next() hangs"
    return seen


@pytest.mark.parametrize("named", [True, False])
@pytest.mark.parametrize("workers", [0, 1, 2])
@pytest.mark.parametrize("where", ["chunk_bytes", "read_chunk", "nbytes", "take", "laid_out"])
def test_a_chunks_error_is_that_of_its_batches(where, workers, named):
    if where in ("nbytes", "take") and not named:
        pytest.skip("only columns of Python values have it")
    seen = outcomes(
        DataLoader(Raising(where, LookupError, named=named), BATCH, num_workers=workers, native="require")
    )
    for number, got in enumerate(seen[:-1]):
        if number * BATCH // ROWS == 3:
            assert isinstance(got, LookupError) and str(got).strip("'") == f"{where} of chunk 3", got
            notes = " ".join(getattr(got, "__notes__", [])) if hasattr(got, "add_note") else "millrace-"
            assert ("millrace-" in notes) == (workers > 0), notes
            assert where not in ("chunk_bytes", "read_chunk") or f"{where}(3)" in notes
        else:
            assert got == list(range(number * BATCH, (number + 1) * BATCH)), got
    assert len(seen) == CHUNKS * ROWS // BATCH + 1 and seen[-1] == "end"


@pytest.mark.parametrize("where", ["chunk_bytes", "read_chunk", "nbytes"])
def test_all_chunks_raise_and_every_batch_says_so(where):
    seen = outcomes(
        DataLoader(Raising(where, LookupError, range(CHUNKS)), BATCH, num_workers=2, native="require")
    )
    assert [type(got) for got in seen] == [LookupError] * (CHUNKS * ROWS // BATCH) + [str]


@pytest.mark.parametrize("error", [KeyboardInterrupt, SystemExit, GeneratorExit])
@pytest.mark.parametrize("where", ["chunk_bytes", "read_chunk", "nbytes", "take"])
def test_what_ends_programs_ends_no_thread(where, error):
    seen = outcomes(DataLoader(Raising(where, error), BATCH, num_workers=2, native="require"))
    assert type(seen[-1]) is error and all(type(got) is list for got in seen[:-1]), seen


class Whole(BatchDataset):
    """Batches of the indices themselves; its maker's `where` raises."""

    def __init__(self, where, error):
        self.where, self.error = where, error

    def __len__(self):
        return 24

    def batch_maker(self, options):
        return WholeMaker(self)

    def batches_at_once(self, batch_size):
        return 2

    def maybe(self, where):
        if where == self.where:
            raise self.error(where)

    def _samples(self, indices):
        return [{"x": index} for index in indices]


class WholeMaker(BatchMaker):
    def __init__(self, dataset):
        self.dataset, self.closed = dataset, 0

    def expect(self, indices):
        self.dataset.maybe("expect")
        return indices

    def make(self, ticket):
        self.dataset.maybe("make")
        return {"x": torch.as_tensor(ticket)}

    def make_several(self, tickets):
        self.dataset.maybe("make_several")
        return super().make_several(tickets)

    def read_ahead(self):
        self.dataset.maybe("read_ahead")
        return False


@pytest.mark.parametrize("error", [LookupError, SystemExit])
@pytest.mark.parametrize("where", ["expect", "make", "make_several", "read_ahead"])
def test_what_a_maker_raises(where, error):
    seen = outcomes(DataLoader(Whole(where, error), BATCH, num_workers=2, native="require"))
    right = [list(range(start, start + BATCH)) for start in range(0, 24, BATCH)]
    if where == "make_several":  # each batch is then made alone
        assert seen == [*right, "end"]
    elif where == "read_ahead":  # in place of one batch, and then no more
        raised = [number for number, got in enumerate(seen) if isinstance(got, error)]
        assert len(raised) == 1
        if error is LookupError:
            assert seen[:-1] == right[: raised[0]] + [seen[raised[0]]] + right[raised[0] + 1 :]
    elif error is LookupError:
        assert [type(got) for got in seen] == [LookupError] * len(right) + [str]
    else:
        assert type(seen[-1]) is SystemExit


@pytest.mark.parametrize("error", [LookupError, SystemExit])
@pytest.mark.parametrize("where", ["sample", "collate", "init"])
def test_what_a_thread_workers_callables_raise(where, error):
    class Numbers(torch.utils.data.Dataset):
        def __len__(self):
            return 24

        def __getitem__(self, index):
            if where == "sample" and index == 7:
                raise error("sample 7")
            return index

    def collate(samples):
        if where == "collate" and 7 in samples:
            raise error("samples with 7")
        return {"x": torch.tensor(samples)}

    def init(number):
        if where == "init" and number == 1:
            raise error("worker 1")

    options = {"num_workers": 2, "worker_method": "thread", "collate_fn": collate, "worker_init_fn": init}
    seen = outcomes(DataLoader(Numbers(), BATCH, **options))
    assert any(isinstance(got, error) for got in seen), seen
    gc.collect()


def test_a_fallback_decoders_errors(tmp_path, monkeypatch):
    """Pillow's, in the engine's threads, whatever it raises."""
    from loader_data import make_folder, pictures
    from PIL import BmpImagePlugin, Image

    path = make_folder(tmp_path, 4)[1]
    Image.open(path).save(f"{path}.bmp")
    dataset = pictures(str(tmp_path))
    dataset.samples = [
        (f"{path}.bmp", 1) if number == 1 else sample for number, sample in enumerate(dataset.samples)
    ]
    for error in (LookupError, SystemExit):

        def refuses(*arguments, error=error, **named):
            raise error("not today")

        with monkeypatch.context() as patch:
            patch.setattr(BmpImagePlugin.BmpImageFile, "_open", refuses)
            iterator = iter(millrace.DataLoader(dataset, 1, num_workers=2, native="require"))
            assert next(iterator)[1].tolist() == [0]
            with pytest.raises((OSError, error), match="not today"):
                next(iterator)
