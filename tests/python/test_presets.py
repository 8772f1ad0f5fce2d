"""Callables that only hold transforms are looked through; whatever does anything else is left to Python."""

import functools

import millrace
import pytest
import torch
from millrace import transforms as ours
from millrace._common.lowering.recognising import NotLowered
from transform_cases import lower_transform

RESIZE, CROP, TO_TENSOR = ours.Resize((8, 8)), ours.CenterCrop(6), ours.ToTensor()
CHAIN = ours.Compose([RESIZE, CROP, TO_TENSOR])
EXPECTED = lower_transform(CHAIN)[0]


class Holder:
    """As torchvision's references write their presets."""

    def __init__(self, transforms=CHAIN):
        self.transforms = transforms

    def __call__(self, img):
        return self.transforms(img)


class Documented(Holder):
    def __call__(self, img: object) -> object:
        """With a docstring and annotations."""
        return self.transforms(img)


class Stepwise:
    def __init__(self):
        self.resize, self.crop, self.last = RESIZE, CROP, Holder(TO_TENSOR)

    def __call__(self, img):
        img = self.resize(img)
        img = self.crop(img)
        return self.last(img)


class Named(Stepwise):
    def __call__(self, picture):
        tensor = self.first(picture)
        return tensor

    def first(self, picture):
        return self.last(self.crop(self.resize(picture)))


class EachInTurn:
    def __init__(self, *transforms):
        self.transforms = list(transforms)

    def __call__(self, img):
        for t in self.transforms:
            img = t(img)
        return img


class Module(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.body = torch.nn.Sequential(RESIZE, CROP)
        self.last = TO_TENSOR

    def forward(self, x):
        x = self.body(x)
        x = self.last(x)
        return x


class ClassLevel:
    chain = CHAIN

    def __call__(self, img):
        return self.chain(img)

    def apply(self, img):
        return self.chain(img)


class OnlyInit(Holder):
    """A preset whose subclass changes its arguments."""

    def __init__(self, size):
        super().__init__(ours.Compose([ours.Resize((size, size)), CROP, TO_TENSOR]))


def by_global(img):
    return CHAIN(img)


def by_module(img):
    return millrace.transforms.functional.hflip(img)


def with_argument(img, transform):
    return transform(img)


def with_default(img, transform=CHAIN):
    return transform(img)


def closure(transform):
    def apply(img):
        return transform(img)

    return apply


PROVEN = {
    "class": (Holder(), "Holder(Resize, CenterCrop, ToTensor)"),
    "documented": (Documented(), "Documented(Resize, CenterCrop, ToTensor)"),
    "subclass": (OnlyInit(8), "OnlyInit(Resize, CenterCrop, ToTensor)"),
    "stepwise": (Stepwise(), "Stepwise(Resize, CenterCrop, Holder(ToTensor))"),
    "nested_calls": (Named(), "Named(Named.first(Resize, CenterCrop, Holder(ToTensor)))"),
    "loop": (EachInTurn(RESIZE, CROP, TO_TENSOR), "EachInTurn(Resize, CenterCrop, ToTensor)"),
    "module": (Module(), "Module(Resize, CenterCrop, ToTensor)"),
    "of_class": (ClassLevel(), "ClassLevel(Resize, CenterCrop, ToTensor)"),
    "sequential": (
        torch.nn.Sequential(RESIZE, torch.nn.Sequential(CROP, TO_TENSOR)),
        "Resize, CenterCrop, ToTensor",
    ),
    "function": (by_global, "by_global(Resize, CenterCrop, ToTensor)"),
    "closure": (closure(CHAIN), "apply(Resize, CenterCrop, ToTensor)"),
    "lambda": (lambda x: CHAIN(x), "<lambda>(Resize, CenterCrop, ToTensor)"),
    "nested_lambda": (lambda x: TO_TENSOR(CROP(RESIZE(x))), "<lambda>(Resize, CenterCrop, ToTensor)"),
    "default": (with_default, "with_default(Resize, CenterCrop, ToTensor)"),
    "partial": (functools.partial(CHAIN), "Compose(Resize, CenterCrop, ToTensor)"),
    "partial_argument": (
        functools.partial(with_argument, transform=CHAIN),
        "with_argument(Resize, CenterCrop, ToTensor)",
    ),
    "bound_call": (Holder().__call__, "Holder.__call__(Holder(Resize, CenterCrop, ToTensor))"),
    "bound_method": (ClassLevel().apply, "ClassLevel.apply(Resize, CenterCrop, ToTensor)"),
    "bound_forward": (CHAIN.forward, "Compose.forward(Resize, CenterCrop, ToTensor)"),
    "twice": (Holder(closure(Holder())), "Holder(apply(Holder(Resize, CenterCrop, ToTensor)))"),
}


@pytest.mark.parametrize("name", PROVEN)
def test_holders_are_looked_through(name):
    transform, told = PROVEN[name]
    chain, names = lower_transform(transform)
    assert chain == EXPECTED
    assert ", ".join(names) == told


def test_code_that_has_run_often_is_recognised():
    """The interpreter rewrites such code in place."""
    counted = []
    function, holder = closure(counted.append), Holder(counted.append)
    for _ in range(200):
        function(1), holder(1)
    function.__closure__[0].cell_contents = holder.transforms = CHAIN
    assert len(counted) == 400 and lower_transform(function)[0] == lower_transform(holder)[0] == EXPECTED


def test_a_holder_in_a_loader(jpeg_folder):
    plain = millrace.DataLoader(
        millrace.datasets.ImageFolder(jpeg_folder, CHAIN), 5, num_workers=2, native="require"
    )
    held = millrace.DataLoader(
        millrace.datasets.ImageFolder(jpeg_folder, Holder()), 5, num_workers=2, native="require"
    )
    assert "transform: native — Holder(Resize, CenterCrop, ToTensor)" in held.explain()
    for (images, labels), (images_held, labels_held) in zip(plain, held, strict=True):
        assert torch.equal(images, images_held) and torch.equal(labels, labels_held)
    assert held.stats()["engine"] == "threads" and held.stats()["bytes"] > 0


# -- what might do anything else
# -------------------------------------------------------------------------------------------------


class Counts(Holder):
    calls = 0

    def __call__(self, img):
        self.calls += 1
        return self.transforms(img)


class Sometimes(Holder):
    def __call__(self, img):
        return self.transforms(img) if img.size[0] > 5 else img


class Twice(Holder):
    def __call__(self, img):
        return self.transforms(self.transforms(img))


class Two(Holder):
    def __call__(self, img):
        return self.transforms(img), img.size


class ByProperty:
    @property
    def transforms(self):
        return CHAIN

    def __call__(self, img):
        return self.transforms(img)


class Found(Holder):
    def __getattribute__(self, name):
        return object.__getattribute__(self, name)


class Missing:
    def __getattr__(self, name):
        return CHAIN

    def __call__(self, img):
        return self.transforms(img)


class MoreArguments(Holder):
    def __call__(self, img, target=None):
        return self.transforms(img)


class Variadic(Holder):
    def __call__(self, *img):
        return self.transforms(*img)


class Wrong(Holder):
    def __call__(self, img):
        return self.transforms(self)


class Generator(Holder):
    def __call__(self, img):
        yield self.transforms(img)


class Hooked(torch.nn.Module):
    def __init__(self, hook):
        super().__init__()
        self.tf = CHAIN
        if hook:
            self.register_forward_pre_hook(lambda module, x: x)
        else:
            self.forward = lambda x: x

    def forward(self, x):
        return self.tf(x)


class OwnCall(torch.nn.Module):
    def __call__(self, x):
        return super().__call__(x)

    def forward(self, x):
        return CHAIN(x)


def decorated(function):
    @functools.wraps(function)
    def wrapper(*arguments):
        return function(*arguments)

    return wrapper


def shadowed():
    resize = ours.Resize((8, 8))
    resize.forward = lambda picture: picture
    return ours.Compose([resize, TO_TENSOR])


def endless():
    holder = Holder(None)
    holder.transforms = holder
    return holder


REFUSED = {
    "counts": Counts(),
    "condition": Sometimes(),
    "twice": Twice(),
    "two_results": Two(),
    "property": ByProperty(),
    "getattribute": Found(),
    "getattr": Missing(),
    "variadic": Variadic(),
    "not_its_argument": Wrong(),
    "generator": Generator(),
    "hooked": Hooked(True),
    "own_forward": Hooked(False),
    "own_call": OwnCall(),
    "decorated": decorated(by_global),
    "decorated_lambda": lambda x: decorated(CHAIN)(x),
    "constant": lambda x: CHAIN(None),
    "keyword": lambda x: CHAIN(img=x),
    "attribute": lambda x: CHAIN(x).contiguous(),
    "arithmetic": lambda x: CHAIN(x) + 0,
    "unknown_function": by_module,
    "missing_global": lambda x: nowhere(x),  # noqa: F821
    "partial_with_other": functools.partial(with_argument, other=CHAIN),
    "partial_of_the_picture": functools.partial(with_argument, CHAIN),
    "identity": lambda x: x,
    "list_of_strings": EachInTurn("resize"),
    "iterator": EachInTurn(),
    "shadowed": shadowed(),
    "endless": endless(),
}
REFUSED["iterator"].transforms = iter([CHAIN])


@pytest.mark.parametrize("name", REFUSED)
def test_whatever_is_not_proven_stays_in_python(name):
    with pytest.raises(NotLowered):
        lower_transform(REFUSED[name])


def test_what_is_said_of_a_class_that_does_more():
    with pytest.raises(
        NotLowered,
        match=(
            r"Counts \(of test_presets\) has no native form.*return self.transforms\(picture\)` and no more"
        ),
    ):
        lower_transform(Counts())
    with pytest.raises(NotLowered, match="this Resize has a forward of its own"):
        lower_transform(shadowed())


def test_extra_arguments_with_defaults_change_nothing():
    assert lower_transform(MoreArguments())[0] == EXPECTED
