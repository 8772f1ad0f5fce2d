"""`python -m millrace run script.py` is `python script.py`, but for the class that the script imports."""

import json
import signal
import subprocess
import sys
import textwrap
import zipfile

import pytest
import torch
from millrace.__main__ import main as command_line

pytestmark = pytest.mark.slow

REPORT = """
    import json, os, pickle, sys
    from torch.utils.data import DataLoader

    class Defined:
        pass

    main = sys.modules["__main__"]
    print(json.dumps({
        "argv": sys.argv, "path": sys.path[0], "name": __name__, "file": __file__, "package": __package__,
        "spec": getattr(__spec__, "name", None), "main": vars(main) is globals(),
        "loader": DataLoader.__module__,
        "names": sorted(name for name in globals() if name not in ("__annotations__",)),
        "pickled": type(pickle.loads(pickle.dumps(Defined()))) is Defined,
        "future": compile("1", "", "eval").co_flags,
    }))
"""


def python(*words, cwd, **options):
    return subprocess.run(
        [sys.executable, *map(str, words)], cwd=cwd, capture_output=True, text=True, timeout=200, **options
    )


@pytest.fixture
def folder(tmp_path):
    """A package, a script and a link to it, all saying what they see."""
    (tmp_path / "package").mkdir()
    (tmp_path / "scripts").mkdir()
    for place in ("package/__init__.py", "package/__main__.py", "package/module.py", "scripts/report.py"):
        (tmp_path / place).write_text("" if "init" in place else textwrap.dedent(REPORT))
    (tmp_path / "link.py").symlink_to(tmp_path / "scripts" / "report.py")
    with zipfile.ZipFile(tmp_path / "archive.zip", "w") as archive:
        archive.writestr("__main__.py", textwrap.dedent(REPORT))
    return tmp_path


WAYS = [
    "scripts/report.py --lr 0.1 -m",
    "link.py",
    "-m package.module run",
    "-m package",
    "package",
    "archive.zip x",
]


@pytest.mark.parametrize("words", [way.split() for way in WAYS], ids=WAYS)
def test_the_script_sees_what_it_always_saw(folder, words):
    plain, ours = python(*words, cwd=folder), python("-m", "millrace", "run", *words, cwd=folder)
    assert plain.returncode == ours.returncode == 0, ours.stderr
    expected, seen = json.loads(plain.stdout), json.loads(ours.stdout)
    assert (expected.pop("loader"), seen.pop("loader")) == (
        "torch.utils.data.dataloader",
        "millrace.dataloader",
    )
    assert seen == expected


ENDINGS = {
    "falls off the end": "pass",
    "exits": "sys.exit(7)",
    "exits with a text": "sys.exit('enough')",
    "raises": "def deeper(): raise LookupError('not here')\ndeeper()",
    "is not Python": "def broken(:",
    "is interrupted": "import os, signal\nos.kill(os.getpid(), signal.SIGINT)\nimport time; time.sleep(9)",
}


@pytest.mark.parametrize("ending", ENDINGS)
def test_it_ends_as_it_would(tmp_path, ending):
    head = "import signal, sys\nsignal.signal(signal.SIGINT, signal.default_int_handler)\n"
    (tmp_path / "script.py").write_text(head + ENDINGS[ending] + "\n")
    plain = python("script.py", cwd=tmp_path)
    ours = python("-m", "millrace", "run", "script.py", cwd=tmp_path)
    assert (ours.returncode, ours.stderr) == (plain.returncode, plain.stderr)
    assert (plain.returncode == -signal.SIGINT) == (ending == "is interrupted")


SPAWNS = """
    import multiprocessing, os
    import torch
    from torch.utils.data import DataLoader, Dataset

    class Squares(Dataset):  # pickled as a class of __main__, found again in the worker's __mp_main__
        def __len__(self):
            return 6
        def __getitem__(self, index):
            assert __name__ == "__mp_main__"
            return index * index

    def train(rank):                            # as torch.multiprocessing.spawn runs one process per device
        print(rank, DataLoader.__module__, DataLoader([1, 2]).stats()["engine"])

    if __name__ == "__main__":
        loader = DataLoader(Squares(), 3, num_workers=1, multiprocessing_context="spawn")
        print([batch.tolist() for batch in loader], loader.stats()["engine"], flush=True)
        torch.multiprocessing.spawn(train, nprocs=1)
"""


@pytest.mark.parametrize("words", [["script.py"], ["-m", "script"]], ids=" ".join)
def test_spawned_processes_find_the_script(tmp_path, words):
    (tmp_path / "script.py").write_text(textwrap.dedent(SPAWNS))
    run = python("-m", "millrace", "run", *words, cwd=tmp_path)
    assert run.stdout.splitlines() == [
        "[[0, 1, 4], [9, 16, 25]] processes",
        "0 millrace.dataloader inline",
    ], run.stderr


def test_explain_prints_each_loader_once(tmp_path):
    (tmp_path / "script.py").write_text(
        textwrap.dedent("""
        from torch.utils.data import DataLoader
        loader = DataLoader(range(3))
        for _ in range(2):
            list(loader)
        list(DataLoader([1, 2]))
    """)
    )
    run = python("-m", "millrace", "run", "--explain", "script.py", cwd=tmp_path)
    heads = [line for line in run.stderr.splitlines() if line.startswith("DataLoader")]
    assert run.returncode == 0
    assert heads == ["DataLoader over range:", "DataLoader over list:"]
    assert "dataset: python —" in run.stderr


def test_the_command_line_helps(tmp_path, capsys):
    for words in ([], ["--help"]):
        assert command_line(words) == 0
        shown = capsys.readouterr()
        assert "run " in shown.out and len(shown.out.splitlines()) < 40 and not shown.err
    for words, said in (
        (["fly"], "no command 'fly'"),
        (["run"], "usage"),
        (["run", "--fast", "x.py"], "usage"),
        (["run", "-m"], "usage"),
    ):
        assert command_line(words) == 2
        shown = capsys.readouterr()
        assert said in shown.err and not shown.out
    assert command_line(["--version"]) == 0 and f"torch {torch.__version__}" in capsys.readouterr().out
    assert python("-m", "millrace", cwd=tmp_path).returncode == 0
    run = python("-m", "millrace", "run", "missing.py", cwd=tmp_path)
    assert run.returncode == 2 and "can't open file" in run.stderr
