"""Chains of torchvision's v2 over pictures that wait: ToImage, ToDtype and Normalize are one pass, whose
tensors lie in memory as torchvision's own do.
"""

import millrace
import numpy as np
import pytest
import torch
from lazy_cases import decoded_files, lazy_jpegs, lazy_pictures, opened, outcome, same_lazily, seeded
from loader_data import torchvision_or_skip
from pictures import jpeg_bytes, make_picture
from PIL import Image as Pillow

torchvision = torchvision_or_skip()
from millrace import _core  # noqa: E402
from millrace._pictures import torchvision_chains  # noqa: E402
from torch.utils._pytree import tree_flatten  # noqa: E402
from torchvision import transforms as T  # noqa: E402
from torchvision.transforms import v2  # noqa: E402
from torchvision.transforms.v2 import functional as F2  # noqa: E402
from torchvision.transforms.v2.functional._utils import _KERNEL_REGISTRY  # noqa: E402

MEAN, STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
FILES = {**lazy_jpegs(), **decoded_files()}
FLOATS, NORMAL = v2.ToDtype(torch.float32, scale=True), v2.Normalize(MEAN, STD)
Image = torchvision.tv_tensors.Image
collate_samples = _core.sample_collator()

FUSED = {
    "usual": [v2.ToImage(), FLOATS, NORMAL],
    "cropped": [v2.RandomResizedCrop(24), v2.RandomHorizontalFlip(), v2.ToImage(), FLOATS, NORMAL],
    "floats": [v2.Resize(20), v2.ToImage(), FLOATS],
    "pure": [v2.PILToTensor(), FLOATS, NORMAL],
    "old name": [v2.PILToTensor(), v2.ConvertImageDtype(torch.float32), NORMAL],
    "one mean": [v2.ToImage(), FLOATS, v2.Normalize([0.5], [0.25])],
    "in place": [v2.ToImage(), FLOATS, v2.Normalize(MEAN, STD, inplace=True)],
    "per type": [v2.ToImage(), v2.ToDtype({Image: torch.float32, "others": None}, scale=True), NORMAL],
    "others": [v2.PILToTensor(), v2.ToDtype({"others": torch.float32}, scale=True)],
    "and further": [v2.ToImage(), FLOATS, NORMAL, v2.RandomErasing(p=1), v2.ToPureTensor()],
    "noise": [v2.ToImage(), FLOATS, v2.GaussianNoise()],
    "another order": [v2.ToImage(), FLOATS, v2.Identity(), NORMAL],
}
NOT_FUSED = {
    "bytes": [v2.ToImage()],
    "unscaled": [v2.ToImage(), v2.ToDtype(torch.float32)],
    "doubles": [v2.ToImage(), v2.ToDtype(torch.float64, scale=True), NORMAL],
    "of masks": [
        v2.ToImage(),
        v2.ToDtype({torchvision.tv_tensors.Mask: torch.int64, "others": None}, scale=True),
    ],
    "v1's floats": [v2.PILToTensor(), T.ConvertImageDtype(torch.float32), NORMAL],
    "resized tensors": [v2.ToImage(), v2.Resize(20), FLOATS, NORMAL],
}


def laid_out(tensor):
    """The values, and how they lie in memory: what same_lazily() compares."""
    return tensor, type(tensor), tensor.stride(), tensor.storage_offset(), tensor.untyped_storage().nbytes()


@pytest.fixture
def passes(monkeypatch):
    """What a Compose made in one pass, since the test began: (record's mode, whether rows of pixels)."""
    seen, through = [], torchvision_chains.looked_at

    def noted(image, record, name, values):
        tensor = through(image, record, name, values)
        seen.append((record.mode, tensor.shape[-1] == 3 and tensor.shape[0] != 3))
        return tensor

    monkeypatch.setattr(torchvision_chains, "looked_at", noted)
    return seen


@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize("chain", FUSED)
def test_tensors_lie_as_torchvisions(chain, name, passes):
    transform = v2.Compose(FUSED[chain])
    same_lazily(lambda: laid_out(transform(opened(FILES[name]).convert("RGB"))), opened=None, run=seeded)
    assert passes == [("RGB", True)]
    same_lazily(lambda: laid_out(transform(opened(FILES[name]))), opened=None, run=seeded)


@pytest.mark.parametrize("chain", NOT_FUSED)
def test_other_chains_are_torchvisions(chain, passes):
    transform = v2.Compose(NOT_FUSED[chain])
    same_lazily(lambda: laid_out(transform(opened(FILES["420"]).convert("RGB"))), run=seeded)
    assert passes == []


def boxes_of(image):
    xyxy = [[1.0, 2.0, 9.0, 8.0], [0.0, 0.0, 4.0, 4.0]]
    return torchvision.tv_tensors.BoundingBoxes(xyxy, format="XYXY", canvas_size=image.size[::-1])


def mask_of(image):
    return torchvision.tv_tensors.Mask(
        torch.arange(image.size[0] * image.size[1]).reshape(image.size[::-1]) % 7
    )


#: {name: (the inputs of a transform, of a picture; how many of its pictures are one pass)}
STRUCTURES = {
    "a target": (
        lambda i: (i, {"boxes": boxes_of(i), "masks": mask_of(i), "labels": torch.tensor([1, 2])}),
        1,
    ),
    "one input": (lambda i: ((i, 3),), 1),
    "a dict": (lambda i: ({"image": i, "label": torch.tensor(2.0), "name": "a"},), 1),
    "several pictures": (lambda i: ([i, i.copy(), boxes_of(i)],), 2),
    "tensors first": (lambda i: (torch.arange(3), i), 1),
    "arrays": (lambda i: (np.zeros((2, 2, 3), np.uint8), i), 1),
    "tensors of pictures": (lambda i: (Image(torch.ones(3, 2, 2, dtype=torch.uint8)), i), 1),
    "grey, too": (lambda i: (i, i.convert("L")), 1),
    "none": (lambda i: (torch.ones(3, 4, 4, dtype=torch.uint8),), 0),
}


@pytest.mark.parametrize("structure", STRUCTURES)
@pytest.mark.parametrize("chain", FUSED)
def test_pictures_in_structures(chain, structure, passes):
    """Whatever torchvision changes of the others, and refuses."""
    make, count = STRUCTURES[structure]

    def leaves():
        transform = v2.Compose(FUSED[chain])
        made = tree_flatten(transform(*make(opened(FILES["420"]).convert("RGB"))))
        return [laid_out(leaf) if isinstance(leaf, torch.Tensor) else leaf for leaf in made[0]], str(made[1])

    same_lazily(leaves, opened=None, run=seeded)
    assert chain != "usual" or len(passes) == count


@pytest.mark.parametrize("width", [1, 2, 3, 7, 15, 16, 17, 33])
@pytest.mark.parametrize("height", [1, 2, 9])
def test_small_sizes(width, height, passes):
    data = jpeg_bytes(make_picture(width, height, seed=width))
    for chain in ("usual", "floats", "pure"):
        transform = v2.Compose([step for step in FUSED[chain] if not isinstance(step, v2.Resize)])
        same_lazily(lambda: laid_out(transform(opened(data))), run=seeded)
        same_lazily(lambda: laid_out(transform(opened(data).resize((2 * width, 3 * height)))), run=seeded)
    assert len(passes) == (3 if width == height == 1 else 6)


def test_every_byte_in_every_channel(passes):
    """Of a picture that does not wait: all values that there are."""
    values = np.stack([np.arange(256), np.arange(256)[::-1], np.roll(np.arange(256), 99)], -1)
    image = Pillow.fromarray(values[None].astype(np.uint8))
    for mean, std in ((MEAN, STD), ((0.1, 0.2, 0.3), (1e-6, 0.7, 3e7)), ((0.0,), (1.0,))):
        transform = v2.Compose([v2.ToImage(), FLOATS, v2.Normalize(mean, std)])
        same_lazily(lambda: laid_out(transform(image)), opened=0)
    assert len(passes) == 3


def test_v2s_steps_in_a_compose_of_v1(passes):
    transform = T.Compose([T.Resize(20), v2.ToImage(), FLOATS, NORMAL])
    same_lazily(lambda: laid_out(transform(opened(FILES["420"]))))
    assert passes == [("RGB", True)]
    v1_in_v2 = v2.Compose([T.Resize(20), T.ToTensor(), T.Normalize(MEAN, STD)])
    same_lazily(lambda: laid_out(v1_in_v2(opened(FILES["420"]))))
    assert passes[1:] == [("RGB", False)]


def test_grey_pictures_are_torchvisions(passes):
    for steps in ([v2.ToImage(), FLOATS, v2.Normalize([0.5], [0.5])], [v2.ToImage(), FLOATS, NORMAL]):
        same_lazily(lambda: laid_out(v2.Compose(steps)(opened(FILES["grey"]))))
    assert passes == []


def test_batches_of_a_loader(tmp_path):
    """Through default_collate, whose batches torch lays out as the samples."""
    path = tmp_path / "a.jpg"
    path.write_bytes(FILES["420"])
    transform = v2.Compose([v2.Resize((20, 24)), *FUSED["usual"]])

    class Pictures(torch.utils.data.Dataset):
        def __len__(self):
            return 6

        def __getitem__(self, index):
            return transform(Pillow.open(path).rotate(90 * (index % 4))), index

    for workers in (0, 2):
        theirs = list(torch.utils.data.DataLoader(Pictures(), 3, num_workers=workers))
        ours = list(millrace.DataLoader(Pictures(), 3, num_workers=workers, pictures="lazy"))
        for (expected, _), (got, _) in zip(theirs, ours, strict=True):
            assert torch.equal(got, expected) and type(got) is type(expected)
            assert got.stride() == expected.stride()


def test_images_are_collated_as_tensors():
    """As torch.stack() takes torchvision's Images, unless a program asks for Images back."""
    planes = [Image(torch.rand(3, 40, 50)) for _ in range(3)]
    rows = [Image(torch.rand(40, 50, 3).permute(2, 0, 1)) for _ in range(3)]
    mixed = [planes[0], planes[1].as_subclass(torch.Tensor), rows[0]]
    for samples in (planes, rows, mixed, [{"image": image, "label": 1} for image in rows]):
        ours, theirs = collate_samples(samples), torch.utils.data.default_collate(samples)
        assert ours is not NotImplemented
        assert outcome(lambda: ours) == outcome(lambda: theirs)
        for got, expected in ((ours, theirs),) if isinstance(ours, torch.Tensor) else ():
            assert type(got) is torch.Tensor and got.stride() == expected.stride()
    with torchvision.tv_tensors.set_return_type("TVTensor"):
        assert collate_samples(planes) is NotImplemented
    masks = [torchvision.tv_tensors.Mask(torch.ones(4, 5)) for _ in range(2)]
    assert collate_samples(masks) is NotImplemented
    assert collate_samples([Image(torch.rand(3, 4, 5).requires_grad_()) for _ in "ab"]) is NotImplemented


@pytest.mark.parametrize(
    ("owner", "name"),
    [
        (F2, "to_image"),
        (F2, "to_dtype"),
        (F2, "normalize"),
        (v2.ToImage, "transform"),
        (v2.ToDtype, "transform"),
        (v2.Normalize, "check_inputs"),
        (v2.Transform, "_needs_transform_list"),
        (v2.Transform, "forward"),
    ],
    ids=lambda part: part if isinstance(part, str) else part.__name__,
)
def test_parts_that_a_script_replaces(owner, name, monkeypatch, passes):
    """Before the pictures wait, and meanwhile."""
    original, calls = getattr(owner, name), []

    def counted(*args, **kwargs):
        calls.append(name)
        return original(*args, **kwargs)

    kernels = _KERNEL_REGISTRY.get(original)  # which v2's classes call in the place of these functions
    if kernels:
        monkeypatch.setitem(_KERNEL_REGISTRY, counted, kernels)

    def meanwhile():
        transform = v2.Compose(FUSED["usual"])
        first = transform(opened(FILES["420"]))
        with monkeypatch.context() as patched:
            patched.setattr(owner, name, counted)
            second = transform(opened(FILES["420"]))
        return laid_out(first), laid_out(second), len(calls)

    alone = meanwhile()
    calls.clear()
    with lazy_pictures():
        lazy = meanwhile()
    assert torch.equal(alone[0][0], lazy[0][0]) and torch.equal(alone[1][0], lazy[1][0])
    assert alone[2] == lazy[2] and (kernels or lazy[2]) and len(passes) == 1
    passes.clear()
    with monkeypatch.context() as patched:
        patched.setattr(owner, name, counted)
        with lazy_pictures():
            v2.Compose(FUSED["usual"])(opened(FILES["420"]))
    assert passes == []


def test_steps_of_a_scripts_own(passes):
    """Hooks and methods of one instance."""

    def own():
        seen = []
        steps = [v2.ToImage(), v2.ToDtype(torch.float32, scale=True), v2.Normalize(MEAN, STD)]
        for step in steps:
            handle = step.register_forward_pre_hook(lambda step, inputs: seen.append(type(step).__name__))
            seen.append(laid_out(v2.Compose(steps)(opened(FILES["420"]))))
            handle.remove()
            step.transform = lambda tensor, params, step=step: type(step).transform(step, tensor, params)
            seen.append(laid_out(v2.Compose(steps)(opened(FILES["420"]))))
            del step.transform
        return seen

    same_lazily(own, opened=6)
    assert [rows for _, rows in passes] == [True, True], (
        "up to ToDtype, where Normalize has a hook or a method"
    )


def test_values_are_checked():
    chain = _core.ImagePipeline([{"op": "to_tensor", "dtype": "float32"}])
    record = _core.RecordedPicture.of_pixels((5, 4), "RGB", bytes(range(80)))
    rows = record.tensor(_core.TensorValues(chain, interleaved=True))
    assert rows.shape == (4, 5, 3)
    assert torch.equal(rows.permute(2, 0, 1), record.tensor(_core.TensorValues(chain)))
    grey = record.convert("L")
    assert torch.equal(grey.tensor(_core.TensorValues(chain, True)), grey.tensor(_core.TensorValues(chain)))
