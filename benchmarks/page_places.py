"""Where README.md and the pages of docs say measured numbers: a sentence with gaps, or a table, and what is
in it.
"""

from __future__ import annotations

from benchmarks import figures
from benchmarks import page_numbers as numbers
from benchmarks.pages import Said, Table


def _tutorials() -> str:
    from benchmarks.tutorials import table  # which brings torchvision

    return table()


README, MEASURED = "README.md", "docs/measured.md"
PLACES: list[Said | Table] = [
    Said(README, "**{} to {} times** as many pictures a second as torch's loader makes", numbers.photos),
    Said(README, "for other kinds of data [{} to {} times](docs/measured.md)", numbers.kinds),
    Said(
        README,
        "Of [{} pipelines](docs/measured.md#thirty-pipelines-one-changed-import) as people write "
        "them, {} run natively and {} at least twice as fast",
        lambda: tuple(numbers.reach_counts()[key] for key in ("all", "native", "2")),
    ),
    Table(MEASURED, "factors", lambda: figures.table([figures.found(task) for task in figures.TASKS])),
    Said(
        MEASURED,
        "{} run natively, from the files to the batch",
        lambda: (numbers.reach_counts()["native"],),
    ),
    Said(
        MEASURED,
        "{} of the {} are at least 1.3 times as fast as with torch's loader, {} at least twice, half "
        "of them {} times and more",
        lambda: tuple(numbers.reach_counts()[key] for key in ("1.3", "all", "2", "median")),
    ),
    Table(MEASURED, "reach", numbers.reach),
    Table(MEASURED, "tutorials", _tutorials),
    Table("docs/native.md", "recipes", numbers.recipes),
    Said(
        "docs/native.md",
        "MixUp makes an epoch {} % longer ({} - {}) in batches of 128, and {} % ({} - {}) in batches of 32",
        numbers.mixing,
    ),
    Said(
        "docs/native.md",
        "Lists of photos run {} to {} times as fast as under torch's (two workers, two cores), "
        "CIFAR10 and FashionMNIST {} and {} times",
        numbers.lists_of_photos,
    ),
    Said(
        "docs/native.md",
        "With photos in a Parquet file such a loader makes {} times as many pictures a second as torch's",
        lambda: numbers.times("picture_datasets", "hugging_face"),
    ),
    Said(
        "docs/native.md",
        "with a step of 0.2 ms in Python, that is {} times torch's loader, and {} times with a colour "
        "step of Albumentations",
        lambda: numbers.times("recipes", "unknown_step", "albumentations"),
    ),
    Table("docs/pictures.md", "lazy_pictures", numbers.lazy),
    Table("docs/pictures.md", "picture_clients", numbers.clients),
    Said(
        "docs/pictures.md",
        "A script that opens no picture pays {} % ({} - {}) of the instructions of a step of eight "
        "numbers without workers, which is the loader's own work alone, and {} % ({} - {}) of one of "
        "64 arrays. Two loaders of one setting differ by {} to {} % in CPU time",
        numbers.hook,
    ),
    Table("docs/cpp.md", "cpp_library", numbers.cpp),
    Said(
        "docs/cpp.md",
        "torch::data with a `get_batch()` of all rows makes {} M a second, {} x ({} - {}) fewer",
        numbers.cpp_indexed,
    ),
    Said(
        "docs/python_datasets.md",
        "that is {} times torch's batches per second for samples of 602 kB ({} times when the "
        "consumer reads them all, {} times with a collate_fn of one's own), {} times for dicts of "
        "three small fields, {} times for lists of numbers that are only pickled",
        lambda: numbers.times(
            "python_workers", "wide_rows", "wide_rows_read", "wide_rows_own_collate", "small_dicts", "lists"
        ),
    ),
    Said(
        "docs/python_datasets.md",
        "Batches of 16 byte strings of 108 kB travel {} times as fast as there ({} times with a "
        "collate_fn of one's own)",
        lambda: numbers.times("python_workers", "bytes", "bytes_own_collate"),
    ),
    Table("docs/python_datasets.md", "worker_start", numbers.worker_start),
    Said(
        "docs/python_datasets.md",
        "The first epoch of `fork` has {} s in it that come once in a process",
        numbers.starts_once,
    ),
    Said(
        "docs/limits.md",
        "Without workers, a step of a few numbers or small tensors takes up to {} % longer since",
        numbers.since_dlpack,
    ),
    Said(
        "docs/python_datasets.md",
        "steps of small samples take between {} % of torch's time (eight pictures) and {} % (64 arrays)",
        numbers.inline,
    ),
    Said(
        "docs/remote.md",
        "an actor of one CPU brought {} % of what a second thread brings ({} – {} over {} rounds), "
        "and each GB that arrived cost the trainer {} CPU seconds; through Ray's store, as from other "
        "machines, {} % and {}",
        numbers.remote,
    ),
    Said(
        "docs/remote.md",
        "came {} times as fast as by Ray Data on the same two CPUs ({} – {} over {} rounds",
        numbers.ray_data,
    ),
    Said(
        "docs/profile.md",
        "{} of {} changes within 20 % on two CPUs, in the median of three rounds "
        "([results](../benchmarks/results/advice/epyc-2cpu.jsonl)); native pictures with a first "
        "thread gain {} % more",
        numbers.advice,
    ),
    Said(
        "docs/autotune.md",
        "{} % of the best for pictures, {} % for Python samples that wait, {} % for requests over "
        "HTTP (with 8 threads), {} % for rows in memory and {} % beside a loop that computes",
        numbers.autotune,
    ),
    Said(
        "docs/bench.md",
        "{} of {} rounds came within 5 %, and in the median {} % beside it (a folder of photos), {} % "
        "(photos in Pillow) and {} % (rows in memory)",
        numbers.bench,
    ),
    Said("docs/drift.md", "with a step of 5 ms, {} % for pictures", numbers.drift),
    Said(
        "docs/quickstart.md",
        "On two slow CPUs it took {} minutes besides downloads, {} % of them for the build",
        numbers.first_minutes,
    ),
    Said(
        "docs/shards.md",
        "With two workers on two CPUs that is {} photos of {} kB per second to RandomResizedCrop "
        "batches: {} times webdataset with torch's loader, {} times DALI on the CPU",
        numbers.shards,
    ),
    Said(
        "docs/shards.md",
        "Iterating over samples without decoding them is {} times as fast as there for samples of 1 "
        "kB, {} times for 10 kB and {} times for photos of 108 kB, two CPUs allowed: large files are "
        "copied by a second thread, too. On one CPU photos come {} times as fast; one plain `pread` "
        "per file gives {} times there. For files of 1 MB it is {} times: no reader gets much "
        "further, the whole shards through one buffer are {} times as fast",
        numbers.raw_shards,
    ),
    Said(
        "docs/shards.md",
        "[results](../benchmarks/results/segment_index/epyc-2cpu.jsonl)) | {} % more | {} % less |",
        numbers.markers,
    ),
    Said(
        "docs/lines.md",
        "{} million a second and more, {} and {} times what `json.loads` gives under torch's loader "
        "with all lines in memory, {} and {} times what it gives from the file; texts tokenized on "
        "the way {} times as fast",
        numbers.lines,
    ),
    Said(
        "docs/tables.md",
        "{} million rows a second, as many as pyarrow's own scan plus a gather by hand give ({} x, {} "
        "to {}), {} times what a Hugging Face dataset gives",
        numbers.tables,
    ),
    Said(
        "docs/samplers.md",
        "takes {} ms to the first index instead of {} s, {} bytes per sample instead of {}, and {} ns "
        "per index over the epoch, in arrays, instead of {} in lists",
        numbers.samplers,
    ),
    Table("docs/limits.md", "torch_versions", numbers.torch_versions),
    Said("docs/faq.md", "of which one level differs in 1 of {} values", numbers.blur),
    Said(
        "docs/faq.md",
        "on two CPUs it came after {} ms, under torch's loader after {} ms",
        numbers.first_batch,
    ),
]
