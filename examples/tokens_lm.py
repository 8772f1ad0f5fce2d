"""Trains a tiny GPT on the text that ships with Python, from a file of tokens that is never loaded.

    python examples/tokens_lm.py [--steps 300]

The help texts of Python's own language reference become one file of bytes, a document each, as nanoGPT and
Megatron prepare their files; millrace.datasets.Tokens maps it, and the loader's threads cut random windows
out of it. Targets that would ask what the next document begins with are left out of the loss. About ten
seconds on two cores.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from pathlib import Path
from pydoc_data import topics

import millrace
import numpy as np
import torch
from millrace.datasets import Tokens
from torch import nn
from torch.nn import functional

LENGTH, BATCH, WIDTH, LAYERS, HEADS = 64, 16, 96, 2, 4
END = 0  # no byte of a text


def write_tokens(path: Path) -> int:
    """Every text and END behind it, as uint16; returns how many tokens are separators."""
    texts = [text.encode() for _, text in sorted(topics.topics.items())]
    path.write_bytes(
        b"".join(np.frombuffer(text + bytes([END]), np.uint8).astype(np.uint16).tobytes() for text in texts)
    )
    return len(texts)


class Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.before, self.between = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.look, self.join = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)
        self.think = nn.Sequential(nn.Linear(WIDTH, 4 * WIDTH), nn.GELU(), nn.Linear(4 * WIDTH, WIDTH))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        batch, length, _ = x.shape
        heads = self.look(self.before(x)).view(batch, length, 3, HEADS, WIDTH // HEADS).permute(2, 0, 3, 1, 4)
        query, key, value = heads
        seen = functional.scaled_dot_product_attention(query, key, value, is_causal=True)
        x = x + self.join(seen.transpose(1, 2).reshape(batch, length, WIDTH))
        thought: torch.Tensor = self.think(self.between(x))
        return x + thought


class TinyGPT(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.token, self.place = nn.Embedding(256, WIDTH), nn.Embedding(LENGTH, WIDTH)
        self.blocks = nn.Sequential(*(Block() for _ in range(LAYERS)), nn.LayerNorm(WIDTH))
        self.head = nn.Linear(WIDTH, 256)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        scores: torch.Tensor = self.head(self.blocks(self.token(x) + self.place.weight[: x.shape[1]]))
        return scores


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--steps", type=int, default=300)
    steps = parser.parse_args().steps
    torch.manual_seed(0)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "train.bin"
        documents = write_tokens(path)
        tokens = Tokens(
            path, LENGTH, "uint16", stride=1, boundaries="mask", document_separator=END, max_token=255
        )
        print(f"{tokens.token_count:,} tokens of {documents} documents, {len(tokens):,} windows")

        loader = millrace.DataLoader(tokens, BATCH, shuffle=True, num_workers=1, native="require")
        model = TinyGPT()
        optimizer = torch.optim.AdamW(model.parameters(), 2e-3)
        schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, steps, 3e-4)
        started, losses = time.perf_counter(), []
        for step, (x, y) in zip(range(1, steps + 1), loader):
            loss = functional.cross_entropy(model(x).view(-1, 256), y.view(-1))  # leaves out targets of -100
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            schedule.step()
            losses.append(loss.item())
            if step % 50 == 0 or step == 1:
                print(f"step {step}: loss {np.mean(losses[-20:]):.2f}")
        seconds, waited = time.perf_counter() - started, loader.stats()["wait_seconds"]
        print(
            f"{steps * BATCH * LENGTH / seconds:,.0f} tokens/s; {100 * waited / seconds:.1f} % of the time"
            " was spent waiting for batches"
        )


if __name__ == "__main__":
    main()
