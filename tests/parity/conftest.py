"""The parity tests use the same small inputs as the tests beside them."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "python"))
