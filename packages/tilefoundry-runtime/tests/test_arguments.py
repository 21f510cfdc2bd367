"""Tensors whose memory does not hold their values. Oracle: the rule that each is refused by name, with a way out."""

import numpy as np
import pytest
import torch
from torch._subclasses import FakeTensorMode

from tilefoundry.dsl import DimVar
from tilefoundry.ir.types import TensorType
from tilefoundry.runtime import EntryABI, ParamABI
from tilefoundry.runtime.linking import LinkedModule, load_linked_module

N = DimVar("N", 0, 100)
ABI = EntryABI(
    "affine",
    (
        ParamABI("x", TensorType((N, 4), "f32")),
        ParamABI("w", TensorType((4,), "f32")),
        ParamABI("y", TensorType((N, 4), "f32")),
    ),
    1,
    ((1, "w"),),
)
X, W = torch.arange(8.0).reshape(2, 4), torch.tensor([1.0, 2.0, 3.0, 4.0])


@pytest.fixture
def affine(library):
    return load_linked_module(LinkedModule(library, "", ABI))


def fake(shape):
    with FakeTensorMode():
        return torch.empty(shape)


UNUSABLE = [
    (lambda t: t.to("meta"), "is on the meta device"),
    (lambda t: fake(t.shape), "is a FakeTensor"),
    (lambda t: t.to_sparse(), r"is sparse_coo; pass \.to_dense\(\)"),
    (lambda t: torch.quantize_per_tensor(t, 0.1, 0, torch.quint8), r"is quantized; pass \.dequantize\(\)"),
    (torch._neg_view, r"is a negated view of its memory; pass \.resolve_neg\(\)"),
]
IDS = ["meta", "fake", "sparse", "quantized", "negated"]


@pytest.mark.parametrize(("change", "message"), UNUSABLE, ids=IDS)
def test_they_are_refused_wherever_they_are_given(affine, change, message):
    bad, out = change(X), torch.full((2, 4), 7.0)
    bound = affine.bind({"w": W})
    for name, call in (
        ("x", lambda: affine(bad, W)),
        ("x", lambda: affine(bad, W, out)),
        ("x", lambda: bound(bad)),
        ("y", lambda: affine(X, W, change(out))),
        ("y", lambda: bound(X, change(out))),
        ("the weight w", lambda: affine.bind({"w": change(W)})),
    ):
        with pytest.raises(TypeError, match=f"affine: {name} {message}"):
            call()
    assert torch.equal(out, torch.full((2, 4), 7.0)), "a refused call wrote to its output"


def test_a_tensor_under_a_transform_is_named(affine):
    with pytest.raises(TypeError, match=r"affine: x is a tensor that torch transforms"):
        torch.vmap(lambda x: affine(x, W))(X.reshape(2, 1, 4))


def test_read_only_arrays_are_named(affine):
    array, out = X.numpy().copy(), np.empty((2, 4), np.float32)
    affine(array, W, out)
    np.testing.assert_array_equal(out, X * W + 1)
    array.setflags(write=False)
    with pytest.raises(TypeError, match=r"affine: x is read-only"):
        affine(array, W, out)
    out.setflags(write=False)
    with pytest.raises(TypeError, match=r"affine: y is read-only"):
        affine(X, W, out)


def test_parameters_serve(affine):
    x = torch.nn.Parameter(X)
    torch.testing.assert_close(affine(x, torch.nn.Parameter(W)), X * W + 1)
    torch.testing.assert_close(affine.bind({"w": torch.nn.Parameter(W)})(x), X * W + 1)


def test_activations_alone_point_at_bind(affine):
    with pytest.raises(TypeError, match=r"its weights \(.*w\) are inputs too.*\.bind\(loaded\)"):
        affine(X)
