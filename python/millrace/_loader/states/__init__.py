"""Resume: what a loader's state is made of, and how an epoch goes on from it.

index_cursor.py draws index lists and knows the position after each; progress.py is what an iterator reports
to; written.py and saved.py are the state, out and in; merging.py makes one of all ranks' states.
"""

from ..._common.stateful import is_stateful, put_back, state_of
from .before_first import before_first_epoch
from .dataset_parts import dataset_parts, put_dataset_back, put_fetcher_back
from .index_cursor import CursorSampler, IndexCursor
from .merging import gather_state, merge_states
from .progress import Progress
from .saved import SavedState, fingerprint

__all__ = [
    "CursorSampler",
    "IndexCursor",
    "Progress",
    "SavedState",
    "before_first_epoch",
    "dataset_parts",
    "fingerprint",
    "gather_state",
    "is_stateful",
    "merge_states",
    "put_back",
    "put_dataset_back",
    "put_fetcher_back",
    "state_of",
]
