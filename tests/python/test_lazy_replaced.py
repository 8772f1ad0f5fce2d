"""What is put into Pillow's and torchvision's modules for pictures that wait, and what scripts put there."""

import gc
import pickle
import sys
import types
import warnings
import weakref

import pytest
import torch
from lazy_cases import lazy_jpegs, lazy_pictures, same_lazily
from loader_data import torchvision_or_skip
from millrace import DataLoader
from millrace._pictures import asking
from millrace._pictures.replaced import NOTHING, Replaced
from pictures import jpeg_bytes, make_picture
from PIL import Image

torchvision_or_skip()
from lazy_cases import opened  # noqa: E402
from torchvision import transforms as T  # noqa: E402
from torchvision.transforms import functional as F  # noqa: E402
from torchvision.transforms import v2  # noqa: E402
from torchvision.transforms.functional import to_tensor as early  # noqa: E402

DATA = lazy_jpegs()["420"]
NORMAL = T.Normalize([0.5, 0.4, 0.3], [0.2, 0.3, 0.4])


def test_pixels_stay_from_the_second_look_on():
    with lazy_pictures() as counts:
        image = opened(jpeg_bytes(make_picture(400, 300, 1))).crop((0, 0, 300, 200))
        for _ in range(4):
            F.to_tensor(image)
        assert counts.decoded_in_part + counts.decoded_whole in (
            1,
            2,
        )  # one, if the picture before had several


@pytest.mark.parametrize("first", ["draft", "thumbnail"])
def test_a_first_step_may_choose_a_smaller_picture(first):
    data = jpeg_bytes(make_picture(640, 480, 3))

    def smaller(image):
        image.draft("RGB", (100, 100)) if first == "draft" else image.thumbnail((64, 64))
        return image

    same_lazily(lambda: T.Compose([smaller, T.ToTensor(), NORMAL])(opened(data)), opened=None)


def test_names_bound_earlier_lead_to_the_same_and_are_pickled():
    with lazy_pictures() as counts:
        tensor = early(opened(DATA))
        assert pickle.loads(pickle.dumps(early)) is F.to_tensor is early
        assert counts.decoded_whole == 1 and counts.left_to_pillow == 0
    assert torch.equal(early(opened(DATA)), tensor)


@pytest.mark.parametrize("name", ["to_tensor", "normalize"])
def test_functions_that_a_script_replaces_are_called(name, monkeypatch):
    def run():
        compose = T.Compose([T.ToTensor(), NORMAL])
        before = compose(opened(DATA))
        called = []
        original = getattr(F, name)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(
                F, name, lambda *args, **kwargs: (called.append(name), original(*args, **kwargs))[1]
            )
            return before, compose(opened(DATA)), called

    same_lazily(run, opened=2)


def test_steps_of_other_classes_and_hooks_are_called():
    class Mine(T.ToTensor):
        def __call__(self, pic):
            return super().__call__(pic) * 2

    def run():
        seen = []
        step = T.Normalize([0.5], [0.5])
        hook = torch.nn.modules.module.register_module_forward_hook(lambda *_: seen.append(1))
        try:
            hooked = T.Compose([T.ToTensor(), step])(opened(DATA))
        finally:
            hook.remove()
        step.register_forward_hook(lambda module, args, output: output + 1)
        changed = T.ToTensor()
        compose = T.Compose([changed, step])
        first = compose(opened(DATA))
        changed.__class__ = Mine
        return hooked, len(seen), first, compose(opened(DATA)), T.Compose([Mine(), NORMAL])(opened(DATA))

    same_lazily(run, opened=4)


def test_noise_behind_a_conversion_is_the_same():
    """It is drawn in the order of the memory."""
    chain = v2.Compose([v2.ToImage(), v2.ToDtype(torch.float32, scale=True), v2.GaussianNoise()])

    def run():
        torch.manual_seed(1)
        return chain(opened(DATA)), torch.randn_like(F.pil_to_tensor(opened(DATA)).float())

    same_lazily(run, opened=2)


def test_a_dataset_that_its_own_transform_knows_is_collected():
    class Bound(torch.utils.data.Dataset):
        def __init__(self):
            self.transform = T.Compose([T.Lambda(self.same), T.ToTensor(), NORMAL])

        def same(self, image):
            return image

        def __len__(self):
            return 2

        def __getitem__(self, index):
            return self.transform(opened(DATA))

    dataset = Bound()
    alive = weakref.ref(dataset)
    list(DataLoader(dataset))
    del dataset
    gc.collect()
    assert alive() is None


def test_timms_conversion_is_the_scripts_once_it_is_replaced(monkeypatch):
    timm = pytest.importorskip("timm.data.transforms")
    chain = T.Compose([timm.MaybeToTensor(), NORMAL])
    same_lazily(lambda: chain(opened(DATA)), opened=None)
    monkeypatch.setattr(timm.MaybeToTensor, "__call__", lambda self, image: torch.ones(3, *image.size))
    with lazy_pictures():
        assert torch.equal(chain(opened(DATA)), NORMAL(torch.ones(3, *opened(DATA).size)))


def test_what_a_script_puts_around_ours_stays():
    with lazy_pictures():
        opened(DATA).load()
        ours, call = Image.Image.resize, T.Compose.__call__
        Image.Image.resize = lambda self, *args, **kwargs: ours(self, *args, **kwargs)
        T.Compose.__call__ = lambda self, img: call(self, img)
        theirs = Image.Image.resize, T.Compose.__call__
    try:
        assert (Image.Image.resize, T.Compose.__call__) == theirs
        assert (
            opened(DATA).resize((9, 9)).size == (9, 9)
            and T.Compose([T.ToTensor()])(opened(DATA)).shape[0] == 3
        )
    finally:
        Image.Image.resize, T.Compose.__call__ = ours.__wrapped__, call.__wrapped__


def test_what_is_put_somewhere_is_put_there_once_and_taken_out():
    class Base:
        inherited = "of the base"

    class Owner(Base):
        own = "own"

    package = types.ModuleType("package")
    package.function = "function"
    replaced = Replaced()
    for owner, name, there in ((Owner, "own", "own"), (package, "function", "function")):
        replaced.put(owner, name, lambda original: ("ours", original))
        replaced.put(owner, name, lambda original: "never")
        assert getattr(owner, name) == ("ours", there) and replaced.original(owner, name) == there
    replaced.put(Owner, "inherited", lambda original: ("ours", original is NOTHING))
    assert Owner.inherited == ("ours", True) and Base.inherited == "of the base"
    package.function = around = ("around", package.function)
    replaced.put_back()
    assert Owner.own == "own" and package.function is around
    assert Owner.inherited == ("ours", True), "nothing was there before"
    assert replaced.original(package, "function") is around
    replaced.put(Owner, "own", lambda original: "again")
    assert Owner.own == "again" and replaced.original(Owner, "own") == "own"


def test_a_package_that_is_not_what_it_seems_costs_no_batch(monkeypatch):
    class Proxy(types.ModuleType):
        def __getattr__(self, name):
            raise RuntimeError("not here")

    class Numbers(torch.utils.data.Dataset):
        def __len__(self):
            return 3

        def __getitem__(self, index):
            return index

    monkeypatch.setitem(sys.modules, "cv2", Proxy("cv2"))
    asking.put_back()
    try:
        with warnings.catch_warnings(record=True) as told:
            warnings.simplefilter("always")
            assert [int(batch) for batch in DataLoader(Numbers())] == [0, 1, 2]
        assert any("cv2" in str(one.message) for one in told) and asking.asked() is None
    finally:
        asking.put_back()


def test_a_side_that_is_too_long_is_torchvisions():
    same_lazily(lambda: F.to_tensor(Image.new("L", (1, (1 << 20) + 5))).shape, opened=0)


def test_a_closed_picture_keeps_nothing():
    with lazy_pictures():
        image = opened(DATA)
        image.load()
        image.close()
        assert not any("record" in name for name in vars(image))
