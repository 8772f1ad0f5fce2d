"""Documents of tokens in rows of 2048: millrace against grain and plain Python, the sides taking turns within
one process.

    python -m benchmarks.packing [--scenario definitions files] [--rounds 7] [--out FILE.jsonl]

The documents are sources of Python's standard library, split into words and signs: whole files, or the
definitions at their outermost level. Longer ones than a row are cut into rows beforehand, since not all sides
do that. Planning is timed with the rest: a repeat goes from documents to every batch of 8 rows (ids, labels,
positions, document numbers; grain's have no labels), on one thread of one CPU. Before that each side's rows
must hold every token once. Slow sides get the first `limit` documents. Each repeat is one line of JSON.
"""

from __future__ import annotations

import bisect
import importlib.util
import re
import sys
import sysconfig
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch

from benchmarks import probes
from benchmarks.compare import rates_table
from benchmarks.harness import quiet_rounds, run_facts
from benchmarks.runs import hold_to_cpus, options, rounds_told, stored

LENGTH, BATCH = 2048, 8
LIMITS = {"definitions": 20_000, "files": 1_000}  # documents for the slow sides
WORD = re.compile(r"\w+|[^\w\s]|\n")

Batches = Iterable[dict[str, Any]]


def documents(scenario: str, most: int = 10**9) -> tuple[np.ndarray, np.ndarray]:
    """(tokens uint16 [n], offsets int64 [documents + 1]), of the first `most` texts."""
    vocabulary: dict[str, int] = {}
    tokens: list[int] = []
    offsets = [0]
    for path in sorted(Path(sysconfig.get_paths()["stdlib"]).rglob("*.py")):
        if "site-packages" in path.parts:
            continue
        text = path.read_text(encoding="utf-8", errors="replace")
        for part in [text] if scenario == "files" else re.split(r"\n(?=(?:def|class|@|async def)\b)", text):
            tokens += (
                vocabulary.setdefault(word, len(vocabulary)) % 50_000 + 1 for word in WORD.findall(part)
            )
            offsets += [*range(offsets[-1] + LENGTH, len(tokens), LENGTH), len(tokens)]
            if len(offsets) > most:
                return np.array(tokens[: offsets[most]], dtype=np.uint16), np.array(offsets[: most + 1])
    return np.array(tokens, dtype=np.uint16), np.array(offsets)


def with_millrace(strategy: str, workers: int = 0) -> Callable[[np.ndarray, np.ndarray], Batches]:
    import millrace

    def batches(tokens: np.ndarray, offsets: np.ndarray) -> Batches:
        dataset = millrace.datasets.PackedSequences((tokens, offsets), LENGTH, strategy, document_ids=True)
        return millrace.DataLoader(dataset, BATCH, num_workers=workers, native="require")

    return batches


def with_grain(tokens: np.ndarray, offsets: np.ndarray) -> Batches:
    import grain
    from grain.experimental import BestFitPackIterDataset

    def document(number: int) -> dict[str, np.ndarray]:
        return {"input_ids": tokens[offsets[number] : offsets[number + 1]].astype(np.int64)}

    source = grain.MapDataset.range(len(offsets) - 1).map(document).to_iter_dataset()
    packed = BestFitPackIterDataset(source, length_struct={"input_ids": LENGTH}, num_packing_bins=64)
    for batch in packed.batch(BATCH):
        yield {
            "input_ids": batch["input_ids"],
            "document_ids": batch["input_ids_segment_ids"] - 1,
            "position_ids": batch["input_ids_positions"],
        }


def with_python(tokens: np.ndarray, offsets: np.ndarray) -> Batches:
    """Best fit decreasing with a sorted list, rows by numpy: what is written by hand."""
    lengths = np.diff(offsets)
    rooms: list[tuple[int, int]] = []  # (room, pack), sorted
    packs: list[list[int]] = []
    for document in np.argsort(-lengths, kind="stable").tolist():
        length = int(lengths[document])
        if length == 0:
            continue
        at = bisect.bisect_left(rooms, (length, -1))
        room, pack = rooms.pop(at) if at < len(rooms) else (LENGTH, len(packs))
        if pack == len(packs):
            packs.append([])
        packs[pack].append(document)
        if room > length:
            bisect.insort(rooms, (room - length, pack))
    for begin in range(0, len(packs), BATCH):
        chosen = packs[begin : begin + BATCH]
        batch = {
            name: np.full((len(chosen), LENGTH), value, dtype=np.int64)
            for name, value in (("input_ids", 0), ("labels", -100), ("position_ids", 0), ("document_ids", -1))
        }
        for row, pack in enumerate(chosen):
            at = 0
            for number, document in enumerate(pack):
                ids = tokens[offsets[document] : offsets[document + 1]]
                end = at + len(ids)
                batch["input_ids"][row, at:end] = ids
                batch["labels"][row, at : end - 1] = ids[1:]
                batch["position_ids"][row, at:end] = np.arange(len(ids))
                batch["document_ids"][row, at:end] = number
                at = end
        yield {name: torch.from_numpy(values) for name, values in batch.items()}


def sides() -> dict[str, Callable[[np.ndarray, np.ndarray], Batches]]:
    made = {
        "millrace_best_fit": with_millrace("best_fit"),
        "millrace_first_fit": with_millrace("first_fit"),
        "millrace_concat": with_millrace("concat"),
        "python_best_fit": with_python,
    }
    return {**made, "grain_best_fit": with_grain} if importlib.util.find_spec("grain") else made


def check(name: str, tokens: np.ndarray, offsets: np.ndarray, batches: Batches) -> None:
    """Every token once, its position counted from its document's beginning; of best and first fit, whole
    documents. AssertionError.
    """
    whole = {tokens[begin:end].tobytes() for begin, end in zip(offsets, offsets[1:])}
    seen = []
    for batch in batches:
        for ids, positions, numbers in zip(
            *(np.asarray(batch[n]) for n in ("input_ids", "position_ids", "document_ids"))
        ):
            filled = numbers >= 0
            seen.append(ids[filled])
            begins = np.flatnonzero(np.diff(numbers[filled], prepend=-1))
            ends = [*begins[1:], int(filled.sum())]
            assert all((positions[b:e] == np.arange(e - b)).all() for b, e in zip(begins, ends)), (
                f"{name}: positions do not restart"
            )
            if "concat" not in name:
                assert all(ids[b:e].astype(np.uint16).tobytes() in whole for b, e in zip(begins, ends)), (
                    f"{name}: a document was cut"
                )
    every = np.concatenate(seen)
    assert np.array_equal(np.bincount(every), np.bincount(tokens)), (
        f"{name}: the rows do not hold every token once"
    )


def timed(
    tokens: np.ndarray,
    offsets: np.ndarray,
    side: Callable[[np.ndarray, np.ndarray], Batches],
    cpus: list[int],
) -> dict:
    timer, rows = probes.Epoch(cpus), 0
    for batch in side(tokens, offsets):
        rows += len(batch["input_ids"])
    return {**timer.stop(), "rows": rows, "tokens": len(tokens), "fill": len(tokens) / (rows * LENGTH)}


def measure(scenario: str, rounds: int, cpus: list[int], most: int = 10**9) -> Iterator[dict]:
    """One record per repeat: at least `rounds` quiet rounds, at most twice as many in all."""
    tokens, offsets = documents(scenario, most)
    few = min(LIMITS[scenario], len(offsets) - 1)
    data = {True: (tokens, offsets), False: (tokens[: offsets[few]], offsets[: few + 1])}
    common = {
        "scenario": scenario,
        "cpus": len(cpus),
        **run_facts(("torch", "numpy", "grain")),
        "data": {"documents": len(offsets) - 1, "length": LENGTH},
    }
    for name, side in sides().items():
        print(f"{scenario}  {name}: checking", file=sys.stderr, flush=True)
        check(name, *data[False], side(*data[False]))

    def one_round(repeat: int) -> list[dict]:
        records = []
        for name in list(sides())[:: -1 if repeat % 2 else 1]:
            times = timed(*data[name.startswith("millrace")], sides()[name], cpus)
            records.append(
                {
                    **common,
                    "loader": name,
                    "kind": "epoch",
                    "repeat": repeat,
                    **times,
                    "tokens_per_s": times["tokens"] / times["seconds"],
                }
            )
        return records

    yield from quiet_rounds(rounds, one_round)


def table(records: list[dict]) -> str:
    fill = {"fill": (lambda r: r["fill"], ".2%")}
    return rates_table(
        records, "tokens_per_s", "million tokens/s", fill, best="millrace_best_fit", scale=1e6, form=",.1f"
    )


def main() -> None:
    parser = options(__doc__, "packing", 7, LIMITS)
    arguments = parser.parse_args()
    cpus = hold_to_cpus(1)
    for scenario in arguments.scenario:
        records = stored(measure(scenario, arguments.rounds, cpus), arguments.out)
        print(
            f"**{scenario}**, {records[0]['data']['documents']:,} documents,"
            f" {rounds_told(records)}\n\n{table(records)}\n"
        )


if __name__ == "__main__":
    main()
