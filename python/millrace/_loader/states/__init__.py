"""Resume: the contents of a loader's state, and how an epoch goes on from it.

Iterators report to progress.py. epochs.py has the facts about an epoch, and writes states from them;
saved.py has a loaded state. index_cursor.py draws index lists and knows the position after each;
users_objects.py handles users' samplers and datasets, kept_states.py handles a state that a dataset keeps.
"""

from ..._common.states import is_stateful, put_back, state_of
from .index_cursor import IndexCursor
from .progress import CursorSampler, Progress, before_first_epoch
from .saved import SavedState, fingerprint, gather_state, merge_states
from .users_objects import dataset_parts, put_dataset_back, put_ended_back, put_fetcher_back

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
    "put_ended_back",
    "put_fetcher_back",
    "state_of",
]
