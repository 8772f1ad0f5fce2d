"""What tests of remote="ray" have in common. Imported before Ray: how its processes are to be started."""

import os
import time

os.environ.setdefault("RAY_AUTH_MODE", "disabled")
os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")
os.environ.setdefault("RAY_worker_niceness", "0")  # 15, unless told: beside other tests it would get no CPU

PATIENCE_S = 200


def slowly(loader):
    """Batches of an epoch, with time for actors to answer."""
    for batch in loader:
        yield batch
        time.sleep(0.01)


def through(monkeypatch, way):
    """How batches come from actors here: in shared memory ("parcels"), or through Ray's "store"."""
    from millrace._loader.remote import member

    monkeypatch.setattr(member, "LEAST_BYTES", 1)
    if way == "store":
        monkeypatch.setattr(member, "this_machine", lambda: None)


def in_shared_memory(seen):
    """Batches, by stats()["remote"]."""
    return sum(node["in_shared_memory"] for node in seen["nodes"].values())


def helped(loader, epoch, wanted=1):
    """What `epoch(loader)` gives, until `wanted` actors have made batches of an epoch."""
    epochs, until = [], time.monotonic() + PATIENCE_S
    while True:
        epochs.append(epoch(loader))
        seen = loader.stats()["remote"]
        if seen["workers"] >= wanted and seen["nodes"]:
            return epochs
        assert time.monotonic() < until, f"no actor helped: {seen}"
