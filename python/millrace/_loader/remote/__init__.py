"""Batches made by other machines too: actors of Ray, each one of our engines (docs/remote.md).

    RemoteCore ── index list and keys ──▶ local Maker, or Courier ──▶ Member ──▶ actor: Maker
               ◀── one block per field ──

A batch is a function of its list, seed, epoch and occurrences, so anybody may make any, even twice. maker.py
and python_maker.py make them, on either side, and blocks.py packs them. core.py has the order, courier.py who
works; neither knows Ray, so they are tested without one. actor.py is the other side; pool.py, and near.py for
local processes, know Ray. Nothing here is imported before an iterator with remote= is made.
"""

from .spec import explained, remote_spec

__all__ = ["explained", "remote_spec"]
