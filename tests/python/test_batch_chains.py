"""Chains with steps behind the resize, as a device makes them, on the CPU reference: the pictures of the
CPU's transforms.
"""

import millrace
import pytest
import torch
from chain_cases import chains, lowered, number_chains, on_device, pictures
from millrace import _core, transforms
from millrace.transforms.batch.fused import by_pipeline

CHAINS = chains()
NUMBERS = number_chains()
COUNT = 24


@pytest.mark.parametrize("name", CHAINS)
def test_pictures_are_those_of_the_cpus_transforms(name):
    pipeline = _core.ImagePipeline(CHAINS[name])
    made = on_device(CHAINS[name], "cpu", COUNT, seed=5)
    wanted = torch.stack([pipeline.apply(p.numpy(), 5, 0, i) for i, p in enumerate(pictures(COUNT))])
    assert made.dtype == torch.uint8 and torch.equal(made, wanted)


@pytest.mark.parametrize("name", NUMBERS)
def test_numbers_are_those_of_the_cpus_transforms(name):
    chain, options = NUMBERS[name]
    pipeline = _core.ImagePipeline(chain)
    wanted = torch.stack([pipeline.apply(p.numpy(), 5, 0, i) for i, p in enumerate(pictures(COUNT))])
    for channels_last in (False, True):
        options = options | {"dtype": torch.float32, "channels_last": channels_last}
        made = on_device(chain, "cpu", COUNT, seed=5, **options)
        assert made.dtype == torch.float32 and torch.equal(made, wanted)


def test_types_and_layouts_hold_the_same_pictures():
    chain = CHAINS["policy of all"]
    bytes_ = on_device(chain, "cpu", COUNT)
    mean, std = [0.4, 0.5, 0.6], [0.2, 0.25, 0.3]
    wanted = (bytes_ / 255 - torch.tensor(mean).view(3, 1, 1)) / torch.tensor(std).view(3, 1, 1)
    for channels_last in (False, True):
        options = {"mean": mean, "std": std, "channels_last": channels_last}
        made = on_device(chain, "cpu", COUNT, dtype=torch.float32, **options)
        torch.testing.assert_close(made, wanted, rtol=0, atol=2e-6)
        assert made.is_contiguous(memory_format=torch.channels_last) == channels_last
        half = on_device(chain, "cpu", COUNT, dtype=torch.float16, **options)
        assert torch.equal(half, made.half())


def test_what_is_the_cpus_is_refused():
    chain = lowered(transforms.ColorJitter(0.4), transforms.RandomResizedCrop(8))
    with pytest.raises(millrace.UnavailableError, match="picture 0 is the CPU's"):
        by_pipeline(pictures(2), _core.ImagePipeline(chain), 0)
    with pytest.raises(ValueError, match="one size"):
        by_pipeline(pictures(2), _core.ImagePipeline(lowered(transforms.Resize(20))), 0)
