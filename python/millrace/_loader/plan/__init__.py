"""What of a loader the native engines can run, and why the rest cannot.

`make_plan(loader)` looks at dataset, transform, sampler, collate_fn and worker_init_fn, each with a
recogniser. The dataset's class picks its own, so the modules of the others are not entered. Recognisers go by
exact type or qualified name, so no optional library is imported, and a subclass that might behave differently
is never mistaken for its base. Nothing here draws random numbers or touches a sample, but the first of an
Arrow dataset, whose format only its own library knows.
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
