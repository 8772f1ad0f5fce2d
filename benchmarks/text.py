"""Texts to padded batches of token ids: millrace against Hugging Face datasets in torch's DataLoader, the sides taking turns.

    python -m benchmarks.text [--workers 2] [--rounds 5] [--out FILE.jsonl]

The texts are the definitions in the sources of Python's standard library, the tokenizer a BPE of 8,192 tokens that is trained on some of
them; texts are cut at 512 tokens, batches of 32 in random order, padded to their longest, with masks. Sides:

    millrace        Tokenized over a list of the texts, its threads
    torch           datasets' with_transform(), which tokenizes batches when they are asked for, in worker processes
    torch_mapped    datasets' map() beforehand, timed as kind `map`; epochs read ids from a mapped file, in worker processes

Both torch sides pad with torch's pad_sequence. Before anything is timed, each side's epoch must hold the ids of every text once. Each
repeat is one line of JSON. Needs `tokenizers` and `datasets`.
"""
from __future__ import annotations

import argparse
import json
import os
import re
import statistics
import sys
import sysconfig
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from importlib.metadata import version
from pathlib import Path
from typing import Any

import torch
from torch.nn.utils.rnn import pad_sequence

from benchmarks import probes
from benchmarks.compare import interval
from benchmarks.harness import choose_cpus, revision
from benchmarks.runs import quiet_rounds

LENGTH, BATCH, VOCABULARY = 512, 32, 8192


def texts(most: int) -> list[str]:
    found: list[str] = []
    for path in sorted(Path(sysconfig.get_paths()["stdlib"]).rglob("*.py")):
        if "site-packages" not in path.parts:
            text = path.read_text(encoding="utf-8", errors="replace")
            found += [part for part in re.split(r"\n(?=(?:def|class|@|async def)\b)", text) if part]
            if len(found) >= most:
                break
    return found[:most]


def trained_tokenizer(sample: list[str]):
    from tokenizers import Tokenizer, models, pre_tokenizers, trainers

    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.train_from_iterator(sample, trainers.BpeTrainer(
        vocab_size=VOCABULARY, special_tokens=["[PAD]"], initial_alphabet=pre_tokenizers.ByteLevel.alphabet(), show_progress=False))
    return tokenizer


def padded(samples: list[dict[str, Any]]) -> dict[str, torch.Tensor]:
    rows = [torch.as_tensor(sample["input_ids"]) for sample in samples]
    lengths = torch.tensor(list(map(len, rows)))
    ids = pad_sequence(rows, batch_first=True, padding_value=0)
    return {"input_ids": ids, "attention_mask": (torch.arange(ids.shape[1]) < lengths[:, None]).long()}


def loaders(data: list[str], tokenizer: Any, workers: int, folder: str) -> tuple[dict[str, Callable[[], Iterable]], float]:
    """({name: begins an epoch}, seconds of map())"""
    import datasets

    import millrace

    datasets.disable_progress_bars()
    cut = type(tokenizer).from_str(tokenizer.to_str())
    cut.enable_truncation(LENGTH)

    def transform(batch: dict[str, list[str]]) -> dict[str, list[list[int]]]:
        return {"input_ids": [encoding.ids for encoding in cut.encode_batch(batch["text"])]}

    plain = datasets.Dataset.from_dict({"text": data})
    start = time.perf_counter()
    plain.map(transform, batched=True, remove_columns=["text"]).save_to_disk(folder)
    seconds = time.perf_counter() - start
    mapped = datasets.load_from_disk(folder).with_format("torch")
    options = {"shuffle": True, "num_workers": workers, "persistent_workers": workers > 0}
    tokenized = millrace.datasets.Tokenized(data, tokenizer, max_length=LENGTH, pad_id=0)
    torch_loader = torch.utils.data.DataLoader
    sides = {
        "millrace": millrace.DataLoader(tokenized, BATCH, collate_fn=tokenized.pad(), native="require", **options),
        "torch": torch_loader(plain.with_transform(transform), BATCH, collate_fn=padded, **options),
        "torch_mapped": torch_loader(mapped, BATCH, collate_fn=padded, **options),
    }
    return {name: lambda loader=loader: loader for name, loader in sides.items()}, seconds


def check(name: str, data: list[str], tokenizer: Any, batches: Iterable) -> None:
    """The ids of every text once, in another order. AssertionError."""
    expected = [tuple(encoding.ids[:LENGTH]) for encoding in tokenizer.encode_batch(data)]
    seen = [tuple(row[mask > 0].tolist()) for batch in batches for row, mask in zip(batch["input_ids"], batch["attention_mask"])]
    assert sorted(seen) == sorted(expected), f"{name}: an epoch does not hold the ids of every text once"
    assert seen != expected, f"{name}: the order was not shuffled"


def timed_epoch(batches: Iterable, cpus: list[int]) -> dict:
    timer, rows, tokens, first = probes.Epoch(cpus), 0, 0, None
    start = time.perf_counter()
    for batch in batches:
        first = first or time.perf_counter() - start
        rows += len(batch["input_ids"])
        tokens += int(batch["attention_mask"].sum())
    return {**timer.stop(), "rows": rows, "tokens": tokens, "first_s": first}


def measure(count: int, workers: int, rounds: int, cpus: list[int]) -> Iterator[dict]:
    """One record per epoch: at least `rounds` quiet rounds, at most twice as many in all; and one of map()."""
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")  # of all sides: the loaders' workers are what works in parallel
    data = texts(count)
    tokenizer = trained_tokenizer(data[::10])
    with tempfile.TemporaryDirectory() as folder:
        sides, map_seconds = loaders(data, tokenizer, workers, folder)
        common = {"scenario": "definitions", "cpus": len(cpus), "workers": workers, "run": time.strftime("%Y-%m-%dT%H:%M:%S"),
                  "revision": revision(), "machine": probes.machine(), "data": {"texts": len(data), "characters": sum(map(len, data))},
                  "versions": {name: version(name) for name in ("torch", "tokenizers", "datasets")}}
        yield {**common, "loader": "torch_mapped", "kind": "map", "repeat": 0, "seconds": map_seconds, "rows": len(data), "quiet": True}
        for name, epochs in sides.items():
            print(f"text  {name}: checking", file=sys.stderr, flush=True)
            check(name, data, tokenizer, epochs())

        def one_round(repeat: int) -> list[dict]:
            records = []
            for name in list(sides)[:: -1 if repeat % 2 else 1]:
                times = timed_epoch(sides[name](), cpus)
                records.append({**common, "loader": name, "kind": "epoch", "repeat": repeat, **times,
                                "tokens_per_s": times["tokens"] / times["seconds"]})
            return records

        yield from quiet_rounds(rounds, one_round)


def table(records: list[dict]) -> str:
    """Fastest first; the factor is millrace over the row, round by round."""
    epochs = [r for r in records if r["kind"] == "epoch"]
    kept = [r for r in epochs if r["quiet"]] or epochs
    by_name: dict[str, dict[int, dict]] = {}
    for record in kept:
        by_name.setdefault(record["loader"], {})[record["repeat"]] = record
    ours = by_name["millrace"]
    lines = ["| loader | tokens/s | min – max | texts/s | CPU s per 1,000,000 tokens | millrace is faster by |",
             "|---|---:|---:|---:|---:|---:|"]
    for name, repeats in sorted(by_name.items(), key=lambda item: -statistics.median(r["tokens_per_s"] for r in item[1].values())):
        rates = [r["tokens_per_s"] for r in repeats.values()]
        factors = [ours[repeat]["tokens_per_s"] / r["tokens_per_s"] for repeat, r in repeats.items() if repeat in ours]
        low, high = interval(factors)
        factor = "" if repeats is ours else f"{statistics.median(factors):.2f} × ({low:.2f} – {high:.2f})"
        rows = statistics.median(r["rows"] / r["seconds"] for r in repeats.values())
        cpu = statistics.median(r["cpu_seconds"] / r["tokens"] for r in repeats.values()) * 1e6
        lines.append(f"| {name} | **{statistics.median(rates):,.0f}** | {min(rates):,.0f} – {max(rates):,.0f} | {rows:,.0f} | {cpu:.2f} | "
                     f"{factor} |")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--texts", type=int, default=8_000)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--out", default="benchmarks/results/text/local.jsonl", help="results are appended to this file")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    cpus = choose_cpus(min(2, len(os.sched_getaffinity(0))))
    os.sched_setaffinity(0, cpus)
    os.makedirs(os.path.dirname(os.path.abspath(arguments.out)), exist_ok=True)
    records = []
    with open(arguments.out, "a") as out:
        for record in measure(arguments.texts, arguments.workers, arguments.rounds, cpus):
            records.append(record)
            print(json.dumps(record), file=out, flush=True)
    quiet = sum(r["quiet"] for r in records if r["kind"] == "epoch") // 3
    mapped = next(r["seconds"] for r in records if r["kind"] == "map")
    print(f"{records[0]['data']['texts']:,} texts, {arguments.workers} workers, {quiet} quiet rounds of {records[-1]['repeat'] + 1}; "
          f"map() took {mapped:.1f} s, {records[0]['machine']['cpu']}\n\n{table(records)}\n")


if __name__ == "__main__":
    main()
