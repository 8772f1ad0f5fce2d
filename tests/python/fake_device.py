"""The tests' fake device (tests/cpp/device): everything that is copied to it comes late."""

import importlib.util
from pathlib import Path

import millrace.dataloader
import pytest
import torch
from millrace import _core, prefetch
from millrace._loader.plan import decoding

FOLDER = Path(__file__).parents[2] / "build/dev/tests/cpp/device"


def fake_module():
    built = sorted(FOLDER.glob("_fake_device*.so"))
    if not built:
        pytest.skip(f"the fake device is not built; `make test` builds it in {FOLDER}")
    spec = importlib.util.spec_from_file_location("_fake_device", built[0])
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


class Fake:
    """Prefetchers made by it, and every DataLoader(device=...) while `install()` holds, copy to one fake
    device.
    """

    def __init__(self, **options):
        self.device = fake_module().FakeDevice(**options)
        self.copiers = []

    def prefetched(
        self, batches, device, depth, channels_last=False, on_device=None, static_buffers=False, progress=None
    ):
        self.copiers.append(_core.BatchCopier(self.device.capsule))
        where = torch.device("cpu")
        return prefetch.DeviceIterator(
            batches, self.copiers[-1], where, depth, channels_last, on_device, static_buffers, progress
        )

    def install(self, monkeypatch):
        monkeypatch.setattr(prefetch, "prefetched", self.prefetched)
        monkeypatch.setattr(millrace.dataloader, "device_of", lambda device: torch.device("cpu"))
        monkeypatch.setattr(millrace.dataloader, "prefetched", self.prefetched)

    def install_decoder(self, monkeypatch, refuses=0):
        """decode= works on it as well; its decoder refuses files whose size `refuses` divides."""
        self.install(monkeypatch)
        monkeypatch.setattr(decoding, "missing_reason", lambda device: "")
        monkeypatch.setattr(
            decoding, "place", lambda device: (self.device.capsule, self.device.decoding(refuses))
        )


@pytest.fixture
def fake(monkeypatch):
    device = Fake()
    device.install(monkeypatch)
    return device
