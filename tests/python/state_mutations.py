"""Loaders, samplers and datasets of every kind, whose states are damaged at random: what comes of each is
counted.

    python tests/python/state_mutations.py [--count 1500] [--seed 0] [--verify no] [--json FILE]

prints a table: how many of the damaged states gave the rest of the epoch all the same, were refused with a
sentence, or are the documented {}; and how many went on elsewhere, or ended in an error that says nothing, of
which there should be none. With `--verify no` the states are loaded as hand-made ones, without a look at
their checksum: what they hold is all that can be known, and other places are then places. What came last of
1,500 is in state_mutations.json.
"""

from __future__ import annotations

import argparse
import copy
import io
import json
import pickle
import random
import sys
import tempfile
import traceback
import warnings
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import millrace
import numpy as np
import torch
from line_data import write_json
from loader_data import make_folder
from millrace import DataLoader, DevicePrefetcher, samplers, transforms
from millrace.datasets import (
    JSONL,
    ArrowFile,
    ImageFolder,
    JSONLStream,
    PackedSequences,
    PackedStream,
    Tokens,
    WebDataset,
)
from millrace.datasets.webdataset import Mixture
from sampler_cases import GLOBAL_ORDERS
from shard_data import make_picture_shards, numbered_shards
from test_resume import Counting, Growing, Squares
from torch.utils.data import TensorDataset

ROWS = TensorDataset(torch.arange(60))
OUTCOMES = ("same", "refused", "documented", "elsewhere", "no sentence")
GOOD = OUTCOMES[:3]


class Kind(NamedTuple):
    """`make()`: something with state_dict() and load_state_dict() that is iterated over; `rest`: how; `cut`:
    behind so many items.
    """

    make: Callable[[], Any]
    cut: int = 2


class TensorState(Squares):
    """Its state has tensors, arrays, bytes, an object, and keys that json makes text of."""

    def __init__(self) -> None:
        self.given = 0

    def __getitem__(self, index: int) -> int:
        self.given += 1
        return self.given

    def state_dict(self) -> dict[str, Any]:
        given = self.given
        return {
            "given": given,
            7: [given, (given, None)],
            "rows": torch.arange(given),
            "raw": b"x" * given,
            "more": {"a": np.ones(given)},
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.given = int(state["given"])


def three(sample: Any) -> list[int]:
    return [int(sample[0])] * 3


def own() -> torch.Generator:
    return torch.Generator().manual_seed(3)


def kinds(folder: Path) -> dict[str, Kind]:
    make_folder(folder / "pictures", 14)
    numbers = numbered_shards(folder / "numbers", [5, 7, 4, 8])
    make_picture_shards(folder / "shards", [6, 8])
    lines = [write_json(folder / f"{i}.jsonl", [{"a": 10 * i + j} for j in range(10)]) for i in range(3)]
    np.arange(200, dtype=np.uint16).tofile(folder / "tokens.bin")
    tokens = Tokens(folder / "tokens.bin", 4, "uint16")
    documents = [list(range(n)) for n in (3, 9, 4, 4, 7, 2, 6, 5, 8, 1, 3, 9)]
    pictures = ImageFolder(
        folder / "pictures", transforms.Compose([transforms.RandomResizedCrop(16), transforms.ToTensor()])
    )
    fixed = transforms.Compose([transforms.Resize((16, 16)), transforms.ToTensor()])

    def web() -> Any:
        return WebDataset(numbers, shardshuffle=True, seed=4).shuffle(5).decode().to_tuple("cls")

    def shown() -> Any:
        shards = sorted(map(str, (folder / "shards").glob("*.tar")))
        return (
            WebDataset(shards, seed=4).shuffle(3).decode("pil").to_tuple("jpg", "cls").map_tuple(fixed, int)
        )

    def mixed() -> Any:
        return Mixture([web(), web()], [2, 1])

    def loader(dataset: Callable[[], Any], size: int = 3, **options: Any) -> Kind:
        return Kind(lambda: DataLoader(dataset(), size, **options))

    def merged() -> Any:
        return _Ranks()

    found = {
        "pictures, threads": loader(lambda: pictures, num_workers=2, shuffle=True, native="require"),
        "pictures, inline": loader(lambda: pictures, shuffle=True, native="require"),
        "rows": loader(lambda: ROWS, shuffle=True),
        "rows, own generator": Kind(lambda: DataLoader(ROWS, 3, shuffle=True, generator=own())),
        "rows, threads": loader(lambda: ROWS, num_workers=2, shuffle=True, persistent_workers=True),
        "rows, in order": loader(lambda: ROWS),
        "rows, weighted": Kind(
            lambda: DataLoader(ROWS, 3, sampler=torch.utils.data.WeightedRandomSampler(torch.ones(60), 40))
        ),
        "rows, mixture": Kind(
            lambda: DataLoader(ROWS, 3, sampler=samplers.MixtureSampler([20, 40], [1, 2], seed=1))
        ),
        "rows, buffer": Kind(
            lambda: DataLoader(ROWS, 3, sampler=samplers.ShuffleBuffer(7)(samplers.PermutationSampler(60)))
        ),
        "rows of ranks, merged": Kind(merged),
        "tokens": loader(lambda: tokens, num_workers=2, shuffle=True),
        "packed": loader(lambda: PackedSequences(documents, 10), shuffle=True),
        "packed stream": loader(lambda: PackedStream(web().map(three), 7, window=4)),
        "JSONL": loader(lambda: JSONL(lines, index_dir=str(folder / "index")), shuffle=True, num_workers=2),
        "JSONL stream": loader(lambda: JSONLStream(lines, shuffle_files=True)),
        "shards": loader(web),
        "shards, processes": loader(web, num_workers=2),
        "shards of pictures": loader(shown, num_workers=2, native="require"),
        "mixture of shards": loader(mixed),
        "Python": loader(Squares, shuffle=True),
        "Python, processes": loader(Squares, shuffle=True, num_workers=2),
        "Python, threads": loader(Squares, shuffle=True, num_workers=2, worker_method="thread"),
        "Python, user's batches": Kind(lambda: DataLoader(Squares(), batch_sampler=Growing())),
        "Stateful": loader(TensorState),
        "Stateful, processes": loader(TensorState, num_workers=2),
        "stream": loader(Counting),
        "stream, processes": loader(Counting, num_workers=2),
        "stream, threads": loader(Counting, num_workers=2, worker_method="thread"),
        "prefetched": Kind(
            lambda: DevicePrefetcher(
                DataLoader(ROWS, 3, shuffle=True, num_workers=2), "cpu", channels_last=True
            )
        ),
        "dataset: shards": Kind(web, 6),
        "dataset: mixture": Kind(mixed, 6),
        "dataset: JSON lines": Kind(lambda: JSONLStream(lines, shuffle_files=True), 6),
        "dataset: packed stream": Kind(lambda: PackedStream(documents, 7, window=4), 3),
        "sampler: random": Kind(lambda: samplers.RandomSampler(range(40), generator=own()), 6),
        "sampler: batches": Kind(lambda: samplers.BatchSampler(samplers.PermutationSampler(40), 3, False), 4),
        "sampler: buffer of a stream": Kind(lambda: samplers.ShuffleBuffer(6)(web()), 6),
        **{
            f"sampler: {name}": Kind(lambda case=case: case.make(2, 1, False), 6)
            for name, case in GLOBAL_ORDERS.items()
        },
    }
    try:
        import pyarrow as pa
        from pyarrow import feather
    except ImportError:
        return found
    feather.write_feather(pa.table({"row": list(range(40))}), str(folder / "t.arrow"), chunksize=9)
    table = ArrowFile(str(folder / "t.arrow"))
    found["table"] = Kind(lambda: DataLoader(table, 3, sampler=table.shuffled(2, 3), num_workers=2))
    return found


class _Ranks:
    """Two ranks, whose merged state one goes on from."""

    def __init__(self) -> None:
        self._ranks = [
            DataLoader(ROWS, 3, sampler=samplers.PermutationSampler(60, num_replicas=2, rank=rank))
            for rank in range(2)
        ]

    def __iter__(self) -> Any:
        yield from zip(*self._ranks)

    def state_dict(self) -> Any:
        return millrace.merge_states([rank.state_dict() for rank in self._ranks])

    def load_state_dict(self, state: Any, verify: bool = True) -> None:
        for rank in self._ranks:
            rank.load_state_dict(state, verify=verify)


# ---------------------------------------------------------------- what is kept


def through_json(state: Any) -> Any:
    return json.loads(json.dumps(state))


def through_sorted_json(state: Any) -> Any:
    return json.loads(json.dumps(state, sort_keys=True))


def through_pickle(state: Any) -> Any:
    return pickle.loads(pickle.dumps(state))


def through_torch(state: Any) -> Any:
    file = io.BytesIO()
    torch.save({"epoch": 3, "loader": state}, file)
    file.seek(0)
    return torch.load(file, weights_only=False)["loader"]


FILES = (through_json, through_sorted_json, through_pickle, through_torch)


def kept(state: Any, through: Callable[[Any], Any]) -> Any:
    """`state` from such a file; by pickle where it is not of JSON's types."""
    try:
        return through(state)
    except TypeError:
        return through_pickle(state)


# ---------------------------------------------------------------- damage


def places(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """The paths of all that is in it."""
    items: Any = (
        value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    )
    return [place for key, inner in items for place in ((*path, key), *places(inner, (*path, key)))]


def damaged(state: Any, rng: random.Random) -> tuple[Any, str]:
    """A copy with one thing changed, and what. At times the same state comes out."""
    state = copy.deepcopy(state)
    found = places(state)
    if not found or rng.random() < 0.02:
        half = {key: state[key] for key in list(state)[: len(state) // 2]}
        value = rng.choice([{}, [], None, "", b"", 0, [state], {"state": state}, half])
        return value, f"the state itself is {str(value)[:30]}"
    *way, last = path = rng.choice(found)
    holder = state
    for key in way:
        holder = holder[key]
    value = holder[last]
    what = rng.choice(
        ["delete", "change", "change", "change", "swap type", "None", "empty", "cut", "nest", "move"]
    )
    if what == "delete":
        del holder[last]
    elif what == "move" and isinstance(holder, dict):
        holder[f"{last}_"] = holder.pop(last)
    else:
        holder[last] = _instead(value, what, rng)
    return state, f"{what} {'/'.join(map(str, path))}: {str(value)[:40]}"


def _instead(value: Any, what: str, rng: random.Random) -> Any:
    if what == "None":
        return None
    if what == "empty":
        return rng.choice(["", b"", [], {}])
    if what == "nest":
        return rng.choice([[value], {"value": value}, (value,)])
    if what == "swap type":
        return rng.choice([str(value), 0.5, True, [1], {"a": 1}, 3, b"abc"])
    if isinstance(value, bool):
        return not value
    if isinstance(value, (int, float)):
        return rng.choice([value + 1, value - 1, value * 2 + 1, -1, 0, 10**6, 2**70])
    if isinstance(value, (str, bytes, list, tuple)):
        if what == "cut" or not len(value):
            return value[: len(value) // 2]
        at = rng.randrange(len(value))
        return value[:at] + value[at + 1 :]
    if isinstance(value, dict):
        return dict(list(value.items())[: len(value) // 2])
    return None


# ---------------------------------------------------------------- what comes of it


class Run:
    """One kind, stopped once: its state there, and what would have come."""

    def __init__(self, kind: Kind) -> None:
        self._make = kind.make
        torch.manual_seed(1)
        first = kind.make()
        iterator = iter(first)
        for _ in range(kind.cut):
            next(iterator)
        self.state = first.state_dict()
        self.rest = values(iterator)
        self.begun = values(self._new())

    def _new(self) -> Any:
        torch.manual_seed(2)
        return self._make()

    def outcome(self, state: Any, verify: bool = True) -> tuple[str, BaseException | None]:
        resumed = self._new()
        try:
            resumed.load_state_dict(state) if verify else resumed.load_state_dict(state, verify=False)
            seen = values(resumed)
        except Exception as error:
            good = isinstance(error, (millrace.StateError, millrace.UnavailableError)) or (
                type(error) is TypeError and "state is a dict" in str(error)
            )
            return "refused" if good else "no sentence", error
        if seen == self.rest:
            return "same", None
        return "documented" if state == {} and seen == self.begun else "elsewhere", None


def values(items: Any) -> list[str]:
    """A state that sends it to an endless place should not end the test."""
    found = []
    for item in items:
        found.append(str(item))
        if len(found) > 500:
            break
    return found


def count_outcomes(
    runs: dict[str, Run], count: int, seed: int, verify: bool = True, tell: Any = None
) -> dict[str, Counter[str]]:
    """`count` damaged states, as many of each kind. `tell(kind, what, outcome, error)` of the bad ones."""
    rng = random.Random(seed)
    table = {name: Counter() for name in runs}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for number in range(count):
            name = list(runs)[number % len(runs)]
            run = runs[name]
            state = kept(run.state, rng.choice(FILES))
            changed, what = damaged(state, rng)
            outcome, error = run.outcome(changed, verify)
            table[name][outcome] += 1
            if tell is not None and outcome not in GOOD:
                tell(name, what, outcome, error)
    return table


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--count", type=int, default=1500)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--verify", choices=("yes", "no"), default="yes")
    parser.add_argument("--traces", action="store_true", help="where errors without a sentence come from")
    parser.add_argument("--json", type=Path, help="where the counts are written to, too")
    arguments = parser.parse_args()
    violations = []

    def tell(name: str, what: str, outcome: str, error: BaseException | None) -> None:
        violations.append(f"{outcome}: {name}: {what}: {error!r}")
        print(violations[-1], file=sys.stderr, flush=True)
        if arguments.traces and error is not None:
            traceback.print_exception(error)

    with tempfile.TemporaryDirectory() as folder:
        runs = {name: Run(kind) for name, kind in kinds(Path(folder)).items()}
        table = count_outcomes(runs, arguments.count, arguments.seed, arguments.verify == "yes", tell)
    print("| state of | " + " | ".join(OUTCOMES) + " |")
    print("|---|" + "---:|" * len(OUTCOMES))
    for name, outcomes in {**table, "all": sum(table.values(), Counter())}.items():
        print(f"| {name} | " + " | ".join(str(outcomes[outcome]) for outcome in OUTCOMES) + " |")
    if arguments.json is not None:
        facts = {**vars(arguments), "json": None, "torch": torch.__version__, "violations": violations}
        arguments.json.write_text(json.dumps({**facts, "counts": table}, indent=1) + "\n")
    return 1 if violations else 0


if __name__ == "__main__":
    sys.exit(main())
