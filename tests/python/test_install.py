"""install() puts our class wherever torch's was, and uninstall() leaves nothing behind."""

import copy
import pickle
import subprocess
import sys
import textwrap
import types
from abc import ABC
from typing import Generic, TypeVar

import millrace
import pytest
import torch.utils.data
import torch.utils.data.dataloader

TORCHS = torch.utils.data.DataLoader
T = TypeVar("T")


class Theirs(TORCHS):
    """A library's subclass, made before anything was installed."""


@pytest.fixture
def installed():
    millrace.install()
    yield
    millrace.uninstall()


@pytest.fixture
def module(monkeypatch):
    """module(name, **variables) is an imported module with these variables."""

    def make(name, **variables):
        made = types.ModuleType(name)
        vars(made).update(variables)
        monkeypatch.setitem(sys.modules, name, made)
        return made

    yield make
    millrace.uninstall()


def test_every_name_is_exchanged_and_comes_back(module):
    library = module(
        "a_library",
        Loader=TORCHS,
        _private=TORCHS,
        Dataset=torch.utils.data.Dataset,
        kept=millrace.DataLoader,
    )
    before = dict(vars(library))
    millrace.install()
    assert library.Loader is library._private is millrace.DataLoader
    assert torch.utils.data.DataLoader is torch.utils.data.dataloader.DataLoader is millrace.DataLoader
    assert globals()["TORCHS"] is millrace.DataLoader, "this module's own name, too"
    assert library.Dataset is torch.utils.data.Dataset

    millrace.uninstall()
    assert vars(library) == before and library.kept is millrace.DataLoader
    assert (
        torch.utils.data.DataLoader
        is torch.utils.data.dataloader.DataLoader
        is TORCHS
        is not millrace.DataLoader
    )


def test_modules_imported_since_get_torchs_class_back(module):
    millrace.install()
    later = module("a_later_library", Loader=torch.utils.data.DataLoader)
    assert later.Loader is millrace.DataLoader
    millrace.uninstall()
    assert later.Loader is TORCHS


def test_a_name_given_to_something_else_is_left_alone(module):
    library = module("a_library", Loader=TORCHS)
    millrace.install()
    library.Loader = list
    millrace.uninstall()
    assert library.Loader is list


def test_twice_is_once(module):
    millrace.install()
    late = module(
        "reloaded_library", Loader=millrace.DataLoader.__bases__[0]
    )  # had kept torch's class somewhere
    millrace.install()
    assert late.Loader is millrace.DataLoader
    millrace.uninstall()
    millrace.uninstall()
    assert late.Loader is TORCHS is torch.utils.data.DataLoader


def test_odd_things_among_the_modules_are_not_asked(module, monkeypatch):
    class Lazy(types.ModuleType):
        def __getattribute__(self, name):
            raise AssertionError(f"asked for {name}")

    monkeypatch.setitem(sys.modules, "a_lazy_module", Lazy("a_lazy_module"))
    monkeypatch.setitem(sys.modules, "no_module", object())
    monkeypatch.setitem(sys.modules, "a_blocked_module", None)
    millrace.install()
    millrace.uninstall()


def test_torchs_loaders_pass_while_installed(module):
    torchs_own, theirs = TORCHS(range(3)), Theirs(range(3))

    class Ours(millrace.DataLoader):
        pass

    def passes(cls):
        return (
            isinstance(torchs_own, cls),
            isinstance(theirs, cls),
            issubclass(Theirs, cls),
            isinstance(Ours(range(3)), cls),
        )

    for _ in range(2):  # nothing is remembered from one state in the other
        assert passes(millrace.DataLoader) == (False, False, False, True)
        millrace.install()
        assert passes(millrace.DataLoader) == (True, True, True, True)
        assert passes(Ours) == (False, False, False, True), "a subclass is as narrow as ever"
        assert not isinstance(3, millrace.DataLoader) and not issubclass(int, millrace.DataLoader)
        millrace.uninstall()


def test_the_class_stays_generic_and_may_have_an_abstract_base(installed):
    class Mine(torch.utils.data.DataLoader[T], Generic[T], ABC):
        pass

    assert list(Mine[int](range(3), 3))[0].tolist() == [0, 1, 2]
    assert torch.utils.data.DataLoader[int](range(3)).stats()["engine"] == "inline"


def test_copies_and_pickles(installed):
    loader = torch.utils.data.DataLoader(list(range(5)), 2)
    for other in (copy.deepcopy(loader), pickle.loads(pickle.dumps(loader))):
        assert type(other) is millrace.DataLoader and [batch.tolist() for batch in other] == [
            [0, 1],
            [2, 3],
            [4],
        ]
    assert pickle.loads(pickle.dumps(torch.utils.data.DataLoader)) is millrace.DataLoader
    assert len(copy.deepcopy(Theirs(range(5)))) == 5


def test_earlier_subclasses_work_on_with_torchs_code(installed):
    assert Theirs.__mro__[1] is millrace.DataLoader.__bases__[0]
    loader = Theirs(range(4), 2, num_workers=1)
    assert [batch.tolist() for batch in loader] == [[0, 1], [2, 3]]


def test_a_class_of_both_is_made_at_run_time(installed):
    """accelerate makes its loader's class so: from its own subclass of torch's class, and the class of the
    user's loader.
    """
    both = type("Theirs", (Theirs, millrace.DataLoader), {})
    loader = Theirs(range(4), 2)
    loader.__class__ = both
    assert isinstance(loader, millrace.DataLoader) and len(loader) == 2


def test_frameworks_patch_the_class_and_its_subclasses(installed):
    """As Lightning does: everything that __init__ gets is written down while its hook runs."""
    base = torch.utils.data.DataLoader

    def subclasses(cls):
        return {cls, *(deeper for sub in cls.__subclasses__() for deeper in subclasses(sub))}

    classes = subclasses(base)
    assert {millrace.DataLoader, Theirs} <= classes and millrace.DataLoader.__bases__[0] not in classes
    seen, saved = [], [(cls, vars(cls)["__init__"]) for cls in classes if "__init__" in vars(cls)]

    def wrap(cls, init):
        def __init__(self, *args, **kwargs):
            seen.append(cls)
            init(self, *args, **kwargs)

        cls.__init__ = __init__

    set_attribute = base.__setattr__
    try:
        for cls, init in saved:
            wrap(cls, init)
        base.__setattr__ = lambda self, name, value: set_attribute(self, name, value)
        assert len(base(range(4), 2)) == 2
    finally:
        for cls, init in saved:
            cls.__init__ = init
        base.__setattr__ = set_attribute
        del base.__setattr__
    assert seen == [millrace.DataLoader]


SPAWNING = """
    import multiprocessing, sys
    import millrace

    def report(queue):
        import torch.utils.data
        queue.put(torch.utils.data.DataLoader.__module__)
        if multiprocessing.current_process().name == "child":
            spawning = multiprocessing.get_context("spawn")
            grandchild = spawning.Process(target=report, args=(queue,), name="grandchild")
            grandchild.start()
            grandchild.join()

    if __name__ == "__main__":
        millrace.install()
        context = multiprocessing.get_context(sys.argv[1])
        queue = context.Queue()
        child = context.Process(target=report, args=(queue,), name="child")
        child.start()
        print(queue.get(timeout=100), queue.get(timeout=100))
        child.join()
        millrace.uninstall()
        queue = context.Queue()
        child = context.Process(target=report, args=(queue,))
        child.start()
        print(queue.get(timeout=100))
        child.join()
"""


@pytest.mark.parametrize("method", ["spawn", pytest.param("forkserver", marks=pytest.mark.slow)])
def test_spawned_processes_have_it_too(tmp_path, method):
    script = tmp_path / "spawning.py"
    script.write_text(textwrap.dedent(SPAWNING))
    run = subprocess.run([sys.executable, script, method], capture_output=True, text=True, timeout=200)
    assert run.stdout.split() == [
        "millrace.dataloader",
        "millrace.dataloader",
        "torch.utils.data.dataloader",
    ], run.stderr
