"""What it costs that a JPEG is read by Pillow's rules: a file that Pillow would refuse, or give with pixels
missing, is noticed, which takes a look at all of its markers, behind the crop too.

    python -m benchmarks.picture_rules --images demo_data/photos [--count 300] [--rounds 15] [--out FILE]

The engine decodes the same files for the chains of ImageNet training and validation, in one thread, with and
without the rule (without a fallback decoder there is none). Every sample must be the same, byte for byte,
before anything is timed; then the sides take turns within one process. Each repeat is one line of JSON.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator

import numpy as np
from millrace import _core, transforms
from millrace._common.lowering.transforms import lowered
from millrace.datasets import pillow_decode

from benchmarks import probes
from benchmarks.compare import told
from benchmarks.harness import quiet_rounds, run_facts
from benchmarks.runs import hold_to_cpus, options, rounds_told, stored
from benchmarks.scenarios.imagenet import epoch_indices, list_samples

CHAINS = {
    "train": [transforms.RandomResizedCrop(224), transforms.RandomHorizontalFlip()],
    "validation": [transforms.Resize(256), transforms.CenterCrop(224)],
}


def sides(images: str, chain: str, count: int) -> dict[str, Callable[[int], object]]:
    """For each side, what gives the sample of a number."""
    samples = list_samples(images)
    paths = [samples[i][0] for i in epoch_indices(len(samples), min(count, len(samples)))]
    steps = transforms.Compose([*CHAINS[chain], transforms.PILToTensor()])
    pipelines = lowered(steps).pipelines(lowered(steps).chains)
    labels = np.zeros(len(paths), np.int64)
    made = {
        name: _core.ImageDataset(_core.PathFiles(_core.PathTable(paths)), labels, pipelines, fallback)
        for name, fallback in (("pillow's rules", pillow_decode.PillowDecoder()), ("no rules", None))
    }
    return {name: lambda i, dataset=dataset: dataset.row(i, 1, 0) for name, dataset in made.items()}


def check(sample_of: dict[str, Callable[[int], object]], count: int) -> None:
    ours, other = sample_of.values()
    for i in range(count):
        if not np.array_equal(np.asarray(ours(i)[0]), np.asarray(other(i)[0])):
            raise AssertionError(f"sample {i} is not the same")


def measure(images: str, chain: str, count: int, rounds: int, cpus: list[int]) -> Iterator[dict]:
    sample_of = sides(images, chain, count)
    check(sample_of, count)  # which has read every file, too
    common = {
        "scenario": chain,
        "kind": "rows",
        "cpus": len(cpus),
        **run_facts(("pillow", "numpy")),
        "data": {"pictures": count},
    }

    def one_round(repeat: int) -> list[dict]:
        records = []
        for side in list(sample_of)[:: -1 if repeat % 2 else 1]:
            timer, start = probes.Epoch(cpus), time.process_time()
            for i in range(count):
                sample_of[side](i)
            used = {"process_seconds": time.process_time() - start}  # finer than the system's ticks
            records.append({**common, "loader": side, "repeat": repeat, **timer.stop(), **used})
        return records

    yield from quiet_rounds(rounds, one_round)


def table(records: list[dict]) -> str:
    """CPU time with the rule over that without, round by round, as median with its 95 % interval."""
    lines = ["| chain | CPU ms a picture | without the rule | ratio |", "|---|---:|---:|---:|"]
    for chain in dict.fromkeys(record["scenario"] for record in records):
        mine = [r for r in records if r["scenario"] == chain]
        mine = [r for r in mine if r["quiet"]] or mine
        took = {
            side: {
                r["repeat"]: r["process_seconds"] / r["data"]["pictures"] for r in mine if r["loader"] == side
            }
            for side in ("pillow's rules", "no rules")
        }
        ruled, free = took.values()
        cells = [f"{1e3 * sorted(one.values())[len(one) // 2]:.2f}" for one in (ruled, free)]
        lines.append(f"| {chain} | {cells[0]} | {cells[1]} | {told([ruled[k] / free[k] for k in ruled])} |")
    return "\n".join(lines)


def main() -> None:
    parser = options(__doc__, "picture_rules", 15)
    parser.add_argument(
        "--images", default="demo_data/photos", help="a folder with one folder of JPEGs per class"
    )
    parser.add_argument("--count", type=int, default=300, help="how many photos")
    arguments = parser.parse_args()
    cpus, records = hold_to_cpus(1), []
    for chain in CHAINS:
        records += stored(
            measure(arguments.images, chain, arguments.count, arguments.rounds, cpus), arguments.out
        )
    print(f"{rounds_told(records, 'rows')}\n\n{table(records)}")


if __name__ == "__main__":
    main()
