"""What torch's main branch changes, tried before it is released."""

import pytest
from python_code import run_code

pytestmark = pytest.mark.slow

# As torch's main branch has it: generic of what the dataset has and of what the loader gives.
GENERIC_OF_TWO = """
from typing import Generic, TypeVar
import torch.utils.data as data

S, B = TypeVar("S"), TypeVar("B", covariant=True)
data.DataLoader.__parameters__ = (S, B)
try:
    data.DataLoader[int]
except TypeError:
    pass
else:
    raise SystemExit("torch's class takes one type all the same")

import millrace

assert [len(millrace.DataLoader[types](range(5), 2)) for types in (int, (int, list))] == [3, 3]

class Mine(millrace.DataLoader[S, B], Generic[S, B]):
    pass

assert len(list(Mine[int, list](range(5), 2))) == 3
millrace.install()
assert data.DataLoader is millrace.DataLoader and isinstance(Mine(range(5)), data.DataLoader)
"""


def test_a_torch_whose_loader_is_generic_of_two_types():
    run_code(GENERIC_OF_TWO)
