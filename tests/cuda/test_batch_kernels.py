"""The CUDA kernels against the CPU reference: the same calls on tensors of both."""

import pytest
import torch
from batch_cases import CASES, DTYPES, FLOAT_CASES, LAYOUTS, augmented, images
from millrace.transforms import batch

SIZES = [(30, 41), (64, 64), (1, 1), (7, 8)]


def same(on_gpu, on_cpu, name):
    """The same bits, but for the functions of normal noise, which CUDA's and the C library's mathematics
    round differently.
    """
    assert on_gpu.is_cuda and on_gpu.dtype == on_cpu.dtype and on_gpu.stride() == on_cpu.stride()
    if name == "erase_noise":
        torch.testing.assert_close(on_gpu.cpu(), on_cpu, rtol=1e-2, atol=1e-2)
    else:
        assert torch.equal(on_gpu.cpu(), on_cpu), (on_gpu.cpu().double() - on_cpu.double()).abs().max()


@pytest.mark.parametrize("size", SIZES, ids=str)
@pytest.mark.parametrize("layout", LAYOUTS, ids=str)
@pytest.mark.parametrize("name", [*CASES, *FLOAT_CASES])
def test_kernels_equal_the_reference(name, layout, size):
    for dtype in DTYPES if name in CASES else DTYPES[1:]:
        for channels in (1, 3):
            x = images(
                131, channels, *size, dtype=dtype, layout=layout
            )  # more than a kernel's argument holds
            case = (CASES | FLOAT_CASES)[name]
            same(case(x.cuda()), case(x), name)


@pytest.mark.parametrize("channels", [3, 4])
@pytest.mark.parametrize("interpolation", ["bilinear", "bicubic"])
def test_augment_equals_the_reference(interpolation, channels):
    options = {"mean": [0.485, 0.456, 0.406], "std": [0.229, 0.224, 0.225]}
    for dtype in DTYPES:
        for channels_last in (False, True):
            normalised = options if dtype.is_floating_point else {}
            arguments = dict(
                channels=channels,
                interpolation=interpolation,
                dtype=dtype,
                channels_last=channels_last,
                **normalised,
            )
            same(augmented("cuda", **arguments), augmented("cpu", **arguments), "augment")


def test_a_stream_of_ones_own():
    """The work is on torch's current stream: it sees what was enqueued there before."""
    x = images(64, 3, 224, 224, dtype=torch.float32).cuda()
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        torch.cuda._sleep(50_000_000)
        y = batch.functional.horizontal_flip(x.clone().fill_(3), [True] * 64)
    stream.synchronize()
    assert (y == 3).all()


def test_random_transforms_equal_on_both():
    chain = batch.Compose(
        [
            batch.RandomHorizontalFlip(),
            batch.RandomAffine(10, (0.1, 0.1), (0.8, 1.2), 5, "bilinear"),
            batch.ColorJitter(0.4, 0.4, 0.4, 0.1),
            batch.RandomGrayscale(),
            batch.RandomErasing(),
            batch.Normalize([0.5] * 3, [0.25] * 3, torch.float16, channels_last=True),
            batch.CutMix(num_classes=10),
            batch.MixUp(num_classes=10),
        ]
    )
    x, labels = images(32, 3, 96, 96), torch.arange(32) % 10
    on_cpu, on_gpu = chain(x, labels, key=3), chain(x.cuda(), labels.cuda(), key=3)
    same(on_gpu[0], on_cpu[0], "chain")
    assert torch.equal(on_gpu[1].cpu(), on_cpu[1])


def test_a_graph_can_be_captured():
    x = images(16, 3, 64, 64).cuda()
    case = CASES["normalize_half"]
    wanted = case(x)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        out = case(x)
    x.copy_(images(16, 3, 64, 64, seed=9).cuda())
    graph.replay()
    torch.cuda.synchronize()
    assert torch.equal(out, case(x)) and not torch.equal(out, wanted)
