"""What must not grow: memory, threads and descriptors over many epochs, many dropped loaders, many kept
batches.
"""

import gc
import multiprocessing
import os
from concurrent.futures import ProcessPoolExecutor

import millrace
import psutil
import pytest
import torch
from millrace import transforms
from PIL import Image

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Two classes of 32 small JPEGs."""
    root = tmp_path_factory.mktemp("endurance")
    generator = torch.Generator().manual_seed(3)
    for label in ("a", "b"):
        (root / label).mkdir()
        for i in range(32):
            pixels = torch.randint(0, 256, (8, 8, 3), generator=generator, dtype=torch.uint8)
            image = Image.fromarray(pixels.numpy()).resize((80 + i, 60 + i), Image.Resampling.BICUBIC)
            image.save(root / label / f"{i:02}.jpg", quality=90)
    return str(root)


def dataset(folder, size=64):
    return millrace.datasets.ImageFolder(
        folder,
        transforms.Compose(
            [transforms.RandomResizedCrop(size), transforms.RandomHorizontalFlip(), transforms.ToTensor()]
        ),
    )


def rss():
    gc.collect()
    return psutil.Process().memory_info().rss


def test_memory_is_flat_over_200_epochs(folder):
    loader = millrace.DataLoader(
        dataset(folder), batch_size=16, shuffle=True, num_workers=2, native="require"
    )
    samples = []
    for epoch in range(200):
        for images, _ in loader:
            assert images.shape == (16, 3, 64, 64)
        if epoch >= 20 and epoch % 20 == 19:
            samples.append(rss())
    assert max(samples) <= samples[0] * 1.02, f"RSS went from {samples[0]} to {max(samples)} bytes"


def cost_of_kept_labels(folder, side, as_copies):
    """Bytes that this process grows by while 10,000 label tensors are kept, or torch's copies of them."""
    batches, rows = 10_000, 2
    loader = millrace.DataLoader(
        dataset(folder, side),
        batch_size=rows,
        sampler=torch.utils.data.RandomSampler(range(64), replacement=True, num_samples=batches * rows),
        num_workers=2,
        native="require",
    )
    kept = []
    for _, labels in loader:
        kept.append(labels.clone() if as_copies else labels)
        if len(kept) == 100:
            before = rss()
    assert len(kept) == batches
    return rss() - before


@pytest.mark.parametrize(
    "side", [8, 32]
)  # images that come and go beside the labels must not leave holes that nothing fits into
def test_kept_labels_cost_only_the_labels(folder, side):
    # Each in a process of its own: what others gave back to the heap would hold the tensors.
    spawn = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(1, spawn) as ours, ProcessPoolExecutor(1, spawn) as torchs:
        of_ours = ours.submit(cost_of_kept_labels, folder, side, False)
        # What a label tensor is bound to cost, whoever made it: values, and torch's objects around them.
        of_torchs = torchs.submit(cost_of_kept_labels, folder, side, True)
        grown, reference = of_ours.result(), of_torchs.result()
    assert reference > 10_000 * 400, "torch's tensors were not measured"
    assert grown <= 1.25 * reference + 2**20, (
        f"{grown} bytes for 10,000 label tensors; torch's copies of them take {reference}"
    )


def test_loaders_dropped_in_mid_epoch_leave_nothing(folder):
    data = dataset(folder)
    process = psutil.Process()

    def drop_one():
        loader = millrace.DataLoader(data, batch_size=8, shuffle=True, num_workers=2, native="require")
        iterator = iter(loader)
        next(iterator)

    for _ in range(50):
        drop_one()
    gc.collect()
    threads, descriptors, memory = process.num_threads(), process.num_fds(), rss()
    for _ in range(1000):
        drop_one()
    gc.collect()
    assert process.num_threads() <= threads
    assert process.num_fds() <= descriptors
    assert rss() <= memory * 1.02 + 2**20


def test_a_hundred_kept_batches_stay_as_they_were(folder):
    loader = millrace.DataLoader(dataset(folder), batch_size=4, shuffle=True, num_workers=2, native="require")
    kept, copies = [], []
    while len(kept) < 100:
        for images, labels in loader:
            kept.append((images, labels))
            copies.append((images.clone(), labels.clone()))
    assert loader.stats()["overflow_slots"] > 0
    for _ in range(5):
        for _ in loader:
            pass
    for (images, labels), (images_then, labels_then) in zip(kept, copies):
        assert torch.equal(images, images_then) and torch.equal(labels, labels_then)


def test_listing_a_whole_epoch_works(folder):
    loader = millrace.DataLoader(dataset(folder), batch_size=4, num_workers=2, native="require")
    everything = list(loader)
    assert [len(labels) for _, labels in everything] == [4] * 16
    assert torch.cat([labels for _, labels in everything]).tolist() == [0] * 32 + [1] * 32


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_forked_child_that_drops_batches_harms_nobody(folder):
    loader = millrace.DataLoader(dataset(folder), batch_size=8, num_workers=2, native="require")
    iterator = iter(loader)
    held = next(iterator)
    before = held[0].clone()
    pid = os.fork()
    if pid == 0:
        held = iterator = loader = None
        gc.collect()
        os._exit(0)
    assert os.waitpid(pid, 0)[1] == 0
    rest = [labels for _, labels in iterator]
    assert sum(map(len, rest)) == 56
    assert torch.equal(held[0], before)
