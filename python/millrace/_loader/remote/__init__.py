"""Batches made by other machines too: actors of Ray, each one of our engines (docs/remote.md).

    RemoteCore ── index list and keys ──▶ local Maker, or Courier ──▶ Member ──▶ actor: Maker
               ◀── one block per field ──

A batch is a function of its list, seed, epoch and occurrences, so any machine may make any batch, even twice.
maker.py and python_maker.py make batches, on both sides, and blocks.py packs them. core.py keeps the order,
courier.py sends tasks to members; neither uses Ray, so they are tested without it. actor.py is the remote
side; pool.py, and near.py for local processes, use Ray. Nothing here is imported before an iterator with
remote= is made.
"""

from .spec import explained, remote_spec

__all__ = ["explained", "remote_spec"]
