"""Trains, is killed in the middle of an epoch, and goes on as if nothing had happened.

    python examples/resume.py                 # starts itself twice: a run that dies, and one that resumes it
    python examples/resume.py --folder DIR    # one run; resumes from DIR/checkpoint.json if it is there

The loader's state goes into the checkpoint beside the model's. It is exact at every batch, whatever the
workers had prepared, and a few kilobytes of JSON: with native transforms, crops and flips go on as well.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import torch
from millrace import DataLoader
from torch.utils.data import Dataset

SAMPLES, BATCH, EPOCHS, EVERY = 1000, 32, 3, 5


class Waves(Dataset[Any]):
    """A sine wave with noise, and its frequency."""

    def __len__(self) -> int:
        return SAMPLES

    def __getitem__(self, index: int) -> tuple[torch.Tensor, torch.Tensor]:
        frequency = torch.tensor(1 + index % 7, dtype=torch.float32)
        return torch.sin(frequency * torch.linspace(0, 3, 64)), frequency


def train(folder: Path, die_after: int | None) -> None:
    torch.manual_seed(0)
    network = torch.nn.Sequential(torch.nn.Linear(64, 32), torch.nn.ReLU(), torch.nn.Linear(32, 1))
    optimizer = torch.optim.Adam(network.parameters(), 1e-2)
    # A generator of the loader's own is part of its state, so that later epochs are those of the first run,
    # too.
    generator = torch.Generator().manual_seed(1)
    loader = DataLoader(Waves(), BATCH, shuffle=True, num_workers=2, generator=generator)
    epoch, steps, seen = 0, 0, []

    checkpoint = folder / "checkpoint.json"
    if checkpoint.exists():
        saved = json.loads(checkpoint.read_text())
        loader.load_state_dict(saved["loader"])
        network.load_state_dict(torch.load(folder / "model.pt"))
        optimizer.load_state_dict(torch.load(folder / "optimizer.pt"))
        epoch, steps, seen = saved["epoch"], saved["steps"], saved["seen"]
        print(f"resumed in epoch {epoch + 1}, behind step {steps}")

    for epoch in range(epoch, EPOCHS):
        for waves, frequencies in loader:
            loss = torch.nn.functional.mse_loss(network(waves)[:, 0], frequencies)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            steps += 1
            seen.append(round(loss.item(), 5))
            if steps % EVERY == 0:
                torch.save(network.state_dict(), folder / "model.pt")
                torch.save(optimizer.state_dict(), folder / "optimizer.pt")
                state = {"loader": loader.state_dict(), "epoch": epoch, "steps": steps, "seen": seen}
                (folder / "new.json").write_text(json.dumps(state))
                os.replace(folder / "new.json", checkpoint)  # a checkpoint is whole or not there
            if steps == die_after:
                print(f"killed in epoch {epoch + 1}, at step {steps}")
                sys.stdout.flush()
                os._exit(1)
    (folder / "losses.json").write_text(json.dumps(seen))
    print(f"done: {steps} steps, last loss {seen[-1]:.4f}")


def demonstrate() -> None:
    with tempfile.TemporaryDirectory() as scratch:
        whole, parted = Path(scratch, "whole"), Path(scratch, "parted")
        for folder, extra in ((whole, []), (parted, ["--die-after", "43"]), (parted, [])):
            folder.mkdir(exist_ok=True)
            first = "a run that is never stopped" if folder == whole else "and is started again"
            print(f"--- {'a run that dies' if extra else first}")
            subprocess.run([sys.executable, __file__, "--folder", folder, *extra], check=False)
        same = (whole / "losses.json").read_text() == (parted / "losses.json").read_text()
        print(f"--- the losses of all steps are {'the same' if same else 'NOT the same'}")
        sys.exit(not same)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "--folder", type=Path, help="where checkpoints are; without it, the whole story is told"
    )
    parser.add_argument("--die-after", type=int, help="steps after which the process ends without a word")
    arguments = parser.parse_args()
    if arguments.folder is None:
        demonstrate()
    else:
        arguments.folder.mkdir(parents=True, exist_ok=True)
        train(arguments.folder, arguments.die_after)


if __name__ == "__main__":
    main()
