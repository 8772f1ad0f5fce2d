"""What a function (of hugging_face_functions.py) is taken to do with a column of pictures."""

import hugging_face_functions as functions
import pytest
from millrace import transforms
from millrace._common.lowering.read_batches import read_batches
from millrace._common.lowering.read_values import Column, Maybe, Op, Pictures
from PIL import Image  # noqa: F401  without it nobody has a picture to convert

COLUMNS = "image", "label", "text"
T = transforms.ToTensor()
RGB = Op({"op": "rgb"}, 'convert("RGB")')
READ = {
    "transformers": {"image": [], "label": "label", "text": "text", "pixel_values": [RGB, T]},
    "deleted": {"label": "label", "text": "text", "pixel_values": [RGB, T]},
    "popped": {"label": "label", "text": "text", "pixel_values": [RGB, T]},
    "in_place": {"image": [RGB, T], "label": "label"},
    "renamed": {"labels": "label", "x": [RGB, T]},
    "chosen": {"pixel_values": [RGB, T], "text": "text", "label": "label"},
    "bound": {"x": [RGB, T]},
    "object": {"label": "label", "pixel_values": [RGB, T]},
    "lambda": {"y": "label", "x": [RGB, T]},
}
# Read, and left to Python for what they come to: no picture, two, or one in the mode of its file.
OTHERWISE = functions.no_pictures, functions.two_columns, functions.in_any_mode


def look(made):
    def shown(column):
        return column.name if isinstance(column, Column) else column.picture.steps()

    assert all(isinstance(column, (Pictures, Column)) for column in made.values())
    return [(name, shown(column)) for name, column in made.items()]


def test_what_is_read(monkeypatch):
    monkeypatch.setattr(functions, "PLAIN", T)
    known = functions.known(T)
    assert set(known) == set(READ)
    for name, function in known.items():
        assert look(read_batches(function, COLUMNS, "image")) == list(READ[name].items()), name


def test_a_coin_for_each_picture_is_drawn_for_each(monkeypatch):
    monkeypatch.setattr(functions, "PLAIN", T)
    made = look(read_batches(functions.a_coin_for_each, ("image",), "image"))
    assert made == [("image", [Maybe(0.5, (RGB,)), T])]


@pytest.mark.parametrize("function", functions.UNKNOWN)
def test_what_is_not(monkeypatch, function):
    monkeypatch.setattr(functions, "PLAIN", T)
    assert (read_batches(function, COLUMNS, "image") is None) == (function not in OTHERWISE)
