"""Which generators are set aside for a collate_fn: torch's alone where no other can be drawn from."""

import random

import numpy as np
import pytest
import torch
from loader_data import torchvision_or_skip
from millrace._loader.engines.python_collate import PythonCollate, draws_from_torch_alone

torchvision_or_skip()
from torchvision.transforms import v2  # noqa: E402


def mixers():
    return {"MixUp": v2.MixUp(num_classes=5), "CutMix": v2.CutMix(num_classes=5)}


@pytest.mark.parametrize("name", ["MixUp", "CutMix"])
def test_torchvisions_draw_from_torch_alone(name, monkeypatch):
    def other(*_):
        raise AssertionError("another generator")

    mixer = mixers()[name]
    assert draws_from_torch_alone(mixer) and draws_from_torch_alone(v2.RandomChoice([mixer, mixer]))
    for module, names in (
        (random, ["random", "uniform", "getrandbits"]),
        (np.random, ["rand", "random", "beta"]),
    ):
        for drawn in names:
            monkeypatch.setattr(module, drawn, other)
    before = random.getstate(), np.random.get_state(legacy=False)["state"]["key"].tolist()
    for _ in range(20):
        mixer(torch.zeros(4, 3, 8, 8), torch.arange(4))
    assert before == (random.getstate(), np.random.get_state(legacy=False)["state"]["key"].tolist())


def test_whatever_else_may_draw_from_all(monkeypatch):
    class Own(v2.MixUp):
        def make_params(self, flat_inputs):
            return {"lam": random.random()}

    hooked = v2.MixUp(num_classes=5)
    hooked.register_forward_hook(lambda *_: random.random())
    changed = v2.MixUp(num_classes=5)
    changed.make_params = lambda flat_inputs: {"lam": random.random()}
    drawn = v2.MixUp(num_classes=5)
    drawn._dist = torch.distributions.Uniform(0.0, 1.0)
    labelled = v2.MixUp(num_classes=5, labels_getter=lambda inputs: inputs[1])
    others = [
        Own(num_classes=5),
        hooked,
        changed,
        drawn,
        labelled,
        lambda *batch: batch,
        None,
        v2.RandomErasing(),
    ]
    assert not any(map(draws_from_torch_alone, others))
    assert not draws_from_torch_alone(v2.RandomChoice([v2.MixUp(num_classes=5), changed]))
    monkeypatch.setattr(v2.MixUp, "make_params", Own.make_params)
    assert not draws_from_torch_alone(v2.MixUp(num_classes=5))


@pytest.mark.parametrize(
    "mixer", [v2.MixUp(num_classes=5), lambda images, labels: (images * np.random.rand(), labels)]
)
def test_batches_follow_their_place_and_the_loops_generators_stay(mixer):
    collate = PythonCollate(mixer, True, True, False, torch.Tensor)
    pictures, labels = torch.rand(4, 3, 8, 8), torch.arange(4)
    before = torch.get_rng_state(), random.getstate(), np.random.get_state()[1].tolist()
    made = [collate.seeded([pictures.clone(), labels], *place) for place in ((1, 0, 0), (1, 0, 1), (1, 0, 0))]
    assert torch.equal(made[0][0], made[2][0]) and not torch.equal(made[0][0], made[1][0])
    assert torch.equal(torch.get_rng_state(), before[0])
    assert (random.getstate(), np.random.get_state()[1].tolist()) == before[1:]
