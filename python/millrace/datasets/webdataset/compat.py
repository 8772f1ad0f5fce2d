"""wds.compat: WebDataset, WebLoader and the fluent methods, by the names that the package has them under."""

from .dataset import WebDataset
from .fluent import Fluent as FluidInterface
from .pipeline import DataPipeline, FluidWrapper
from .web_loader import WebLoader

__all__ = ["DataPipeline", "FluidInterface", "FluidWrapper", "WebDataset", "WebLoader"]
