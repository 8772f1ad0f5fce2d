"""`python observed.py run SCRIPT ...` is `python -m millrace run SCRIPT ...`, and writes down what ran each
of the script's loaders; `python observed.py plain SCRIPT ...` is `python SCRIPT ...`.

$OBSERVED names a folder. The file RANK.json in it is a list of {"dataset", "engine", "explain"}, in the order
of their first iteration. With $OBSERVED_AS_GPU scripts that ask for a GPU train on the CPU, in gloo's group.
"""

from __future__ import annotations

import functools
import json
import os
import runpy
import sys
from pathlib import Path

import torch


def keep_loaders(kept: list) -> None:
    """Appends each loader to `kept` when it is first iterated."""
    import millrace

    make_iterator = millrace.DataLoader._get_iterator

    def get_iterator(self):
        if all(loader is not self for loader in kept):
            kept.append(self)
        return make_iterator(self)

    millrace.DataLoader._get_iterator = get_iterator


def use_the_cpu() -> None:
    """What moves something to a GPU leaves it where it is. Nothing of the loader's is touched."""

    def nothing(*arguments, **options):
        return None

    def itself(self, *arguments, **options):
        return self

    def on_cpu(make):
        return lambda *arguments, device=None, **options: make(*arguments, **options)

    def model(module, device_ids=None, **options):
        return parallel(module, **options)

    parallel = torch.nn.parallel.DistributedDataParallel
    join = torch.distributed.init_process_group
    torch.nn.parallel.DistributedDataParallel = model
    torch.distributed.init_process_group = lambda *arguments, **options: join(**options | {"backend": "gloo"})
    torch.Tensor.cuda, torch.nn.Module.cuda = itself, functools.partialmethod(itself)
    torch.cuda.set_device = nothing
    torch.cuda.synchronize = functools.partial(nothing)
    torch.tensor = on_cpu(torch.tensor)
    torch.hub.list = lambda *arguments: []  # asks a server


def main() -> int:
    # the ops that torchvision's import misses where its wheel is for another build of torch
    sys.path.insert(0, str(Path(__file__).parents[1] / "python"))
    from loader_data import torchvision_or_skip

    torchvision_or_skip()
    del sys.path[0]
    if os.environ.get("OBSERVED_AS_GPU"):
        use_the_cpu()
    how, script = sys.argv[1:3]
    if how == "plain":
        sys.argv[:2] = []
        sys.argv[0], sys.path[0] = script, os.path.dirname(os.path.abspath(script))
        runpy.run_path(script, run_name="__main__")
        return 0

    from millrace.__main__ import main as command

    kept: list = []
    keep_loaders(kept)
    try:
        return command(sys.argv[1:])
    finally:
        seen = [
            {
                "dataset": type(loader.dataset).__name__,
                "engine": loader.stats()["engine"],
                "explain": loader.explain(),
            }
            for loader in kept
        ]
        Path(os.environ["OBSERVED"], os.environ.get("RANK", "0") + ".json").write_text(json.dumps(seen))


if __name__ == "__main__":
    sys.exit(main())
