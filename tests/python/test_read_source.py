"""What a callable's source is taken to say: nothing that the callable does not do. The classes are in
seen_classes.py, unseen_draws.py and unseen_code.py, whose functions are what their source compiles to; pytest
rewrites those of this module.
"""

import builtins
import functools
import importlib
import linecache
import pickle
import random
import sys
import types
import warnings

import numpy as np
import pytest
import seen_classes as seen
import torch
import unseen_code
import unseen_draws
from millrace import transforms
from millrace._common.lowering.picture_calls import step_of
from millrace._common.lowering.read_source import read
from millrace._common.lowering.read_values import Maybe, Op, Picture
from PIL import Image, ImageFilter, ImageOps
from python_code import run_code

T, U = transforms.Resize(8), transforms.ToTensor()


def look(made):
    """Structure and steps, comparable with ==."""
    if isinstance(made, Picture):
        return "picture", made.steps()
    if isinstance(made, dict):
        return {key: look(part) for key, part in made.items()}
    return (tuple if isinstance(made, tuple) else list)(map(look, made))


def known(transform):
    """Whether its steps are operations, and no functions."""
    made = read(transform)
    steps = [] if made is None else made.steps()
    flat = [part for step in steps for part in (step.steps if isinstance(step, Maybe) else [step])]
    return bool(flat) and all(isinstance(step, Op) for step in flat)


def p(*steps):
    return "picture", list(steps)


def blur(low, high):
    return step_of(
        "GaussianBlur",
        "gaussian_blur",
        level={"mean": high - low, "uniform": True, "most": 1e9, "offset": low},
    )


RGB = Op({"op": "rgb"}, 'convert("RGB")')
INVERT, EQUALIZE = (step_of(name, name) for name in ("invert", "equalize"))
SOLARIZE = step_of("solarize", "solarize", values=[128.0])
READ = {
    "Blur": p(Maybe(0.3, (blur(0.1, 2.0),))),
    "MocoBlur": p(blur(0.1, 2.0)),
    "VicregBlur": p(Maybe(0.3, (blur(0.1, 2.0),))),
    "Solarize": p(Maybe(0.3, (SOLARIZE,))),
    "TorchCoin": p(Maybe(0.3, (INVERT,))),
    "TwoCoins": p(Maybe(0.3, (EQUALIZE,)), Maybe(0.25, (step_of("solarize", "solarize", values=[99.0]),))),
    "Ternary": p(Maybe(0.3, (T,)), U),
    "TwoCrops": [p(T), p(T)],
    "Generated": [p(T), p(T)],
    "Pair": (p(T), p(U)),
    "Each": [p(T), p(U)],
    "Dino": [p(T)] * 2 + [p(U)] * 8,
    "Prepared": {"one": p(RGB, T, U), "other": (p(RGB, T, U),)},
}


@pytest.mark.parametrize("name", READ)
def test_what_public_repositories_write_is_read(name):
    made = look(read(getattr(seen, name)(T, U)))
    assert made == READ[name] or _nearly(made, READ[name])


def _nearly(made, expected):
    """The shares of the draws are floats, which are rounded on the way."""
    return repr(made) == repr(expected) or (
        made[0] == expected[0]
        and len(made[1]) == len(expected[1])
        and all(isinstance(step, Maybe) for step in made[1])
        and all(
            one.p == pytest.approx(other.p) and _levels(one) == pytest.approx(_levels(other))
            for one, other in zip(made[1], expected[1])
        )
    )


def _levels(maybe):
    (op,) = (op for step in maybe.steps for branch in step.op["branches"] for op in branch["ops"])
    return (
        [op["level"]["offset"], op["level"]["mean"]]
        if "level" in op
        else [hash(op["kind"]), *op.get("values", [])]
    )


def test_a_view_that_stands_twice_is_one_picture():
    made = read(seen.DinoV2(T, T, U, U))
    assert list(made) == ["global_crops", "global_crops_teacher", "local_crops", "offsets"]
    assert made["global_crops"][0] is made["global_crops_teacher"][0]
    assert look(made) == {
        "global_crops": [p(T, U)] * 2,
        "global_crops_teacher": [p(T, U)] * 2,
        "local_crops": [p(T, U)] * 3,
        "offsets": (),
    }


@pytest.mark.parametrize("cls", [*unseen_draws.HOSTILE, *unseen_code.HOSTILE], ids=lambda cls: cls.__name__)
def test_what_does_something_else_too_is_not_read(cls):
    assert read(cls(T, U)) is None


def test_a_subclass_that_overrides_is_another_callable():
    assert look(read(seen.TwoCrops(T))) == [p(T), p(T)]
    assert read(seen.Overrides(T)) is None


# ---------------------------------------------------------------- names that mean something else


@pytest.mark.parametrize(
    "module, name, cls",
    [
        (random, "random", seen.Solarize),
        (random, "uniform", seen.MocoBlur),
        (np.random, "rand", seen.VicregBlur),
        (torch, "rand", seen.TorchCoin),
        (ImageOps, "solarize", seen.Solarize),
        (ImageFilter, "GaussianBlur", seen.MocoBlur),
        (Image.Image, "filter", seen.MocoBlur),
    ],
    ids=lambda value: getattr(value, "__name__", value),
)
def test_a_function_that_a_script_has_replaced_is_not_known(module, name, cls, monkeypatch):
    assert known(cls(T))
    original = getattr(module, name)

    def replacement(*arguments, **keywords):
        return original(*arguments, **keywords)

    monkeypatch.setattr(module, name, replacement)
    assert not known(cls(T))


def test_a_class_of_pillow_whose_method_is_replaced_is_not_known(monkeypatch):
    original = ImageFilter.GaussianBlur.filter
    monkeypatch.setattr(ImageFilter.GaussianBlur, "filter", lambda self, image: original(self, image))
    assert read(seen.MocoBlur(T)) is None


def test_a_generator_with_a_random_of_its_own_is_not_known(monkeypatch):
    monkeypatch.setitem(vars(random._inst), "random", lambda: 0.5)
    assert read(seen.MocoBlur(T)) is None


def test_functions_replaced_before_the_import_are_not_known():
    script = """
        import random
        random.random = lambda: 0.5
        import PIL.ImageOps
        from millrace._common.lowering.read_source import read
        import seen_classes
        assert read(seen_classes.Solarize(None)) is None
        PIL.ImageOps.invert = lambda image: image
        assert read(seen_classes.invert).steps() == [PIL.ImageOps.invert]
        assert read(seen_classes.equalize).steps() != [PIL.ImageOps.equalize]
    """
    run_code(script)


class Ops:
    def __init__(self, invert):
        self.invert = invert


def test_a_name_is_looked_up_where_the_function_does(monkeypatch):
    assert len(read(seen.by_builtin)) == 2
    monkeypatch.setattr(seen, "range", lambda count: [1], raising=False)
    assert read(seen.by_builtin) is None
    monkeypatch.undo()
    monkeypatch.setattr(seen, "ImageOps", Ops(ImageOps.equalize))
    assert look(read(seen.invert)) == p(EQUALIZE)  # which is what calling it would do


def test_builtins_and_globals_of_its_own():
    code = seen.by_builtin.__code__
    own = {"ImageOps": ImageOps, "__builtins__": {"range": lambda count: [1]}}
    assert read(types.FunctionType(code, own)) is None
    assert look(read(types.FunctionType(code, {"ImageOps": ImageOps, "__builtins__": vars(builtins)})))

    class Changing(dict):
        def __getitem__(self, name):
            raise NotImplementedError

    assert read(types.FunctionType(code, Changing(vars(seen)))) is None


def test_a_module_that_answers_for_itself(monkeypatch):
    class Lazy(types.ModuleType):
        def __getattribute__(self, name):
            return random.choice([ImageOps.invert, ImageOps.equalize])

    class Descriptor(types.ModuleType):
        invert = property(lambda self: random.choice([ImageOps.invert, ImageOps.equalize]))

    for cls in (Lazy, Descriptor):
        module = cls("operations")
        types.ModuleType.__getattribute__(module, "__dict__")["invert"] = ImageOps.invert
        monkeypatch.setattr(seen, "ImageOps", module)
        assert read(seen.invert) is None


def test_what_an_object_has_is_read_as_it_is_now():
    views = seen.TwoCrops(T)
    views.t = U
    assert look(read(views)) == [p(U), p(U)]
    views = seen.Generated(T)
    views.n = 3
    assert len(read(views)) == 3
    views.n = True  # no int
    assert read(views) is None
    views.range = None
    views.__call__ = lambda x: x  # which Python does not look at
    views.n = 2
    assert len(read(views)) == 2


# ---------------------------------------------------------------- code and source


def test_code_that_was_replaced_is_read_as_it_is():
    function = types.FunctionType(seen.invert.__code__, vars(seen))
    function.__code__ = seen.equalize.__code__
    assert look(read(function)) == p(EQUALIZE)
    function.__code__ = seen.invert.__code__.replace(co_names=("ImageOps", "equalize"))
    assert read(function) is None
    function.__code__ = seen.invert.__code__.replace(co_firstlineno=seen.equalize.__code__.co_firstlineno)
    assert read(function) is None


def test_functions_that_ran_often_are_read():
    """The interpreter rewrites their bytecode."""
    function, picture = seen.invert, Image.new("RGB", (2, 2))
    for _ in range(2000):
        function(picture)
    assert look(read(function)) == p(INVERT)


def test_two_functions_on_one_line():
    assert look(read(seen.alone)) == p(INVERT)
    assert look(read(seen.one_line)) == p(INVERT) and look(read(seen.other)) == p(EQUALIZE)
    of_closures = [
        lambda x: ImageOps.invert(x),
        lambda x, of=ImageOps: of.invert(x),
        lambda x: ImageOps.equalize(x),
    ]
    assert [look(read(function)) for function in of_closures] == [p(INVERT), p(INVERT), p(EQUALIZE)]


def test_what_python_warned_of_at_the_import_is_not_said_again(tmp_path, monkeypatch):
    source = """from PIL import ImageOps
one, other = (lambda x: ImageOps.invert(x)), (lambda x: ImageOps.equalize(x) if x is not 5 else "\\d")
def plain(x): return ImageOps.invert(x)
"""
    (tmp_path / "warned_of.py").write_text(source)
    monkeypatch.syspath_prepend(tmp_path)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        module = importlib.import_module("warned_of")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert [look(read(function)) for function in (module.one, module.plain)] == [p(INVERT)] * 2


def test_code_without_source():
    names = dict(vars(seen))
    exec("def made(x):\n    return [ImageOps.invert(x), ImageOps.invert(x)]\n", names)
    assert read(names["made"]) is None
    exec("made = lambda x: ImageOps.invert(x)", names)
    assert read(names["made"]) is None


def test_a_cell_of_a_notebook():
    """IPython puts the source of cells where linecache finds it."""
    source = "def made(x):\n    return [ImageOps.invert(x), ImageOps.equalize(x)]\n"
    name, names = "<ipython-input-7-0123456789ab>", {"ImageOps": ImageOps}
    exec(compile(source, name, "exec"), names)
    assert read(names["made"]) is None
    linecache.cache[name] = len(source), None, source.splitlines(True), name
    try:
        assert look(read(names["made"])) == [p(INVERT), p(EQUALIZE)]
        linecache.cache[name] = len(source), None, source.replace("equalize", "invert").splitlines(True), name
        assert read(names["made"]) is None
    finally:
        del linecache.cache[name]


@pytest.mark.parametrize("head", ["", "from __future__ import annotations\n"], ids=["plain", "future"])
def test_a_file_that_changes_after_the_import(tmp_path, head, monkeypatch):
    source = (
        head + "from PIL import ImageOps\n\n\ndef made(x: int) -> list:\n    return [ImageOps.invert(x)]\n"
    )
    file = tmp_path / "changing.py"
    file.write_text(source)
    monkeypatch.syspath_prepend(tmp_path)
    module = importlib.import_module("changing")
    try:
        assert look(read(module.made)) == [p(INVERT)]
        for changed in (source.replace("invert", "equalize"), "\n" + source, "(", ""):
            file.write_text(changed)
            linecache.checkcache(str(file))
            assert read(module.made) is None
    finally:
        del sys.modules["changing"]


def test_optimised_interpreters_read_the_same():
    script = """
        import seen_classes, unseen_draws, millrace
        from millrace._common.lowering.read_source import read
        made = read(seen_classes.DinoV2(len, len, len, len))
        assert len(made["local_crops"]) == 3 or exit(3)
        if read(unseen_draws.CoinTwice(len, len)) is not None:
            exit(4)
    """
    for flags in (["-O"], ["-OO"], ["-W", "error"]):
        run_code(script, flags=flags)


def test_objects_that_were_pickled():
    views = pickle.loads(pickle.dumps(seen.Generated(T)))
    assert [kind for kind, _ in look(read(views))] == ["picture"] * 2


def test_functions_with_globals_of_their_own():
    """As pickles by value have them: only the names that the function uses."""
    code = seen.invert.__code__
    by_value = types.FunctionType(code, {name: vars(seen)[name] for name in ("ImageOps",)})
    assert look(read(by_value)) == p(INVERT)


def test_functions_that_were_pickled_by_value():
    cloudpickle = pytest.importorskip("cloudpickle")
    cloudpickle.register_pickle_by_value(seen)
    try:
        by_value = cloudpickle.loads(cloudpickle.dumps(seen.invert))
    finally:
        cloudpickle.unregister_pickle_by_value(seen)
    assert by_value.__globals__ is not vars(seen)
    if by_value.__code__.co_filename == seen.__file__:
        assert look(read(by_value)) == p(INVERT)
    else:  # from cloudpickle 3.1.3 on nothing says where the source is
        assert read(by_value) is None


# ---------------------------------------------------------------- what is bound


def test_closures_partials_and_modules():
    assert look(read(seen.nested(T))) == [p(T), p(T)]
    assert look(read(functools.partial(seen.with_transform, T))) == [p(T), p(T)]
    assert look(read(seen.Module(torch.nn.Identity()))) is not None
    for arguments, keywords in (((), {"t": T}), ((T, U, U), {}), ((T,), {"nope": U}), ((T, U), {})):
        assert read(functools.partial(seen.with_transform, *arguments, **keywords)) is None


def test_hooks_and_methods_that_are_replaced():
    module = seen.Module(torch.nn.Identity())
    handle = module.register_forward_hook(lambda *_: None)
    assert read(module) is None
    handle.remove()
    handle = module.register_forward_pre_hook(lambda *_: None)
    assert read(module) is None
    handle.remove()
    assert len(read(module)) == 2
    module.forward = lambda x: x
    assert read(module) is None
