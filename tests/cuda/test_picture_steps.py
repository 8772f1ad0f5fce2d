"""Steps behind the resize (policies, AugMix, maps, blurs, colours, paddings) by CUDA's kernels against the
CPU reference, to the last bit; tests/python/test_batch_chains.py compares that with the CPU's transforms.
"""

import pytest
import torch
from chain_cases import chains, number_chains, on_device, pictures
from millrace import _core
from millrace.transforms.batch.fused import by_pipeline

CHAINS = chains()
NUMBERS = number_chains()
COUNT = 130  # more than share a workspace at a time


def same(chain, count, **options):
    there, here = (on_device(chain, device, count, **options) for device in ("cuda", "cpu"))
    assert there.is_cuda and there.dtype == here.dtype and there.stride() == here.stride()
    assert torch.equal(there.cpu(), here)


@pytest.mark.parametrize("name", CHAINS)
def test_steps_equal_the_reference(name):
    same(CHAINS[name], COUNT)


@pytest.mark.parametrize("name", NUMBERS)
def test_numbers_equal_the_reference(name):
    """But for the last bits of noise, whose logarithms and cosines are the device's."""
    chain, options = NUMBERS[name]
    there, here = (
        on_device(chain, device, COUNT, dtype=torch.float32, **options) for device in ("cuda", "cpu")
    )
    torch.testing.assert_close(there.cpu(), here, rtol=1e-5, atol=1e-5)
    if "noise" not in name.lower():
        assert torch.equal(there.cpu(), here)


def test_types_and_layouts():
    for dtype in (torch.float16, torch.bfloat16, torch.float32):
        for channels_last in (False, True):
            options = {"mean": [0.4, 0.5, 0.6], "std": [0.2, 0.25, 0.3], "channels_last": channels_last}
            same(CHAINS["policy of all"], 20, dtype=dtype, **options)


def test_usual_sizes():
    for name in ("policy of all", "AugMix", "SimCLR"):
        same(chains((224, 224))[name], 12)


def test_a_graph_can_be_captured():
    pipeline, there = _core.ImagePipeline(CHAINS["policy of all"]), pictures(30, "cuda")
    wanted = by_pipeline(there, pipeline, 1)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        out = by_pipeline(there, pipeline, 1)
    out.zero_()
    graph.replay()
    torch.cuda.synchronize()
    assert torch.equal(out, wanted)
