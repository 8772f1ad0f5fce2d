"""WebLoader makes torch's loader inside a pipeline; its datasets divide shards by get_worker_info()."""

import io
import tarfile

import millrace
import pytest

webdataset = pytest.importorskip("webdataset")


@pytest.fixture
def shards(tmp_path):
    """Two shards of six samples: a text and a number each."""
    for shard in range(2):
        with tarfile.open(tmp_path / f"{shard}.tar", "w") as archive:
            for i in range(6):
                for ending, data in (("txt", f"text {shard}/{i}"), ("cls", str(10 * shard + i))):
                    entry = tarfile.TarInfo(f"{i:03}.{ending}")
                    entry.size = len(data)
                    archive.addfile(entry, io.BytesIO(data.encode()))
    return [str(tmp_path / f"{shard}.tar") for shard in range(2)]


@pytest.mark.parametrize("workers, engine", [(0, "inline"), (2, "processes")])
def test_web_loader(shards, workers, engine):
    def epoch():
        dataset = webdataset.WebDataset(shards, shardshuffle=False).decode().to_tuple("txt", "cls").batched(4)
        loader = webdataset.WebLoader(dataset, batch_size=None, num_workers=workers)
        return loader, [(list(texts), list(numbers)) for texts, numbers in loader]

    _, expected = epoch()
    millrace.install()
    try:
        loader, seen = epoch()
    finally:
        millrace.uninstall()
    inner = loader.pipeline[0]
    assert type(inner) is millrace.DataLoader and inner.stats()["engine"] == engine
    assert seen == expected and sum(len(texts) for texts, _ in seen) == 12
