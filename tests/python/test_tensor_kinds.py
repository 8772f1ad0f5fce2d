"""Which tensors are read where they lie: torch.Tensor itself, dense, on the CPU, without gradients, whose
memory holds its values. All others are left to torch, and the batches are torch's either way.
"""

import warnings

import millrace
import pytest
import torch
from millrace import _core
from torch.utils.data import default_collate


class Derived(torch.Tensor):
    pass


def conjugate():
    return torch.complex(torch.ones(2, 3), torch.arange(6.0).reshape(2, 3)).conj()


def nested():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that these are new
        return torch.nested.nested_tensor([torch.ones(2), torch.ones(3)])


OTHERS = {
    "class": lambda: torch.ones(3).as_subclass(Derived),
    "parameter": lambda: torch.nn.Parameter(torch.ones(3)),
    "gradients": lambda: torch.ones(3, requires_grad=True),
    "conjugate": conjugate,
    "sign": lambda: conjugate().imag,
    "sign of one": lambda: conjugate()[0, 1].imag,
    "sparse": lambda: torch.eye(3).to_sparse(),
    "csr": lambda: torch.eye(3).to_sparse_csr(),
    "nested": nested,
    "mkldnn": lambda: torch.ones(2, 3).to_mkldnn(),
    "quantised": lambda: torch.quantize_per_tensor(torch.ones(3), 0.1, 0, torch.qint8),
    "float8": lambda: torch.ones(3).to(torch.float8_e4m3fn),
    "complex32": lambda: torch.ones(3, dtype=torch.complex32),
    "meta": lambda: torch.ones(3, device="meta"),
    "no tensor": lambda: [1.0],
}
PLAIN = {
    "row": lambda: torch.arange(12.0).reshape(3, 4)[1],
    "column": lambda: torch.arange(12.0).reshape(3, 4)[:, 1],
    "transposed": lambda: torch.arange(12).reshape(3, 4).T,
    "channels last": lambda: torch.arange(24.0).reshape(1, 2, 3, 4).to(memory_format=torch.channels_last)[0],
    "expanded": lambda: torch.arange(3.0).expand(4, 3),
    "imaginary": lambda: conjugate().resolve_conj().imag,
    "complex": lambda: conjugate().resolve_conj(),
    "one": lambda: torch.tensor(7.0),
    "none": lambda: torch.empty(2, 0, 3),
    "inference": lambda: in_inference(),
}
TYPES = """
    bool uint8 int8 int16 int32 int64 uint16 uint32 uint64
    float16 bfloat16 float32 float64 complex64 complex128
"""


def in_inference():
    with torch.inference_mode():
        return torch.ones(3) * 2


@pytest.mark.parametrize("kind", OTHERS)
def test_others_are_left_to_torch(kind):
    assert not _core.is_plain_tensor(OTHERS[kind]())


@pytest.mark.parametrize("kind", ["gradients", "conjugate", "sign", "sign of one", "float8", "complex32"])
def test_batches_of_others_are_torchs(kind):
    samples = [OTHERS[kind](), OTHERS[kind]()]
    assert same(millrace.default_collate(samples), default_collate(samples))


@pytest.mark.parametrize("kind", PLAIN)
def test_plain_tensors(kind):
    samples = [PLAIN[kind](), PLAIN[kind]()]
    assert _core.is_plain_tensor(samples[0])
    assert same(millrace.default_collate(samples), default_collate(samples))


@pytest.mark.parametrize("name", TYPES.split())
def test_element_types(name):
    sample = torch.tensor([0, 1, 1], dtype=torch.int64).to(getattr(torch, name))
    assert _core.is_plain_tensor(sample)
    assert same(millrace.default_collate([sample, sample]), default_collate([sample, sample]))


def same(ours, theirs):
    assert (ours.dtype, ours.shape, ours.layout) == (theirs.dtype, theirs.shape, theirs.layout)
    assert ours.requires_grad == theirs.requires_grad
    if ours.layout is torch.strided:
        assert ours.stride() == theirs.stride() and ours.is_inference() == theirs.is_inference()
        return ours.resolve_neg().tolist() == theirs.resolve_neg().tolist()
    return torch.equal(ours.to_dense(), theirs.to_dense())


def test_memory_of_batches():
    """Small batches lie in memory of their own, aligned as torch's is, and do what tensors do."""
    batch = millrace.default_collate([torch.arange(5.0), torch.ones(5)])
    assert batch.data_ptr() % 64 == 0 and batch.untyped_storage().nbytes() == 40
    view = batch[1]
    batch.add_(1).t_()
    del batch
    assert view.tolist() == [2.0] * 5 and not view.requires_grad
    assert view.share_memory_().is_shared()
    weight = torch.ones(5, requires_grad=True)
    (view * weight).sum().backward()
    assert weight.grad.tolist() == [2.0] * 5


def test_torch_gives_all_that_is_asked_for():
    assert _core.missing_in_torch() == []
