"""What the history recorder adds to millrace.DataLoader."""

from __future__ import annotations

from typing import Any

from .._history.recorder import BatchHistory


class Recorded:
    """Base of millrace.DataLoader."""

    history: bool | BatchHistory = True

    def replay(self, step: int, epoch: int | None = None, *, verify: bool = True) -> Any:
        """Make the batch again that `next()` gave as step `step` of epoch `epoch`.

        Steps count as in `enumerate(loader)`, but go on where a resumed epoch goes on; epochs count all
        iterators of this loader, also before it was resumed. The running iterator, its samplers and all
        generators stay as they are. An error that `next()` raised is raised.

        Equal in values, shapes and types: batches of the native engine, random augmentations included, and
        batches of Python datasets: their draws from torch's, numpy's and random's global generators are
        repeated. Approximate: Python datasets that draw random numbers in worker threads, from generators of
        their own, or at a step that is not remembered any more; files and tensors that have changed since;
        and streams with Python code that draws. decode="gpu": on the GPU again. The device work of a
        DevicePrefetcher is not repeated.

        Args:
            step: from 0.
            epoch: from 0; None: the latest.
            verify: with BatchHistory(hashes=True) the hash is compared, and a warning says which field
                differs, and from which row on.

        Raises:
            IndexError: if there is no such step, or not yet.
            UnavailableError: if it cannot be had any more; the message says why.
        """
        from .replaying import replayed

        return replayed(self, step, epoch, verify)

    def seen(self, step: int, epoch: int | None = None, *, draws: bool = False) -> dict[str, Any]:
        """Return the facts about a step of the past.

        A dict {"epoch", "step", "indices", "worker", "seed", "hash", ...}, of JSON's types if indices are.

        Args:
            draws: adds the parameters that the native transforms drew, for each picture, as `ds.draw()` has
                them.

        Returns:
            indices: as the sampler gave them; of pictures in files, those of the files, after on_error put
                others in their places, with "occurrences" where an index came before in the epoch, "paths",
                and "size", that of a transforms.RandomBatchSize.
            samples: of native streams, [shard, key] of each.
            worker: the number of the worker that made it; -1: no worker.
            hash, fields: with BatchHistory(hashes=True), "fields" by their place in the batch.
            approximate: why replay() may not give quite this batch, where that is known.
        """
        from .replaying import seen

        return seen(self, step, epoch, draws)

    def dump_state(self, file: Any = None) -> dict[str, Any]:
        """Return what this loader and all its workers are doing at this moment, in JSON's types.

        Any thread may call this, also while next() hangs. millrace.dump_on_signal() has it written when a
        signal comes.

        Args:
            file: a path to write it to, as JSON if it ends in .json, else as text; or an open text file.

        Returns:
            loaders: of this one: its engine, epoch, step, "queue" (batches outstanding and ready, slots and
                free slots), "workers": what each does ("idle", "sample", or a stage of the profile), with
                which index and path or index list, for how many seconds, and, of worker processes, whether
                they live, what the system says of them, and their Python stacks (innermost call first), also
                where they are stuck in C.
            python_threads: of this process, with stacks.
            transfers: the reads from stores.
        """
        from .dump import dumped

        return dumped(self, file)
