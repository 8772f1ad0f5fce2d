"""wds.compat: WebDataset, WebLoader and the fluent methods, by the package's names."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from .dataset import WebDataset
from .fluent import Fluent as FluidInterface
from .mix import Mixture
from .pipeline import DataPipeline, FluidWrapper


class WebLoader(Mixture):
    """millrace.DataLoader(...) with further stages for its batches:
    `.unbatched().shuffle(1000).batched(64).with_epoch(500)`.

    The further stages run in the consumer's thread. Without further stages, use millrace.DataLoader: it does
    the same, and has len(). explain(), stats(), profile(), advice() and report() are those of `loader`.
    state_dict() has the loader's state; samples that a further stage held are read again.

    Args:
        *args, **kw: those of `DataLoader`.
    """

    def __init__(self, *args: Any, **kw: Any) -> None:
        loader: Any = import_module("millrace").DataLoader(*args, **kw)  # late: it imports data sets
        super().__init__(
            [loader],
            seed=getattr(loader.dataset, "seed", None) if hasattr(loader.dataset, "stages") else None,
        )

    @property
    def loader(self) -> Any:
        """The wrapped DataLoader."""
        return self.datasets[0]

    def explain(self, samples: int = 0) -> str:
        """DataLoader.explain(), and a line of the further stages."""
        behind = "".join(f".{stage}" for stage in self.stages)
        told = f"\nstages behind: python — {behind}, in the consumer's thread" if behind else ""
        return self.loader.explain(samples) + told

    def stats(self, steps: bool = False) -> dict[str, Any]:
        """DataLoader.stats(), without the further stages."""
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
