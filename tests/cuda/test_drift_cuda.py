"""Feed statistics with a real GPU: millrace's batches are looked at on the host, others' by a few samples
that come back.
"""

import millrace
import pytest
import torch
from millrace import DriftOptions, watch

EXACT = DriftOptions(every=1, exact=True)


def test_millraces_batches_before_they_are_copied():
    data = torch.rand(1000, 16)
    loader = millrace.DataLoader(torch.utils.data.TensorDataset(data), 100, num_workers=2, device="cuda")
    watched = watch(loader, options=EXACT)
    assert all(batch.is_cuda for (batch,) in watched)
    series = watched.profile().fields["0"]["series"]
    assert [s["count"] for s in series] == [1000] * 16
    assert [s["mean"] for s in series] == pytest.approx(data.double().mean(0).tolist(), rel=1e-9)


def test_batches_of_others_by_samples():
    batches = [
        {"x": torch.full((320, 3, 8, 8), float(n), device="cuda"), "n": torch.arange(320, device="cuda")}
        for n in range(10)
    ]
    watched = watch(batches, options=EXACT)
    for batch in watched:
        batch["x"].add_(100)  # behind the copy, on the same stream
    fields = watched.profile().fields
    assert (
        fields["x"]["samples"] == 320
        and fields["x"]["series"][0]["max"] == 9
        and fields["n"]["counts"][0]["total"] == 320
    )
