"""The measured numbers of README.md and the pages of docs (benchmarks/page_places.py says where they stand),
as they are printed. Factors are medians of the rounds, in which both sides took turns.
"""

from __future__ import annotations

import json
import re
import statistics
from functools import cache
from operator import itemgetter
from pathlib import Path

from benchmarks import figures
from benchmarks.latest import Run, latest, told

ROOT = Path(__file__).resolve().parents[1]
run = cache(latest)


def times(folder: str, *scenarios: str, theirs: str = "torch", form: str = ".1f") -> tuple[str, ...]:
    return tuple(f"{run(folder, name).factor(theirs=theirs):{form}}" for name in scenarios)


def numbers_of(text: str) -> list[str]:
    """Of what told() told: median, low, high."""
    return re.findall(r"-?\d[\d,.]*", text.replace(" - ", " "))


def medians(folder: str, *keys: str) -> list[float]:
    return [statistics.median(r[key] for r in run(folder).records) for key in keys]


# ------------------------------------------------------------------ README.md, docs/measured.md


def photos() -> tuple[str, ...]:
    each = run("", "imagenet_train", workers=2)
    return tuple(f"{each.factor(theirs=side):.0f}" for side in ("torch_pil", "torch_tv2"))


def first_batch() -> tuple[str, ...]:
    each = run("", "imagenet_train", workers=2, kind="first")
    return tuple(
        f"{1e3 * each.median(side, lambda r: r['seconds']):.0f}" for side in ("millrace", "torch_pil")
    )


def kinds() -> tuple[str, ...]:
    factors = sorted(figures.found(task).factor for task in figures.TASKS)
    return figures.shown(factors[0]), figures.shown(factors[-1])


@cache
def reach_runs() -> dict[str, Run]:
    from benchmarks.reach_pipelines import PIPELINES

    return {name: latest("reach", name, quiet=False) for name in PIPELINES}


def reach_counts() -> dict[str, str]:
    factors = [each.factor() for each in reach_runs().values()]
    return {
        "all": str(len(factors)),
        "native": str(sum(each.records[0]["runs"] == "native" for each in reach_runs().values())),
        "1.3": str(sum(factor >= 1.3 for factor in factors)),
        "2": str(sum(factor >= 2 for factor in factors)),
        "median": f"{statistics.median(factors):.1f}",
    }


def reach() -> str:
    from benchmarks.reach import row

    rows = [row(name, each.records) for name, each in reach_runs().items()]
    return "\n".join(["| pipeline | runs | times as fast as torch's loader |", "|---|---|---:|", *rows])


# ------------------------------------------------------------------ pictures


RECIPES = {
    "rand_augment": "RandAugment",
    "auto_augment": "AutoAugment",
    "trivial_augment": "TrivialAugmentWide",
    "timm_rand_augment": "timm, `rand-m9-inc1`",
    "timm_auto_augment": "timm, `original-mstd0.5`",
    "timm_augmix": "timm, `augmix-m5-w4-d2`",
    "simclr": "SimCLR's pair",
    "dino": "DINO's 2 + 8 crops",
    "mixup": "MixUp in `collate_fn`",
}
LAZY = {
    "train": "`Image.open`, RandomResizedCrop, flip, ToTensor, Normalize",
    "train_inline": "the same without workers",
    "train_v2": "torchvision's v2: ToImage, ToDtype, Normalize",
    "validation": "Resize, CenterCrop, ToTensor, Normalize",
    "webp": "the first, of WebPs",
    "thumbnail": "`thumbnail((256, 256))`, CenterCrop, ToTensor, Normalize",
    "huggingface": "Hugging Face's images with `set_transform`, by Python",
    "whole_array": "`np.asarray(Image.open(path))`",
    "cv2": "`cv2.imread`, `cv2.resize`",
}
CLIENTS = {
    "csv": "csv of labels",
    "folder_subclass": "subclass of ImageFolder",
    "upright": "put upright, padded",
    "masks": "masks beside pictures (PNG)",
    "boxes": "boxes beside pictures (v2)",
    "pairs": "two views",
    "triplets": "triplets",
    "many_crops": "2 + 6 crops, Pillow's blur",
    "mosaics": "mosaics",
    "bytes": "bytes, transforms in the loop",
    "tar": "tar",
    "zip": "zip",
    "lmdb": "lmdb",
    "hugging_face": "Hugging Face, `set_transform`, by Python",
    "timm_evaluation": "timm, evaluation",
    "own_generators": "own generators",
    "collate_fn": "`collate_fn` that makes pixels",
    "stream": "stream of files",
}


def recipes() -> str:
    lines = ["| recipe | torch | millrace | | results |", "|---|---:|---:|---:|---|"]
    for name, words in RECIPES.items():
        each = run("recipes", name)
        rates = f"{each.median('torch'):,.0f} | {each.median('millrace'):,.0f}"
        lines.append(f"| {words} | {rates} | {each.factor():.1f} x | [{each.machine}]({each.link}) |")
    return "\n".join(lines)


def mixing() -> tuple[str, ...]:
    found: list[str] = []
    for name in ("mixup_128", "mixup"):
        factors = run("recipes", name).factors("millrace, default_collate", "millrace")
        found += numbers_of(told([100 * (factor - 1) for factor in factors], ".0f", ""))
    return tuple(found)


def lists_of_photos() -> tuple[str, ...]:
    factors = [
        run("picture_datasets", name).factor()
        for name in ("food101", "pets", "target_transform", "concat", "timm")
    ]
    small = times("picture_datasets", "cifar10", "fashion_mnist", form=".0f")
    return f"{min(factors):.1f}", f"{max(factors):.1f}", *small


def lazy() -> str:
    lines = ["| dataset | torch | millrace | faster by |", "|---|---:|---:|---:|"]
    for name, words in LAZY.items():
        each = run("lazy_pictures", name)
        rates = f"{each.median('torch'):,.0f} | {each.median('millrace'):,.0f}"
        lines.append(f"| {words} | {rates} | {each.factor():.2f} x |")
    return "\n".join(lines)


def clients() -> str:
    cells = []
    for name, words in CLIENTS.items():
        each = run("picture_clients", name)
        cells.append(f"{words} | {each.factor():.1f} x | {len(each.of('torch'))}")
    half = len(cells) // 2
    lines = [
        "| dataset | faster by | rounds | | dataset | faster by | rounds |",
        "|---|---:|---:|---|---|---:|---:|",
    ]
    return "\n".join(
        lines + [f"| {left} | | {right} |" for left, right in zip(cells[:half], cells[half:], strict=True)]
    )


def hook() -> tuple[str, ...]:
    found: list[str] = []
    for name in ("instructions", "instructions array"):
        each = run("picture_hook", name, kind="instructions")
        ratios = each.factors("lazy", "pillow", lambda r: r["instructions_per_step"])
        found += numbers_of(told([100 * (ratio - 1) for ratio in ratios], unit=""))
    again = [
        abs(
            1
            - 1
            / run("picture_hook", name).factor(
                "pillow again", "pillow", lambda r: r["cpu_seconds"] / r["rows"]
            )
        )
        for name in ("numbers", "array workers")
    ]
    return *found, *(f"{100 * each:.0f}" for each in sorted(again))


# ------------------------------------------------------------------ the C++ library


def cpp() -> str:
    rows = {
        "photos": "photos, random crops of 224",
        "shards": "the same in tar shards, a shuffle buffer of 1,000",
        "rows": "rows of 16 floats in memory",
        "tokens": "windows of 2,048 tokens",
    }
    lines = [
        "| | samples/s | against the Python package | against torch::data with one `get()` a sample "
        "| quiet rounds |",
        "|---|---:|---:|---:|---:|",
    ]
    for name, words in rows.items():
        each = run("cpp_library", name)
        ours = each.fastest("library")
        python = told(each.factors(ours, each.fastest("python")), ".2f")
        other = "reads no tars"
        if name != "shards":
            other = told(each.factors(ours, each.fastest(("torch_data_0", "torch_data_2"))), ".1f")
        lines.append(f"| {words} | {each.median(ours):,.0f} | {python} | {other} | {len(each.of(ours))} |")
    return "\n".join(lines)


def cpp_indexed() -> tuple[str, ...]:
    each = run("cpp_library", "rows")
    side = each.fastest("torch_data_indexed")
    factors = each.factors(each.fastest("library"), side)
    return f"{each.median(side) / 1e6:.0f}", *numbers_of(told(factors))


# ------------------------------------------------------------------ workers, remote workers, loops


def worker_start() -> str:
    lines = ["| | pairs | first epoch | later epochs | CPU time of all |", "|---|---:|---:|---:|---:|"]
    every = ("fork", "spawn", "forkserver")
    kinds = (
        (2, "small", "", every),
        (2, "20MB", ", a dataset of 20 MB", every),
        (8, "small", ", 8 workers", every[::2]),
    )
    for workers, size, words, methods in kinds:
        for method in methods:
            each = run("worker_start", f"{method} {size}", workers=workers)
            keys = ("first_s", "later_s", "cpu_s")
            cells = " | ".join(f"{each.factor(value=itemgetter(key)):.2f}" for key in keys)
            lines.append(f"| `{method}`{words} | {len(each.of('torch'))} | {cells} |")
    return "\n".join(lines)


def starts_once() -> tuple[str]:
    """Seconds of a process's first epoch that later ones have not, two forked workers."""
    each = run("worker_start", "fork small", workers=2)
    first, later = (each.median("millrace", itemgetter(key)) for key in ("first_s", "later_s"))
    return (f"{first - later:.2f}",)


def since_dlpack() -> tuple[str, ...]:
    """How much longer small steps take than when bindings were compiled against torch: at most, in %."""
    from benchmarks.revisions import SCENARIOS, ratios

    runs = [run("dlpack", name, quiet=False) for name in SCENARIOS[:6]]
    most = max(statistics.median(ratios(each.records, "seconds")) for each in runs)
    return (f"{100 * max(0.0, most - 1):.0f}",)


def inline() -> tuple[str, ...]:
    return tuple(f"{100 / run('inline_steps', name).factor():.0f}" for name in ("picture 8", "array 64"))


def remote() -> tuple[str, ...]:
    cost, store, store_cost = medians("remote", "cpu_s_per_gb", "store_added", "store_cpu_s_per_gb")
    each = run("remote").records
    shares = numbers_of(told([100 * r["added"] for r in each], ".0f", ""))
    return *shares, str(len(each)), f"{cost:.2f}", f"{100 * store:.0f}", f"{store_cost:.2f}"


def ray_data() -> tuple[str, ...]:
    factors = run("remote_ray_data", "photos").factors(theirs="ray_data")
    return *numbers_of(told(factors)), str(len(factors))


def advice() -> tuple[str, ...]:
    from benchmarks.advice import table

    right, _, count = table(run("advice").records).rpartition("\n")[2].split()[:3]
    native = [r for r in run("advice").records if r["case"] == "pictures, native, no threads"]
    return right, count, f"{100 * statistics.median(r['after'] / r['foretold'] - 1 for r in native):.0f}"


def autotune() -> tuple[str, ...]:
    from benchmarks.autotune import reached

    names = ("jpegs", "sleeps", "http", "rows", "busy_consumer")
    return tuple(
        f"{100 * statistics.median(reached(run('autotune', name).records)[1]):.0f}" for name in names
    )


def bench() -> tuple[str, ...]:
    every = [run("bench_reproduces", name, quiet=False) for name in ("photos", "pillow", "rows")]
    close = sum(r["within_5_percent"] for each in every for r in each.records)
    offs = [f"{abs(100 * statistics.median(r['off'] for r in each.records)):.1f}" for each in every]
    return str(close), str(sum(len(each.records) for each in every)), *offs


def drift() -> tuple[str, ...]:
    factor = run("drift", "pictures").factor("plain_5ms", "watched_5ms")
    return (f"{100 * (factor - 1):.1f}",)


def first_minutes() -> tuple[str, ...]:
    seconds = {
        step: statistics.median(r["seconds"] for r in run("first_minutes", step).records)
        for step in ("setup", "build", "demo")
    }
    whole = sum(seconds.values())
    return f"{whole / 60:.0f}", f"{100 * seconds['build'] / whole:.0f}"


# ------------------------------------------------------------------ files of samples


def shards() -> tuple[str, ...]:
    crops = run("tar_shards", "train_crops")
    factors = [f"{crops.factor('millrace_tar', side):.1f}" for side in ("webdataset_torch", "dali_tar")]
    size = crops.records[0]["data"]["mean_bytes"] / 1000
    return f"{crops.median('millrace_tar'):,.0f}", f"{size:.0f}", *factors


def raw_shards() -> tuple[str, ...]:
    two = times(
        "tar_shards", "raw_1kB_2cpus", "raw_10kB_2cpus", "raw_photos_2cpus", theirs="webdataset", form=".0f"
    )
    one = run("tar_shards", "raw_photos")
    large = run("tar_shards", "raw_1MB_2cpus")
    pairs = [(one, "millrace"), (one, "pread_members"), (large, "millrace"), (large, "pread_shards")]
    return *two, *(f"{each.factor(side, 'webdataset'):.1f}" for each, side in pairs)


def markers() -> tuple[str, ...]:
    each = run("segment_index", "segment_index")
    size = each.of("segments")[0]["jpeg_bytes"] / each.of("plain")[0]["jpeg_bytes"]
    cpu = each.factor("segments", "plain", lambda r: r["cpu_s_per_1000"])
    return f"{100 * (size - 1):.1f}", f"{100 * (1 - cpu):.0f}"


def lines() -> tuple[str, ...]:
    sides = [run("jsonl", name) for name in ("texts", "numbers")]
    ours = [each.median(each.fastest("millrace")) for each in sides]
    beside = [
        f"{our / each.median(each.fastest(name)):.0f}"
        for name in ("torch_lines", "torch_file")
        for our, each in zip(ours, sides, strict=True)
    ]
    return f"{min(ours) / 1e6:.1f}", *beside, *times("text", "definitions")


def tables() -> tuple[str, ...]:
    from benchmarks.tables import added_up

    each = run("tables", "zstd")
    each = Run(added_up(each.records), each.file)
    ours, hugging_face = each.fastest("millrace"), each.fastest("hf")
    by_hand = told(each.factors(ours, "(scan plus gather)"), ".2f", "")
    factors = *numbers_of(by_hand), f"{each.factor(ours, hugging_face):.0f}"
    return f"{each.median(ours) / 1e6:.1f}", *factors


def samplers() -> tuple[str, ...]:
    found = []
    for kind, key, ours, theirs, form in (
        ("first", "seconds", 1e3, 1, ".1f"),
        ("memory", "bytes", 1e-8, 1e-8, ".0f"),
        ("epoch", "ns_per_index", 1, 1, ".0f"),
    ):
        each = run("samplers", "random_1e8", kind=kind)
        for side, scale in (("millrace", ours), ("torch", theirs)):
            found.append(f"{scale * each.median(side, itemgetter(key)):{form}}")
    return tuple(found)


# ------------------------------------------------------------------ tests that were run apart


def torch_versions() -> str:
    stored = json.loads((ROOT / "tests/parity/torch_versions.json").read_text())
    lines = [
        "| torch | passed | failed | skipped | README's first example | `pip install`, CPU s | wheel, MB |",
        "|---|---:|---:|---:|---|---:|---:|",
    ]
    for torch, entry in stored.items():
        bare = entry.get("bare", {})
        cells = [entry["passed"], entry["failed"], entry["skipped"], bare.get("first_example", "")]
        size = f"{entry['wheel']['bytes'] / 1e6:.1f}" if "bytes" in entry.get("wheel", {}) else ""
        lines.append(f"| {' | '.join(map(str, [torch, *cells, bare.get('install_cpu_s', ''), size]))} |")
    return "\n".join(lines)


def blur() -> tuple[str, ...]:
    stored = json.loads((ROOT / "tests/fuzz/operations_against_libraries.json").read_text())
    blur = next(each for each in stored["operations"] if each["operation"] == "GaussianBlur")
    return (f"{blur['values'] / blur['other_values']:,.0f}",)
