"""Making tensors and handing them over. Oracle: torch and numpy on the same memory."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import strideweave as sw

pytestmark = pytest.mark.spec("interchange")


def test_zeros_ones_full_tensor():
    for carrier in (None, sw.Generic(), sw.FileBacked(None, 0)):
        assert sw.zeros((2, 3), carrier=carrier).tolist() == [0.0] * 6
        assert sw.ones((2, (1, 2)), carrier=carrier).tolist() == [1.0] * 4
        assert sw.full(3, 2.5, carrier=carrier).tolist() == [2.5] * 3
    assert sw.full((300, 300), 7, dtype=sw.Int32).tolist() == [7] * 90000
    assert sw.ones(2, dtype=sw.Bool).tolist() == [True, True]
    assert sw.tensor([1, 2, 3, 4], shape=(2, 2), dtype=sw.Int8).value((1, 1)) == 4
    with pytest.raises(TypeError):
        sw.zeros(2, carrier="cpu")
    with pytest.raises(ValueError):
        sw.zeros((2, 0))


@pytest.mark.parametrize(
    "view", [lambda t: t, lambda t: t.T, lambda t: t[1:, ::2], lambda t: t[0, 0], lambda t: t[:1]]
)
def test_from_torch_shares_memory_and_strides(view):
    base = torch.arange(24.0).reshape(4, 6)
    source = view(base)
    tensor = sw.from_torch(source)
    assert tensor.shape.leaves() == tuple(source.shape)
    back = sw.to_torch(tensor)
    assert torch.equal(back, source) and back.data_ptr() == source.data_ptr()
    base.mul_(-1)
    assert torch.equal(sw.to_torch(tensor), source)


@pytest.mark.parametrize(
    "view", [lambda t: t.conj().imag, lambda t: torch._neg_view(t.real)], ids=["imag", "neg"]
)
def test_from_torch_copies_views_that_are_no_memory(view):
    """Oracle: torch's own values, before and after the memory behind the view changes."""
    base = torch.complex(torch.arange(4.0), torch.arange(4.0) + 1)
    source = view(base)
    assert source.is_neg()
    expected, tensor = source.tolist(), sw.from_torch(source)
    base.mul_(5)
    assert tensor.tolist() == expected != source.tolist()


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (
            torch.ones(2),
            r"got a torch\.Tensor, .* gives: use it as it is, or pass from_torch\(it\)",
        ),
        (torch.nn.Parameter(torch.ones(2)), r"a torch\.Parameter, which"),
        ([1.0], r"got list: pass what from_torch, from_numpy or an operation returns"),
    ],
)
def test_to_torch_says_what_to_pass(given, message):
    with pytest.raises(TypeError, match=message):
        sw.to_torch(given)


def test_to_torch_of_a_request_names_wait():
    handle = sw.move_async(sw.ones(2), sw.CPU(0))
    with pytest.raises(TypeError, match=r"a request that may be under way: pass what its wait\(\) returns"):
        sw.to_torch(handle)
    assert sw.to_torch(handle.wait()).tolist() == [1.0, 1.0]


def test_from_torch_refuses_and_detaches():
    from torch._subclasses.fake_tensor import FakeTensorMode

    with FakeTensorMode():
        fake = torch.empty(3)
    for bad in (
        torch.empty(3, device="meta"),
        fake,
        torch.eye(3).to_sparse(),
        torch.zeros(2, dtype=torch.complex64),
        [1.0],
    ):
        with pytest.raises(TypeError):
            sw.from_torch(bad)
    with pytest.raises(ValueError):
        sw.from_torch(torch.empty(0))
    wants = torch.ones(2, requires_grad=True)
    assert not sw.to_torch(sw.from_torch(wants)).requires_grad


def test_made_under_inference_mode_stays_writable():
    with torch.inference_mode():
        x = sw.zeros(2)
        y = sw.from_torch(torch.ones(2))
    x.carrier.set_value(0, 1.0)
    y.carrier.set_value(0, 5.0)
    assert x.tolist() == [1.0, 0.0] and (x + y).tolist() == [6.0, 1.0]
    torch.from_numpy(sw.to_numpy(x)).add_(1)
    (x * y).backward(sw.ones(2))
    assert x.grad.tolist() == [5.0, 1.0]


def test_numpy_shares_or_copies():
    array = np.arange(6, dtype=np.float32).reshape(2, 3)
    tensor = sw.from_numpy(array)
    array[1, 2] = 50
    assert tensor.value((1, 2)) == 50.0 and sw.to_numpy(tensor).ctypes.data == array.ctypes.data
    for odd in (array[::-1], array.astype(">f4"), np.broadcast_to(np.float32(3), (2, 2))):
        assert np.array_equal(sw.to_numpy(sw.from_numpy(odd)), odd)
    with pytest.raises(TypeError, match="BFloat16"):
        sw.to_numpy(sw.zeros(2, dtype=sw.BFloat16))
    with pytest.raises(TypeError):
        sw.from_numpy([1, 2])


def test_dlpack_both_ways():
    source = torch.arange(8.0)[2:]
    tensor = sw.from_dlpack(source)
    assert tensor.tolist() == [2, 3, 4, 5, 6, 7]
    back = torch.from_dlpack(sw.to_dlpack(tensor))
    assert back.data_ptr() == source.data_ptr()
    assert sw.from_dlpack(np.arange(3, dtype=np.int32)).dtype() is sw.Int32


def test_to_torch_of_other_carriers_copies():
    tensor = sw.Tensor(sw.Generic([1.0, 2.0, 3.0, 4.0]), 0, sw.Layout((2, 2)))
    assert sw.to_torch(tensor).tolist() == [[1.0, 3.0], [2.0, 4.0]]


def test_a_pointer_is_used_in_place():
    memory = np.zeros(4, np.float32)
    carrier = sw.CPU(4, memory.ctypes.data)
    carrier.set_value(2, 7.0)
    assert memory.tolist() == [0, 0, 7, 0]
    carrier.release()
    with pytest.raises(ValueError, match="null"):
        sw.CPU(4, 0)
    with pytest.raises(ValueError, match="aligned"):
        sw.CPU(1, memory.ctypes.data + 1)


def test_repr_and_html():
    x = sw.tensor([1.0, 2.0, 3.0, 4.0], shape=(2, 2))
    assert repr(x) == "Tensor((2, 2), Float32, CPU, [1, 2, 3, 4])"
    assert repr(x * 2).endswith("mul)") and "values" not in repr(sw.zeros(100))
    html = x._repr_html_()
    assert html.count("<tr>") == 2 and html.count("<td>") == 4
    assert "..." in sw.zeros((40, 40))._repr_html_()
    x.carrier.release()
    assert "released" in repr(x)
    with pytest.raises(TypeError, match="truth"):
        bool(sw.zeros(1))


def test_metal_says_why_it_is_not_there():
    if not torch.backends.mps.is_available():
        with pytest.raises(RuntimeError, match="MPS"):
            sw.Metal(3)
    if not torch.cuda.is_available():
        with pytest.raises(RuntimeError, match="CUDA"):
            sw.CUDA(3)
        with pytest.raises(RuntimeError, match="page-locked"):
            sw.CPU(3, pinned=True)
