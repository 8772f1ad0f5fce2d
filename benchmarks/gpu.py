"""What reaches the GPU, and what the training step notices of it: millrace beside torch's own ways, in one
run, taking turns.

    python -m benchmarks.gpu [link] [step] [photos] [crops] [train] [--rounds 15] [--out FILE.jsonl]
    python -m benchmarks.gpu --fake                 # a dry run of every line below without a GPU: tiny, on
    the tests' fake device

link: batches of 64 x 3 x 224 x 224 floats (38.5 MB) from memory to the device, bytes per second, against one
    page-locked copy of the same size over and over, which is all that the link can do. Through the loader
    (rows gathered by threads), and through DevicePrefetcher alone (batches that lie page-locked already).
    Host allocations per batch in the steady state.
step: milliseconds of a training step of a ResNet-50 on batches that come from the loader, against the same
    step on a batch that lies on the device all the time; the same for torch's loader with pin_memory and
    `.to(non_blocking=True)`, and for it with a side stream written by hand, as many scripts have one.
photos: pictures per second from JPEG files to normalised batches on the device.
crops: the same for two large and six small crops of each picture, with colours and blur.
train: milliseconds of that training step on batches made of JPEG files, against a batch that lies on the
    device all the time.

Before anything is timed, all sides must give the same batches; decoders that round differently the same
labels and pictures of which 99.9 % are within two levels. Each repeat is one line of JSON; the summary
has medians and a bootstrap interval of the ratios within rounds. A side that fails says so, and the
others go on.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import sys
import tempfile
import traceback
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import millrace
import torch
from torch.utils.data import DataLoader as TorchLoader
from torch.utils.data import TensorDataset

from benchmarks.compare import interval
from benchmarks.gpu_machine import Machine, Repeated, moved, timed
from benchmarks.gpu_model import training_step
from benchmarks.gpu_photos import crops, make_files, photos, training
from benchmarks.harness import run_facts

FOLDER = Path("benchmarks/results/gpu")


def side_stream(loader: Iterable[Any], here: Machine) -> Iterator[Any]:
    """The prefetcher that many training scripts carry along: the next batch is copied on a stream of its
    own.
    """
    if here.fake:
        yield from loader
        return
    stream, ahead = torch.cuda.Stream(), None
    for batch in loader:
        with torch.cuda.stream(stream):
            there = [part.to(here.device, non_blocking=True) for part in batch]
        if ahead is not None:
            yield _taken(ahead, stream)
        ahead = there
    if ahead is not None:
        yield _taken(ahead, stream)


def _taken(batch: list[torch.Tensor], stream: Any) -> list[torch.Tensor]:
    torch.cuda.current_stream().wait_stream(stream)
    for part in batch:
        part.record_stream(torch.cuda.current_stream())
    return batch


# ---------------------------------------------------------------- link


def rows(here: Machine) -> TensorDataset:
    """As many floats as a batch of pictures has, of a data set that is four batches large and read over and
    over.
    """
    count = 4 * here.batch
    return TensorDataset(
        torch.arange(count * 3.0 * here.side**2).reshape(count, 3, here.side, here.side), torch.arange(count)
    )


def repeated_loader(cls: Any, here: Machine, **arguments: Any) -> Any:
    data = rows(here)
    return cls(
        data,
        here.batch,
        sampler=Repeated(len(data), here.total * here.batch),
        num_workers=here.workers,
        **arguments,
    )


def link(here: Machine) -> dict[str, Callable[[], dict[str, float]]]:
    loader = repeated_loader(millrace.DataLoader, here, device="cuda", native="require")
    expected = list(TorchLoader(rows(here), here.batch))
    for i, (batch, _) in enumerate(loader):
        assert torch.equal(batch.cpu(), expected[i % 4][0]), "the loader's batches are others"
    size = expected[0][0].nbytes + expected[0][1].nbytes
    pinned = [[here.pinned(part) for part in batch] for batch in expected]
    target = torch.empty_like(expected[0][0], device=here.device)

    def copies() -> dict[str, float]:
        seconds, count = timed(
            here, range(here.total), lambda i: target.copy_(pinned[i % 4][0], non_blocking=True)
        )
        return {"gb_per_s": count * target.nbytes / seconds / 1e9}

    def through(make: Callable[[], Iterable[Any]]) -> Callable[[], dict[str, float]]:
        def run() -> dict[str, float]:
            allocations: list[int] = []
            seconds, count = timed(here, make(), lambda batch: allocations.append(here.host_allocations()))
            steady = allocations[len(allocations) // 2 :]
            return {
                "gb_per_s": count * size / seconds / 1e9,
                "host_allocations_per_batch": (steady[-1] - steady[0]) / len(steady),
            }

        return run

    lying = [pinned[i % 4] for i in range(here.total)]
    return {
        "page-locked copies": copies,
        "millrace": through(lambda: loader),
        "DevicePrefetcher alone": through(lambda: millrace.DevicePrefetcher(lying, "cuda")),
        "torch, pin_memory": through(
            lambda: moved(repeated_loader(TorchLoader, here, pin_memory=not here.fake), here)
        ),
    }


# ---------------------------------------------------------------- step


def step(here: Machine) -> dict[str, Callable[[], dict[str, float]]]:
    train = training_step(here)
    resident = [part.to(here.device) for part in next(iter(TorchLoader(rows(here), here.batch)))]
    loaders: dict[str, Callable[[], Iterable[Any]]] = {
        "resident": lambda: (resident for _ in range(here.total)),
        "millrace": lambda: repeated_loader(millrace.DataLoader, here, device="cuda", native="require"),
        "torch, pin_memory": lambda: moved(
            repeated_loader(TorchLoader, here, pin_memory=not here.fake), here
        ),
        "torch, side stream": lambda: side_stream(
            repeated_loader(TorchLoader, here, pin_memory=not here.fake), here
        ),
    }
    firsts = {name: next(iter(make())) for name, make in loaders.items()}
    assert all(torch.equal(a.cpu(), b.cpu()) for batch in firsts.values() for a, b in zip(batch, resident)), (
        "other batches"
    )

    def run(make: Callable[[], Iterable[Any]]) -> dict[str, float]:
        seconds, count = timed(here, make(), train)
        return {"ms_per_step": 1e3 * seconds / count}

    return {name: lambda make=make: run(make) for name, make in loaders.items()}


# ---------------------------------------------------------------- rounds


#: scenario -> (the side that the others are compared with, what is compared)
BASE = {
    "link": ("page-locked copies", "gb_per_s"),
    "step": ("resident", "ms_per_step"),
    "photos": ("millrace, decode=cpu", "pictures_per_s"),
    "crops": ("millrace, decode=cpu", "pictures_per_s"),
    "train": ("resident", "ms_per_step"),
}


def alternating(
    scenario: str, sides: dict[str, Callable[[], dict[str, float]]], rounds: int
) -> Iterator[dict[str, Any]]:
    """A record of each side in each round. A side that fails says so, and the others go on."""
    for number in range(rounds):
        for name in list(sides) if number % 2 else list(reversed(sides)):
            try:
                measured = sides[name]()
            except Exception:
                traceback.print_exc()
                del sides[name]
                continue
            yield {"scenario": scenario, "round": number, "side": name, **measured}


def report(scenario: str, records: list[dict[str, Any]]) -> None:
    base, key = BASE[scenario]
    first = [record[key] for record in records if record["side"] == base]
    print(scenario)
    if not first:
        print(f"  nothing to compare with: {base} failed")
        return
    for side in dict.fromkeys(record["side"] for record in records):
        mine = [record[key] for record in records if record["side"] == side]
        ratios = [b / a for a, b in zip(first, mine)]
        low, high = interval(ratios)
        print(
            f"  {side:32} {statistics.median(mine):10.2f} {key}   {statistics.median(ratios):.3f} of {base} "
            f"({low:.3f} - {high:.3f})",
            flush=True,
        )


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "scenarios",
        nargs="*",
        choices=[[], *BASE],
        metavar="link|step|photos|crops|train",
        help="all when none is named",
    )
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument(
        "--fake", action="store_true", help="a dry run on the tests' fake device, whose figures mean nothing"
    )
    parser.add_argument("--out", type=Path, default=FOLDER / "local.jsonl", help="where results go")
    arguments = parser.parse_args()
    here = Machine(arguments.fake)
    if arguments.fake:
        sys.path.insert(0, "tests/python")
        from fake_device import Fake
        from pytest import MonkeyPatch

        Fake().install_decoder(MonkeyPatch())
        print("a dry run: the figures mean nothing")
    elif not torch.cuda.is_available():
        raise SystemExit("there is no CUDA device here; --fake is a dry run without one")
    rounds = 2 if arguments.fake else arguments.rounds
    gpu = "fake" if arguments.fake else torch.cuda.get_device_name()
    common = {**run_facts(("torch",)), "gpu": gpu, "kind": "gpu"}
    with tempfile.TemporaryDirectory() as folder:
        if {"photos", "crops", "train"} & set(arguments.scenarios or BASE):
            make_files(Path(folder), here.pictures)
        scenarios = {
            "link": lambda: link(here),
            "step": lambda: step(here),
            "photos": lambda: photos(here, folder),
            "crops": lambda: crops(here, folder),
            "train": lambda: training(here, folder),
        }
        arguments.out.parent.mkdir(parents=True, exist_ok=True)
        failed = []
        for scenario in arguments.scenarios or BASE:
            sides = scenarios[scenario]()
            wanted, records = len(sides), []
            with open(os.devnull if arguments.fake else arguments.out, "a") as out:
                for record in alternating(scenario, sides, rounds):
                    records.append(record)
                    print(json.dumps({**common, **record}), file=out, flush=True)
            report(scenario, records)
            failed += [scenario] * (len(sides) < wanted)
    if failed:
        raise SystemExit(f"a side failed: {', '.join(failed)}")


if __name__ == "__main__":
    main()
