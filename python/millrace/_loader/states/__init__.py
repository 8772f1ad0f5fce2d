"""Resume: what a loader's state is made of, and how an epoch goes on from it.

index_cursor.py draws index lists and knows the position after each; progress.py is what an iterator reports
to, epochs.py what it knows of epochs; written.py and saved.py are the state, out and in.
"""

from ..._common.states import is_stateful, put_back, state_of
from .before_first import before_first_epoch
from .index_cursor import CursorSampler, IndexCursor
from .progress import Progress
from .saved import SavedState, fingerprint, gather_state, merge_states
from .written import dataset_parts, put_dataset_back, put_fetcher_back

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
