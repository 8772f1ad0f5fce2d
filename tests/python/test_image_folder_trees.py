"""The native listing of random trees with odd names, links and empty folders equals torchvision's: order,
classes and errors.
"""

import os
import random

import pytest
from millrace import _core

EXTENSIONS = (".jpg", ".jpeg", ".png")
NAMES = [
    b"a",
    b"b",
    b"A",
    b"10",
    b"9",
    b"a-b",
    b"a b",
    b"a.b",
    b"_",
    b"~",
    b"\n",
    b"\xc3\xa9",
    b"\xe4\xb8\xad",
    b"\xf0\x9f\x98\x80",
    b"\xee\x80\x80",
    b"\xc3",
    b"\xff",
    b"\xed\xa0\x80",
]  # the last three are not UTF-8
ENDINGS = [b".jpg", b".JPG", b".Jpeg", b".png", b".txt", b"", b".jpg.txt"]


def grow(root, seed):
    rng = random.Random(seed)
    folders = [root]
    for _ in range(rng.randrange(14)):
        path = os.path.join(rng.choice(folders), rng.choice(NAMES) + rng.choice([b"", b"", b".jpg"]))
        if not os.path.lexists(path):
            os.mkdir(path)
            folders.append(path)
    for _ in range(rng.randrange(40)):
        path = os.path.join(
            rng.choice(folders), rng.choice(NAMES) * rng.choice([0, 1, 2]) + rng.choice(ENDINGS)
        )
        if not os.path.lexists(path):
            open(path, "w").close()
    if rng.random() < 0.4:
        target = rng.choice([b".", b"nowhere", b"link", b"/dev/null", rng.choice(folders)])
        os.symlink(target, os.path.join(rng.choice(folders), b"link"))


def outcome(list_folder):
    """What a listing gives; of an error its type and, as only these are the callers' to match, errno or
    words.
    """
    try:
        return list_folder()
    except OSError as error:
        return type(error), error.errno or str(error)


@pytest.mark.parametrize("seed", range(100))
@pytest.mark.parametrize("allow_empty", [False, True])
def test_equals_torchvision(torchvision, tmp_path, seed, allow_empty):
    grow(os.fsencode(tmp_path), seed)
    root = str(tmp_path) + "/" * (seed % 2)

    def theirs():
        classes, numbers = torchvision.datasets.folder.find_classes(root)
        return classes, torchvision.datasets.folder.make_dataset(
            root, numbers, EXTENSIONS, allow_empty=allow_empty
        )

    def ours():
        classes, paths, labels = _core.list_image_folder(root, list(EXTENSIONS), allow_empty, 2)
        return classes, [(paths[i], int(labels[i])) for i in range(len(paths))]

    assert outcome(ours) == outcome(theirs)
