"""Less usual ways of scripts with a picture that waits: each comes to what it comes to with Pillow alone."""

import asyncio
import concurrent.futures
import copy
import gc
import io
import tempfile
import weakref

import numpy as np
import pytest
import torch
from lazy_cases import decoded_files, lazy_jpegs, lazy_pictures, opened, same_lazily, that_raise
from loader_data import torchvision_or_skip
from PIL import Image, ImageCms, ImageFile, ImageMath, ImageSequence
from pillow_facts import ABSENT, skip_absent

torchvision = torchvision_or_skip()
from torchvision.transforms import functional as F  # noqa: E402
from torchvision.transforms import v2  # noqa: E402

FILES = lazy_jpegs() | decoded_files()
HABITS = {}


def case(function):
    HABITS[function.__name__] = function
    return function


@case
def parser(data):
    p = ImageFile.Parser()
    for i in range(0, len(data), 100):
        p.feed(data[i : i + 100])
    return p.close()


@case
def sequence(data):
    return [frame.copy() for frame in ImageSequence.Iterator(opened(data))]


@case
def frames(data):
    image = opened(data)
    return getattr(image, "n_frames", 1), getattr(image, "is_animated", False)


@case
def freed_behind_a_call(data):
    image = opened(data).resize((9, 9))
    seen = weakref.ref(image)
    image = None
    gc.collect()
    return seen() is None


@case
def freed(data):
    image = opened(data)
    image.load()
    seen = weakref.ref(image)
    image = None
    return seen() is None


@case
def pixels_outlive_it(data):
    image = opened(data)
    pixels = image.load()
    pixels[1, 1]
    image = None
    return pixels[2, 2]


@case
def subclass(data):
    class My(Image.Image):
        pass

    image = opened(data).crop((1, 1, 20, 20))
    image.__class__ = My
    return type(image.resize((5, 5))).__name__, image.resize((5, 5))


@case
def set_attr(data):
    image = opened(data)
    image.foo = 3
    image.load()
    c = image.copy()
    return image.foo, hasattr(c, "foo")


@case
def notes_in_info(data):
    image = opened(data)
    image.load()
    image.info["x"] = [1]
    c = image.crop((1, 1, 5, 5))
    c.info["x"].append(2)
    return image.info["x"], c.info


@case
def save_tiff(data):
    image = opened(data)
    file = io.BytesIO()
    image.save(file, "TIFF", compression="raw")
    return file.getvalue()


@case
def save_webp(data):
    image = opened(data).resize((20, 20))
    file = io.BytesIO()
    image.save(file, "WEBP", lossless=True)
    return file.getvalue()


@case
def save_gif(data):
    image = opened(data).resize((20, 20))
    file = io.BytesIO()
    image.save(file, "GIF")
    return file.getvalue()


@case
def save_frames(data):
    image = opened(data).resize((20, 20))
    file = io.BytesIO()
    image.save(file, "GIF", save_all=True, append_images=[image.rotate(90)])
    return file.getvalue()


@case
def fromarray(data):
    image = opened(data)
    return Image.fromarray(np.asarray(image))


@case
def arrow(data):
    image = opened(data)
    return type(image.__arrow_c_array__()).__name__


@case
def as_numbers(data):
    return np.array(opened(data), copy=None).mean(), np.asarray(opened(data), dtype=np.float32)


@case
def expression(data):
    return ImageMath.lambda_eval(lambda a: a["x"] + 1, x=opened(data).convert("L"))


@case
def evaluated(data):
    return Image.eval(opened(data), lambda v: 255 - v)


@case
def with_alpha(data):
    a = opened(data).convert("RGBA")
    return Image.alpha_composite(a, a)


@case
def masks(data):
    image = opened(data).convert("RGB")
    mask = image.convert("L")
    new = Image.new("RGB", image.size)
    new.paste(image, (0, 0), mask)
    return new


@case
def paste_self(data):
    image = opened(data)
    image.paste(image, (5, 5))
    return image


@case
def compared(data):
    a, b = opened(data), opened(data)
    return a == b, a.crop((1, 1, 9, 9)) == b.crop((1, 1, 9, 9)), a.resize((3, 3)) != b.resize((3, 3))


@case
def shown(data):
    image = opened(data)
    r = repr(image).split(" at ")[0]
    return r, image._repr_png_()


@case
def tofile(data):
    with tempfile.NamedTemporaryFile(suffix=".jpg") as file:
        file.write(data)
        file.flush()
        with Image.open(file.name) as image:
            copied = image.convert("RGB")
        return copied, copied.filename if hasattr(copied, "filename") else None


@case
def position(data):
    file = io.BytesIO(data)
    image = Image.open(file)
    image.load()
    return file.closed


@case
def twice_same_file(data):
    file = io.BytesIO(data)
    a = Image.open(file)
    a.load()
    file.seek(0)
    b = Image.open(file)
    return a, b


@case
def two_open_same_file(data):
    file = io.BytesIO(data)
    a = Image.open(file)
    b = Image.open(file)
    return a, b


@case
def pool(data):
    images = [opened(data) for _ in range(8)]
    with concurrent.futures.ThreadPoolExecutor(4) as threads:
        return list(threads.map(lambda image: image.convert("RGB").resize((20, 20)).tobytes(), images))


@case
def event_loop(data):
    async def one():
        return opened(data).resize((9, 9)).tobytes()

    async def several():
        return await asyncio.gather(
            *[asyncio.to_thread(lambda: opened(data).tobytes()) for _ in range(4)], one()
        )

    return asyncio.run(several())


@case
def draft_late(data):
    image = opened(data)
    image.load()
    return image.draft("L", (10, 10)), image


@case
def draft_y(data):
    image = opened(data)
    r = image.draft("YCbCr", None)
    return r, image.convert("RGB")


@case
def thumb_then(data):
    image = opened(data)
    image.load()
    image.thumbnail((20, 20))
    return image.crop((1, 1, 9, 9)), image


@case
def thumb_crop(data):
    image = opened(data).convert("RGB")
    pixels = image.load()
    image.thumbnail((20, 20))
    fewer = image.load()
    return pixels[30, 30], fewer[3, 3], image


@case
def other_memory(data):
    image = opened(data)
    image.load()
    image.im = Image.new(image.mode, image.size).im
    return image, image.crop((0, 0, 3, 3))


@case
def hasattrs(data):
    image = opened(data)
    image.load()
    return hasattr(image, "_im"), hasattr(image, "im"), "_im" in dir(image)


@case
def setstate(data):
    image = opened(data)
    state = image.__getstate__()
    new = Image.Image()
    new.__setstate__(state[:5])
    return new


@case
def reduce_ex(data):
    image = opened(data).resize((9, 9))
    return copy.copy(image), copy.deepcopy([image, image])


@case
def metadata(data):
    return opened(data).getxmp()


@case
def children(data):
    return opened(data).get_child_images()


@case
def children_after_load(data):
    image = opened(data)
    image.load()
    return image.get_child_images()


SRGB = ImageCms.createProfile("sRGB")  # says when it was made, to the second


@case
def profiles(data):
    image = opened(data).convert("RGB")
    return ImageCms.profileToProfile(image, SRGB, SRGB, outputMode="RGB")


@case
def v2_wrap(data):
    return v2.functional.to_image(opened(data)), v2.functional.to_dtype(
        v2.functional.to_image(opened(data)), torch.float32, scale=True
    )


@case
def make_grid(data):
    return torchvision.utils.make_grid([F.to_tensor(opened(data).convert("RGB").resize((9, 9)))] * 3)


@case
def on_another_device(data):
    with torch.device("meta"):
        return str(F.to_tensor(opened(data)).device)


@case
def grad(data):
    t = F.to_tensor(opened(data))
    t.requires_grad_()
    t.sum().backward()
    return t.grad


@case
def inference(data):
    with torch.inference_mode():
        t = F.to_tensor(opened(data))
    return t.is_inference()


@pytest.mark.parametrize("habit", HABITS)
@pytest.mark.parametrize("name", ["420", "grey", "turned 6", "profile", "png", "png grey", "png transparent"])
def test_less_usual_ways(habit, name):
    skip_absent(habit)
    same_lazily(lambda: HABITS[habit](FILES[name]), opened=None)


def test_no_habit_fails():
    ways = {name: lambda way=way: way(FILES["420"]) for name, way in HABITS.items()}
    assert that_raise(ways) == ABSENT & set(HABITS)


@pytest.mark.parametrize("kind", ["420", "grey"])
@pytest.mark.parametrize("function", [F.pil_to_tensor, F.to_tensor])
def test_tensors_lie_in_memory_as_torchvisions(kind, function):
    """Random numbers are drawn in the order of the memory."""
    with lazy_pictures():
        tensor = function(opened(FILES[kind]))
    alone = function(opened(FILES[kind]))
    assert torch.equal(tensor, alone)
    assert [n for n, size in zip(tensor.stride(), tensor.shape) if size > 1] == [
        n for n, size in zip(alone.stride(), alone.shape) if size > 1
    ]
