"""Accelerate: prepare() makes a loader of its own from the attributes of the one it is given."""

import copy
import pickle

import millrace
import pytest
import torch
import torch.utils.data
from training import InPython, noted, torchs

accelerate = pytest.importorskip("accelerate")


def epochs(loader):
    torch.manual_seed(3)
    accelerator = accelerate.Accelerator(cpu=True)
    prepared = accelerator.prepare(loader)
    assert accelerator.prepare(prepared) is prepared
    return prepared, [noted(batch) for _ in range(2) for batch in prepared]


@pytest.fixture(params=[0, 2])
def workers(request):
    return request.param


@pytest.mark.parametrize("native", [True, False], ids=["photos", "python"])
def test_prepare_uses_our_class_when_installed(photos, workers, native):
    dataset = photos if native else InPython()
    _, expected = epochs(torchs()(dataset, 4, shuffle=True, num_workers=workers))
    millrace.install()
    try:
        prepared, seen = epochs(torch.utils.data.DataLoader(dataset, 4, shuffle=True, num_workers=workers))
        assert isinstance(prepared, torch.utils.data.DataLoader)
    finally:
        millrace.uninstall()
    assert type(prepared.base_dataloader) is millrace.DataLoader
    assert prepared.base_dataloader.stats()["engine"] == (
        ("threads" if native else "processes") if workers else "inline"
    )
    assert seen == expected


def test_torchs_loader_from_before_becomes_ours(photos, installed):
    prepared, _ = epochs(torchs()(photos, 4, num_workers=1))
    assert prepared.base_dataloader.stats()["engine"] == "threads"


def test_without_install_it_falls_back_to_torchs_class(photos):
    """The reason for install(): our loader goes in, torch's comes out. The batches are the same."""
    _, expected = epochs(torchs()(photos, 4, shuffle=True, num_workers=2))
    prepared, seen = epochs(millrace.DataLoader(photos, 4, shuffle=True, num_workers=2))
    assert not isinstance(prepared.base_dataloader, millrace.DataLoader)
    assert seen == expected


@pytest.mark.parametrize("workers", [0, 2, "auto"])
def test_our_arguments_are_those_of_the_prepared_loader(photos, workers, installed):
    given = {"on_error": "replace", "native": "require", "snapshot_every_n_steps": 3}
    loader = millrace.DataLoader(photos, 4, num_workers=workers, **given)
    prepared = accelerate.Accelerator(cpu=True).prepare(loader)
    skipping = accelerate.skip_first_batches(prepared, 1)
    for made in (prepared.base_dataloader, skipping.base_dataloader):
        assert {name: getattr(made, name) for name in given} == given
    other = millrace.DataLoader(list(range(9)), num_workers=loader.num_workers)
    assert (other.on_error, other.native) == ("raise", "auto")


def test_a_warning_names_our_arguments_that_torchs_class_has_not(photos):
    loader = millrace.DataLoader(photos, 4, on_error="replace", native="require")
    with pytest.warns(UserWarning, match="millrace.DataLoader, and native=, on_error= have no effect"):
        accelerate.Accelerator(cpu=True).prepare(loader)


def test_skipping_the_first_batches(photos, installed):
    accelerator = accelerate.Accelerator(cpu=True)
    prepared = accelerator.prepare(torch.utils.data.DataLoader(photos, 4, num_workers=2))
    rest = accelerator.skip_first_batches(prepared, 2)
    assert [noted(batch)[0] for batch in rest] == [[8, 9, 10, 11], [12]]
    assert rest.base_dataloader.stats()["engine"] == "threads"


def by_cloudpickle(thing):
    return pickle.loads(pytest.importorskip("cloudpickle").dumps(thing))


@pytest.mark.parametrize("dispatch", [False, True])
@pytest.mark.parametrize(
    "copied", [lambda thing: pickle.loads(pickle.dumps(thing)), by_cloudpickle, copy.deepcopy]
)
def test_prepared_loaders_are_pickled(photos, workers, dispatch, copied, installed):
    configuration = accelerate.DataLoaderConfiguration(dispatch_batches=dispatch)
    accelerator = accelerate.Accelerator(cpu=True, dataloader_config=configuration)
    prepared = accelerator.prepare(torch.utils.data.DataLoader(photos, 4, num_workers=workers))
    expected = [noted(batch) for batch in prepared]
    twin = copied(prepared)
    assert type(twin) is type(prepared) and type(twin.base_dataloader) is millrace.DataLoader
    assert [noted(batch) for batch in twin] == expected
    twin = copied(accelerator)._dataloaders[0] if copied is not copy.deepcopy else twin
    assert len(twin) == len(prepared)


def test_a_prepared_loader_goes_on_from_its_state(photos, workers, installed):
    """Accelerate writes `_iterator_finished` into states, where each process has a loader of its own."""
    accelerator = accelerate.Accelerator(cpu=True)

    def made():
        torch.manual_seed(3)
        return accelerator.prepare(torch.utils.data.DataLoader(photos, 4, shuffle=True, num_workers=workers))

    whole = [noted(batch) for batch in made()]
    for stop in range(1, len(whole)):
        prepared = made()
        for number, _ in enumerate(prepared, 1):
            if number == stop:
                state = copy.deepcopy(prepared.state_dict())
                break
        resumed = made()
        resumed.load_state_dict(state)
        assert [noted(batch) for batch in resumed] == whole[stop:]
