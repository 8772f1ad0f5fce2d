"""Texts to padded batches of token ids: millrace against Hugging Face datasets in torch's DataLoader, the
sides taking turns.

    python -m benchmarks.text [--workers 2] [--rounds 5] [--out FILE.jsonl]

The texts are the definitions in the sources of Python's standard library, the tokenizer a BPE of 8,192 tokens
that is trained on some of them; texts are cut at 512 tokens, batches of 32 in random order, padded to their
longest, with masks. Sides:

    millrace        Tokenized over a list of the texts, its threads
    torch           datasets' with_transform(), which tokenizes batches when they are asked for, in worker
    processes torch_mapped    datasets' map() beforehand, timed as kind `map`; epochs read ids from a mapped
    file, in worker processes

Both torch sides pad with torch's pad_sequence. Before anything is timed, each side's epoch must hold the ids
of every text once. Each repeat is one line of JSON. Needs `tokenizers` and `datasets`.
"""

from __future__ import annotations

import os
import re
import sys
import sysconfig
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import torch
from torch.nn.utils.rnn import pad_sequence

from benchmarks import probes
from benchmarks.compare import rates_table
from benchmarks.harness import quiet_rounds, run_facts
from benchmarks.runs import hold_to_cpus, options, rounds_told, stored

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
    tokenizer.train_from_iterator(
        sample,
        trainers.BpeTrainer(
            vocab_size=VOCABULARY,
            special_tokens=["[PAD]"],
            initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
            show_progress=False,
        ),
    )
    return tokenizer


def padded(samples: list[dict[str, Any]]) -> dict[str, torch.Tensor]:
    rows = [torch.as_tensor(sample["input_ids"]) for sample in samples]
    lengths = torch.tensor(list(map(len, rows)))
    ids = pad_sequence(rows, batch_first=True, padding_value=0)
    return {"input_ids": ids, "attention_mask": (torch.arange(ids.shape[1]) < lengths[:, None]).long()}


def loaders(
    data: list[str], tokenizer: Any, workers: int, folder: str
) -> tuple[dict[str, Callable[[], Iterable]], float]:
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
        "millrace": millrace.DataLoader(
            tokenized, BATCH, collate_fn=tokenized.pad(), native="require", **options
        ),
        "torch": torch_loader(plain.with_transform(transform), BATCH, collate_fn=padded, **options),
        "torch_mapped": torch_loader(mapped, BATCH, collate_fn=padded, **options),
    }
    return {name: lambda loader=loader: loader for name, loader in sides.items()}, seconds


def check(name: str, data: list[str], tokenizer: Any, batches: Iterable) -> None:
    """The ids of every text once, in another order. AssertionError."""
    expected = [tuple(encoding.ids[:LENGTH]) for encoding in tokenizer.encode_batch(data)]
    seen = [
        tuple(row[mask > 0].tolist())
        for batch in batches
        for row, mask in zip(batch["input_ids"], batch["attention_mask"])
    ]
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
    """One record per epoch: at least `rounds` quiet rounds, at most twice as many in all; and one of
    map().
    """
    os.environ.setdefault(
        "TOKENIZERS_PARALLELISM", "false"
    )  # of all sides: the loaders' workers are what works in parallel
    data = texts(count)
    tokenizer = trained_tokenizer(data[::10])
    with tempfile.TemporaryDirectory() as folder:
        sides, map_seconds = loaders(data, tokenizer, workers, folder)
        common = {
            "scenario": "definitions",
            "cpus": len(cpus),
            "workers": workers,
            **run_facts(("torch", "tokenizers", "datasets")),
            "data": {"texts": len(data), "characters": sum(map(len, data))},
        }
        yield {
            **common,
            "loader": "torch_mapped",
            "kind": "map",
            "repeat": 0,
            "seconds": map_seconds,
            "rows": len(data),
            "quiet": True,
        }
        for name, epochs in sides.items():
            print(f"text  {name}: checking", file=sys.stderr, flush=True)
            check(name, data, tokenizer, epochs())

        def one_round(repeat: int) -> list[dict]:
            records = []
            for name in list(sides)[:: -1 if repeat % 2 else 1]:
                times = timed_epoch(sides[name](), cpus)
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
    return rates_table(
        records,
        "tokens_per_s",
        "tokens/s",
        {
            "texts/s": (lambda r: r["rows"] / r["seconds"], ",.0f"),
            "CPU s per 1,000,000 tokens": (lambda r: r["cpu_seconds"] / r["tokens"] * 1e6, ".2f"),
        },
    )


def main() -> None:
    parser = options(__doc__, "text", 5)
    parser.add_argument("--texts", type=int, default=8_000)
    parser.add_argument("--workers", type=int, default=2)
    arguments = parser.parse_args()
    records = stored(
        measure(arguments.texts, arguments.workers, arguments.rounds, hold_to_cpus(2)), arguments.out
    )
    mapped = next(r["seconds"] for r in records if r["kind"] == "map")
    print(
        f"{records[0]['data']['texts']:,} texts, {arguments.workers} workers, {rounds_told(records)}; map()"
        f" took {mapped:.1f} s\n\n{table(records)}\n"
    )


if __name__ == "__main__":
    main()
