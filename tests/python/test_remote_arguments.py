"""remote= and remote_workers=: refused when the loader is made, or missing when it is iterated over."""

import contextlib
import sys
import threading
import time
import types

import millrace
import pytest
import torch
from loader_data import make_folder, pictures
from millrace._loader.remote.courier import Gone
from millrace._loader.remote.pool import Pool, actors_wanted
from millrace._loader.remote.ray_calls import RayCalls

DATA = torch.utils.data.TensorDataset(torch.arange(8))
OPTIONS = {"num_workers": 1, "remote": "ray"}


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"remote": "dask"}, "remote='dask' is unknown; use one of 'ray'"),
        ({"num_workers": 0}, "needs num_workers from 1 on"),
        ({"remote_workers": 0}, "remote_workers=0 is no number of CPUs"),
        ({"remote_workers": "many"}, "remote_workers='many'"),
        ({"remote_workers": True}, "remote_workers=True"),
        ({"on_error": "skip"}, 'works with on_error="raise" only, got "skip"'),
        ({"decode": "auto", "device": "cuda"}, 'leave decode="auto" out'),
    ],
)
def test_refused(options, says):
    with pytest.raises(ValueError, match=says):
        millrace.DataLoader(DATA, 2, **{**OPTIONS, **options})


def test_without_ray_one_sentence_says_how_to_get_it(tmp_path, monkeypatch):
    make_folder(tmp_path, 4)
    monkeypatch.setitem(sys.modules, "ray", None)
    loader = millrace.DataLoader(pictures(str(tmp_path)), 2, **OPTIONS)
    with pytest.raises(millrace.UnavailableError, match="pip install 'ray>=2.40'"):
        iter(loader)


def test_other_datasets_stay_here_with_a_warning():
    with pytest.warns(RuntimeWarning, match="on this machine alone"):
        batches = list(millrace.DataLoader(DATA, 4, **OPTIONS))
    assert [batch[0].tolist() for batch in batches] == [[0, 1, 2, 3], [4, 5, 6, 7]]


def cluster(*cpus):
    """A Ray whose nodes have so many CPUs; the first one is the trainer's."""
    nodes = [{"NodeID": str(at), "Resources": {"CPU": float(n)}, "Alive": n > 0} for at, n in enumerate(cpus)]
    context = types.SimpleNamespace(get_node_id=lambda: "0")
    return types.SimpleNamespace(nodes=lambda: nodes, get_runtime_context=lambda: context)


@pytest.mark.parametrize(
    ("cpus", "wanted", "sizes"),
    [
        ((4,), 3, [3]),
        ((4, 4), 10, [4, 4, 2]),
        ((32, 32), 20, [8, 8, 4]),
        ((8,), "auto", [6]),
        ((1,), "auto", []),
        ((8, 4, 2, 0), "auto", [4, 2]),
        ((8,), {"actors": 2, "num_cpus": 3}, [3, 3]),
    ],
)
def test_cpus_are_divided_among_actors_that_fit(cpus, wanted, sizes):
    options = actors_wanted(cluster(*cpus), wanted, local_threads=2)
    assert [each["num_cpus"] for each in options] == sizes
    assert all(each["max_restarts"] == -1 for each in options)


def test_a_dict_is_rays_own_options():
    given = {"resources": {"cpu_node": 1}, "max_restarts": 2}
    (options,) = actors_wanted(cluster(8), given, 2)
    assert options["resources"] == {"cpu_node": 1} and options["max_restarts"] == 2


def test_a_full_cluster_is_said_to_be_full():
    pool = Pool.__new__(Pool)
    pool.calls = contextlib.nullcontext()
    pool.ray, pool._wanted = (
        types.SimpleNamespace(available_resources=lambda: {"CPU": 1.0}),
        [{"num_cpus": 4}] * 2,
    )
    assert "Ray has 1 CPUs free, and the actors want 8" in pool.why_nobody()
    pool.ray = types.SimpleNamespace(available_resources=lambda: {"CPU": 16.0})
    assert pool.why_nobody() == ""
    pool.ray = None
    assert pool.why_nobody() == ""


def test_rays_shutdown_waits_for_calls_and_none_comes_after():
    order = []
    ray = types.SimpleNamespace(shutdown=lambda *_: order.append("shutdown"))
    calls, inside = RayCalls(ray), threading.Event()

    def call():
        with calls:
            inside.set()
            time.sleep(0.2)
            order.append("call")

    thread = threading.Thread(target=call)
    thread.start()
    inside.wait()
    ray.shutdown()
    thread.join()
    assert order == ["call", "shutdown"]
    with pytest.raises(Gone, match="shut down"), calls:
        pass
    replaced = ray.shutdown
    RayCalls(ray)
    assert ray.shutdown is replaced, "once"
