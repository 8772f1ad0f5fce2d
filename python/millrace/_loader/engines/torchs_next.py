"""torch's `__next__`, without the profiler's range around it where nobody listens: that is half of what it
costs.
"""

from __future__ import annotations

from typing import Any

from ... import _core


class TorchsNext:
    """Mixin before torch's iterators. No class behind it has a `__next__` but torch's: it would not be
    called.
    """

    def _torchs_next(self) -> Any:
        # A new sampler, and the warning about a stream that is longer than its len(), are left to torch.
        iterator: Any = self
        if (
            _core.ranges_are_heard()
            or iterator._sampler_iter is None
            or iterator._IterableDataset_len_called is not None
        ):
            return super().__next__()  # type: ignore[misc]
        data = iterator._next_data()
        iterator._num_yielded += 1
        return data
