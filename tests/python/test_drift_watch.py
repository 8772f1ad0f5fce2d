"""watch(): batches pass through unchanged, what is looked at is a function of the step, nothing is held,
nothing is in the way.
"""

import gc
import multiprocessing
import pickle
import subprocess
import sys
import threading
import time

import millrace
import pytest
import torch
from loader_data import make_folder, pictures
from millrace import DriftOptions, DriftProfile, watch
from test_rows_in_place import in_child

EXACT = DriftOptions(every=1, exact=True)


@pytest.mark.parametrize("workers", [0, 2])
@pytest.mark.parametrize("loader_class", [millrace.DataLoader, torch.utils.data.DataLoader])
def test_batches_pass_through(loader_class, workers):
    data = torch.randn(600, 4)
    dataset = torch.utils.data.TensorDataset(data, torch.arange(600))
    loader = loader_class(dataset, 20, num_workers=workers)
    watched = watch(loader, options=EXACT)
    assert len(watched) == 30 and watched.dataset is dataset and watched.batch_size == 20
    for _ in range(2):
        rows, numbers = (torch.cat(parts) for parts in zip(*watched))
        assert torch.equal(rows, data) and torch.equal(numbers, torch.arange(600))
    assert watched.drift_stats()["examined"] == 60
    profile = watched.profile()
    assert profile.fields["0"]["series"][1]["mean"] == pytest.approx(
        data[:, 1].double().mean().item(), rel=1e-9
    )
    repeats = profile.to_dict()["repeats"]
    assert repeats["samples"] == 1200 and repeats["repeated"] == 0  # those of another epoch are none


def test_native_pictures(tmp_path):
    make_folder(tmp_path)
    loader = millrace.DataLoader(pictures(str(tmp_path)), 4, num_workers=2, native="require")
    batches = [images for images, _ in loader]
    watched = watch(loader, options=EXACT)
    assert all(torch.equal(a, b) for a, (b, _) in zip(batches, watched))
    images = torch.cat(batches).double()
    assert [s["mean"] for s in watched.profile().fields["0"]["series"]] == pytest.approx(
        images.mean((0, 2, 3)).tolist(), rel=1e-9
    )


def test_a_profile_made_by_the_command_is_the_loaders(tmp_path):
    """The same samples, whoever looks at them."""
    data = [torch.rand(50, 3) for _ in range(12)]
    watched = watch(data, options=EXACT)
    for _ in watched:
        pass
    assert watched.profile().fields == DriftProfile.of(data).fields


def test_every_so_manieth_batch_from_the_first_ones_on():
    data = [torch.full((4, 2), float(step)) for step in range(100)]
    watched = watch(data, options=DriftOptions(every=16, first=3, exact=True))
    for _ in watched:
        pass
    series, _ = watched.profile().fields["batch"]["series"]
    assert series["count"] == 4 * 9 and series["mean"] == pytest.approx(
        sum([0, 1, 2, 16, 32, 48, 64, 80, 96]) / 9
    )
    assert watched.drift_stats()["every"] == [[0, 16]]
    for _ in watched:  # numbers go on: 112 is the next, and the 12th of this epoch
        pass
    assert watched.profile().fields["batch"]["series"][0]["count"] == 4 * (9 + 6)


@pytest.mark.alone
def test_every_adapts_to_the_cost():
    data = [torch.rand(256, 64, 64)] * 300
    watched = watch(data)  # a loop that does nothing: looking at everything would be all its time
    for _ in range(3):  # the thread has looked at some at the end of the first one at the latest
        for _ in watched:
            pass
    stats = watched.drift_stats()
    assert stats["every"][-1][1] > 8 and stats["examined"] + stats["dropped"] < 450
    slow = watch(data[:40])
    for _ in slow:
        time.sleep(0.01)
    assert slow.drift_stats()["every"][-1][1] < stats["every"][-1][1]


def test_a_loader_goes_on_while_nobody_looks():
    """The thread is behind: batches are passed over, not waited for; slots of the ring come back."""
    loader = millrace.DataLoader(torch.utils.data.TensorDataset(torch.rand(20_000, 1024)), 128, num_workers=2)
    watched = watch(loader, options=DriftOptions(every=1))
    for _ in range(3):
        for _ in watched:
            pass
    stats = watched.drift_stats()
    assert stats["batches"] == 3 * 157 and stats["examined"] + stats["dropped"] == stats["batches"]
    assert watched.profile().to_dict()["batches"] == stats["examined"]


def test_tensors_are_let_go():
    class Held:
        count = 0

    def batches():
        for _ in range(20):
            tensor = torch.rand(32, 8)
            Held.count += 1
            weak = lambda: setattr(Held, "count", Held.count - 1)  # noqa: E731
            import weakref

            weakref.finalize(tensor, weak)
            yield tensor
            del tensor

    watched = watch(list(batches()), options=EXACT)
    for batch in watched:
        del batch
    watched.loader.clear()
    gc.collect()
    assert Held.count == 0


def test_fields_of_another_kind_are_named():
    profile = DriftProfile.of([{"image": torch.rand(8, 3, 9, 9), "label": torch.arange(8)}])

    def first(batch, **options):
        return next(iter(watch([batch], profile, options=DriftOptions(exact=True, **options))))

    first({"image": torch.rand(4, 3, 5, 5), "label": torch.arange(4)})
    with pytest.raises(
        ValueError,
        match=r'it has "label", which the batches have not, and the batches have "target", which it has not',
    ):
        first({"image": torch.rand(4, 3, 5, 5), "target": torch.arange(4)})
    with pytest.raises(ValueError, match='it has "image", "label"'):
        first([torch.rand(4, 3, 5, 5)])
    with pytest.raises(
        ValueError,
        match=(
            r'"image" is float32 of shape \(4, 1, 5, 5\) here, but the reference profile has float32 of row'
        ),
    ):
        first({"image": torch.rand(4, 1, 5, 5), "label": torch.arange(4)})
    with pytest.raises(ValueError, match='"label" is float32'):
        first({"image": torch.rand(4, 3, 5, 5), "label": torch.rand(4)})
    first({"image": torch.rand(4, 3, 5, 5), "target": torch.arange(4)}, fields=["image"])


def test_a_batch_of_another_shape_is_passed_over():
    batches = [torch.rand(4, 3, 5, 5), torch.rand(4, 1, 5, 5), torch.rand(4, 3, 7, 5)]
    watched = watch(batches, options=EXACT)
    assert len(list(watched)) == 3
    field = watched.profile().fields["batch"]
    assert field["other_layouts"] == 1 and field["row_shape"] == [3, -1, 5]


@pytest.mark.parametrize(
    "arguments, message",
    [
        ({"on_drift": "mail"}, "neither"),
        ({"reference": "none.json"}, "No such file"),
        ({"options": {"every": 0}}, "every=0"),
        ({"options": {"cost": 2}}, "cost=2"),
        ({"options": {"fields": "x"}}, "list of names"),
        ({"options": {"rows": 0}}, "rows=0"),
        ({"options": {"first": -1}}, "first=-1"),
        ({"options": {"values": 3}}, "values=3"),
    ],
)
def test_wrong_arguments(arguments, message):
    with pytest.raises((ValueError, FileNotFoundError), match=message):
        if "options" in arguments:
            arguments = {"options": DriftOptions(**arguments["options"])}
        watch([], **arguments)


def test_before_the_first_batch():
    watched = watch([])
    assert watched.drift_stats()["examined"] == 0 and watched.alarms == []
    with pytest.raises(ValueError, match="no batch has been looked at"):
        watched.profile()
    assert list(watched) == []


def test_pickles_and_forks():
    data = [torch.rand(8, 3)] * 4
    watched = watch(data, DriftProfile.of(data), options=EXACT)
    list(watched)
    again = pickle.loads(pickle.dumps(watched))
    assert (
        again.drift_stats()["examined"] == 0
        and len(list(again)) == 4
        and again.drift_stats()["examined"] == 4
    )
    context = multiprocessing.get_context("fork")
    queue = context.SimpleQueue()

    def child():
        list(watched)
        queue.put(watched.drift_stats()["examined"])

    process = context.Process(target=child)
    process.start()
    process.join(60)
    assert process.exitcode == 0 and queue.get() == 4


def test_batches_for_a_device_are_looked_at_on_the_host(monkeypatch):
    """Here the device is torch's meta device, whose tensors have no numbers any more."""
    monkeypatch.setattr("millrace.dataloader.prefetched", lambda batches, device, *_, **__: (
        [tensor.to(device) for tensor in batch] for batch in batches))  # fmt: skip
    data = torch.rand(100, 3)
    loader = millrace.DataLoader(torch.utils.data.TensorDataset(data), 10, device="meta")
    watched = watch(loader, options=EXACT)
    assert [batch.device.type for (batch,) in watched] == ["meta"] * 10
    assert watched.profile().fields["0"]["series"][0]["mean"] == pytest.approx(
        data[:, 0].double().mean().item()
    )


def test_states_are_the_loaders():
    data = torch.arange(100)
    loader = millrace.DataLoader(torch.utils.data.TensorDataset(data), 10, shuffle=True, num_workers=2)
    watched = watch(loader, options=EXACT)
    iterator = iter(watched)
    for _ in range(3):
        next(iterator)
    state = watched.state_dict()
    rest = [batch for (batch,) in iterator]
    watched.load_state_dict(state)
    assert all(torch.equal(a, b) for a, (b,) in zip(rest, watched))


def test_the_interpreter_ends_while_batches_wait():
    script = """
import torch, millrace
loader = millrace.DataLoader(torch.utils.data.TensorDataset(torch.rand(4000, 64, 64)), 64, num_workers=2)
iterator = iter(millrace.watch(loader, options=millrace.DriftOptions(every=1)))
kept = [next(iterator) for _ in range(20)]
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0 and not done.stderr, done.stderr


def test_two_threads_with_loaders_of_their_own():
    def loop():
        watched = watch([torch.rand(64, 16)] * 100, options=DriftOptions(every=2))
        for _ in watched:
            pass
        seen.append(watched.drift_stats()["batches"])

    seen = []
    threads = [threading.Thread(target=loop) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert seen == [100] * 3


def test_batches_that_give_their_memory_away():
    """They are looked at later, by a thread: what the user does to a tensor meanwhile does not take its
    memory.
    """

    def body():
        examiner = millrace._core.DriftExaminer(queue=100)
        for step in range(8):
            batch = torch.full((64, 100_000), 7.0)
            assert examiner.submit(step, False, [("0", [batch], "float32", "data")])
            (
                batch.set_,
                batch.share_memory_,
                lambda b=batch: b.untyped_storage().resize_(0),
                lambda b=batch: b.resize_(200_000, 64),
            )[step % 4]()
            torch.full((64, 100_000), -1.0)
        examiner.finish()
        (series,) = examiner.statistics().to_dict()["fields"]["0"]["series"][:1]
        assert series["mean"] == 7
        examiner.close()

    in_child(body)
