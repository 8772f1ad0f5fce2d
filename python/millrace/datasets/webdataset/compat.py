"""wds.compat: WebDataset, WebLoader and the fluent methods, by the names that the package has them under."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from .dataset import WebDataset
from .fluent import Fluent as FluidInterface
from .mix import Mixture
from .pipeline import DataPipeline, FluidWrapper


class WebLoader(Mixture):
    """millrace.DataLoader(...), whose batches go through further stages:
    `.unbatched().shuffle(1000).batched(64).with_epoch(500)`.

    The arguments (`args`, `kw`) are those of `DataLoader`. Stages behind it run in the consumer's thread.
    Without any, millrace.DataLoader does the same, and has len(). explain(), stats(), profile(), advice() and
    report() are those of `loader`. state_dict() has the loader's; what is held behind it is read again.
    """

    def __init__(self, *args: Any, **kw: Any) -> None:
        loader: Any = import_module("millrace").DataLoader(*args, **kw)  # which stands above data sets
        super().__init__(
            [loader],
            seed=getattr(loader.dataset, "seed", None) if hasattr(loader.dataset, "stages") else None,
        )

    @property
    def loader(self) -> Any:
        """The DataLoader in it."""
        return self.datasets[0]

    def explain(self, samples: int = 0) -> str:
        """DataLoader.explain(), and a line of the stages behind."""
        behind = "".join(f".{stage}" for stage in self.stages)
        told = f"\nstages behind: python — {behind}, in the consumer's thread" if behind else ""
        return self.loader.explain(samples) + told

    def stats(self, steps: bool = False) -> dict[str, Any]:
        """DataLoader.stats(): of what comes before the stages behind."""
        return self.loader.stats(steps)

    def profile(self, steps: bool = False) -> dict[str, Any] | None:
        return self.loader.profile(steps)

    def advice(self) -> Any:
        return self.loader.advice()

    def report(self) -> Any:
        return self.loader.report()

    def __repr__(self) -> str:
        return f"WebLoader({self.loader.dataset!r}){''.join(f'.{stage}' for stage in self.stages)}"


__all__ = ["DataPipeline", "FluidInterface", "FluidWrapper", "WebDataset", "WebLoader"]
