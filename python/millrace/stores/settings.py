"""How remote objects are read: plain values, picklable, checked once."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

BLOCK_BYTES = 1 << 20
# of objects that are read in any order and not cached: what a read does not need costs bandwidth
SMALL_BLOCK_BYTES = 256 << 10


@dataclass(frozen=True)
class Settings:
    """`memory`: bytes that may be in memory or on their way; `stall_timeout`: seconds without 256 KiB more
    (less after failures, 4 KiB at least) after which a request is given up and its rest asked for again;
    `retries`: failures in a row, without a byte between, after which an object is; `max_requests`: on their
    way at a time; `request_bytes`: of one request at most; `hedge`: a request that takes so many times as
    long as usual gets a second one. `connect_timeout` is that of http(s), s3, gs and az; fsspec's file
    systems have options of their own, in `store_options`.
    """

    memory: int = 256 << 20
    max_requests: int = 64
    request_bytes: int = 8 << 20
    stall_timeout: float = 20.0
    connect_timeout: float = 5.0
    retries: int = 8
    hedge: float = 3.0
    store_options: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.memory < 4 * BLOCK_BYTES:
            raise ValueError(
                f"memory={self.memory} should be at least {4 * BLOCK_BYTES} bytes: four blocks of 1 MiB"
            )
        if self.request_bytes < BLOCK_BYTES:
            raise ValueError(
                f"request_bytes={self.request_bytes} should be at least {BLOCK_BYTES}, the size of a block"
            )
        for name in ("max_requests", "retries"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name}={getattr(self, name)} should be 1 or more")
        for name in ("stall_timeout", "connect_timeout"):
            if getattr(self, name) <= 0:
                raise ValueError(f"{name}={getattr(self, name)} should be more than 0 seconds")

    def request_blocks(self, block_bytes: int) -> int:
        """Blocks of one request: several requests fit into the budget."""
        return max(1, min(self.request_bytes, self.memory // 4) // block_bytes)
