"""Autotune: how many threads work and how many batches are in memory, chosen while training
(docs/autotune.md).

`controller` searches and knows nothing of loaders; `tuning` is one loader's; `budget` bounds it; `tune_file`
remembers.
"""

from ..._common.lazy import lazy_names

__getattr__, __dir__, __all__ = lazy_names(
    __name__,
    """
    .budget: Budget
    .controller: Controller
    .tuning: Room Tuning tuning_lines tuning_of
    .windows: Bounds Setting
    """,
)
