"""The C++ library's samplers draw what torch's draw, over two epochs, and leave the generator alike."""

import json
import random
import subprocess
from pathlib import Path

import pytest
import torch
from torch.utils.data import RandomSampler, WeightedRandomSampler

PROGRAM = Path(__file__).parents[2] / "build/dev/tests/cpp/api/api_states"
CASES = 1500  # of each sampler

pytestmark = pytest.mark.skipif(not PROGRAM.exists(), reason="the C++ tests are not built (build/dev)")


def weights_of(draw: random.Random, n: int) -> list[float]:
    kind = draw.randrange(6)
    if kind == 0:
        return [1.0] * n
    if kind == 1:  # most are 0
        return [draw.random() * (draw.random() < 0.2) for _ in range(n - 1)] + [1e-3]
    if kind == 2:  # some of them so small that their sums are lost
        return [draw.random() * 10.0 ** draw.randint(-300, 300) for _ in range(n)]
    if kind == 3:  # floats
        return torch.rand(n, generator=torch.Generator().manual_seed(n)).clamp_min(1e-6).tolist()
    return [draw.random() ** draw.choice([1, 4]) + 1e-9 for _ in range(n)]


def drawn_by_torch(sampler, generator) -> list[list[int]]:
    epochs = []
    for _ in range(2):
        torch.empty((), dtype=torch.int64).random_(generator=generator)  # the iterator's base seed
        epochs.append(list(sampler))
    return epochs


@pytest.mark.parametrize("kind", ["random", "weighted"])
def test_draws_are_torchs(kind: str) -> None:
    draw = random.Random(f"cpp draws {kind}")
    lines, expected = [], []
    for _ in range(CASES):
        n = draw.choice([1, 2, draw.randint(1, 50), draw.randint(1, 50), draw.randint(1, 400)])
        replacement, seed = draw.random() < 0.5, draw.randrange(2**63)
        num = draw.choice([1, 31, 32, 64, n, 2 * n, draw.randint(1, 100)])
        generator = torch.Generator().manual_seed(seed)
        if kind == "random":
            weights: list[float] = []
            sampler = RandomSampler(range(n), replacement, num, generator)
        else:
            weights = weights_of(draw, n)
            num = num if replacement else draw.choice([1, n, max(1, n // 64), draw.randint(1, n)])
            sampler = WeightedRandomSampler(weights, num, replacement, generator)
        expected.append(drawn_by_torch(sampler, generator))
        lines.append(" ".join(map(repr, [seed, num, int(replacement), n, *weights])))
    run = subprocess.run(
        [PROGRAM, "draws"],
        input="".join(f"{kind} {line}\n" for line in lines),
        capture_output=True,
        text=True,
        timeout=600,
    )
    assert run.returncode == 0, run.stderr
    for line, ours, torchs in zip(lines, run.stdout.splitlines(), expected, strict=True):
        assert json.loads(ours) == torchs, line
