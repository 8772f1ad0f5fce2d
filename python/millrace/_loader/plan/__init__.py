"""Finds the parts of a loader that the native engines can run, and the reasons why they cannot run the rest.

`make_plan(loader)` looks at dataset, transform, sampler, collate_fn and worker_init_fn, each with a
recogniser. The dataset's class selects the dataset's recogniser; the modules of other recognisers are not
imported. Recognisers go by exact type or qualified name, so no optional library is imported, and a subclass
that might behave differently is never mistaken for its base. Nothing here draws random numbers or reads a
sample, except the first sample of an Arrow dataset, because only its own library knows the format.
"""

from ..._common.lazy import lazy_names

__getattr__, __dir__, __all__ = lazy_names(
    __name__,
    """
    .plan: Plan make_plan order_advice
    .stages: Stage
    .streams: seen_as_inline
    """,
)
