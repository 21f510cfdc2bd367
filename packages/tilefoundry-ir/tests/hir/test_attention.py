"""attention. Oracle: the formula in numpy float64, one query at a time; torch's own in float64 as second witness."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from tilefoundry.ir.errors import EvaluationError, TypeRuleError
from tilefoundry.ir.hir import attention as family
from tilefoundry.ir.types import DimVar, TensorType

FLOATS = ["f64", "f32", "f16", "bf16"]


def formula(q, k, v, lengths, scale, causal=False, window=None, softcap=None):
    batch, heads, queries, _ = q.shape
    out = np.zeros((batch, heads, queries, v.shape[3]))
    size = np.zeros_like(out)
    for b in range(batch):
        for h in range(heads):
            for i in range(queries):
                shared = h // (heads // k.shape[1])
                at = lengths[b] - queries + i
                seen = [j for j in range(lengths[b]) if not causal or j <= at]
                seen = [j for j in seen if window is None or j > at - window]
                if not seen:
                    continue
                scores = np.array([q[b, h, i] @ k[b, shared, j] for j in seen]) * scale
                if softcap is not None:
                    scores = softcap * np.tanh(scores / softcap)
                weights = np.exp(scores - scores.max())
                weights /= weights.sum()
                out[b, h, i] = weights @ v[b, shared, seen]
                size[b, h, i] = weights @ np.abs(v[b, shared, seen])
    return out, size


def operands(ops, dtype, batch=2, heads=4, shared=2, queries=3, keys=7, dim=8, out=5):
    q = ops.sample((batch, heads, queries, dim), dtype, 1)
    return (
        q,
        ops.sample((batch, shared, keys, dim), dtype, 2),
        ops.sample((batch, shared, keys, out), dtype, 3),
    )


def check(ops, got, q, k, v, lengths, **options):
    options.setdefault("scale", 1 / np.sqrt(q.shape[3]))
    want, size = formula(ops.exact(q), ops.exact(k), ops.exact(v), lengths, **options)
    ops.assert_close(got, want, length=8 * (q.shape[3] + k.shape[2]), magnitude=size, steps=8)


@pytest.mark.spec("ops.attention")
@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize(
    "options",
    [
        {},
        {"scale": 0.3},
        {"causal": True},
        {"causal": True, "window": 2},
        {"causal": True, "window": 1},
        {"softcap": 1.5},
        {"causal": True, "window": 4, "softcap": 0.5, "scale": 1.0},
    ],
)
def test_options(ops, dtype, options):
    for shape in ({}, {"shared": 4}, {"shared": 1, "queries": 1}, {"queries": 7}, {"batch": 1, "keys": 3}):
        q, k, v = operands(ops, dtype, **shape)
        check(ops, ops.run("attention", q, k, v, **options), q, k, v, [k.shape[2]] * len(q), **options)


@pytest.mark.spec("ops.attention")
@pytest.mark.parametrize("kind", [np.int32, np.int64])
def test_key_lengths(ops, kind):
    q, k, v = operands(ops, "f32")
    k[:, :, 6] = np.nan  # what a cache holds past its length must not reach the result
    v[:, :, 6] = np.nan
    for length in (6, 3, 1):
        for shape in ((), (1,), (2,)):
            got = ops.run("attention", q, k, v, np.full(shape, length, kind), causal=True)
            check(ops, got, q, k, v, [length] * 2, causal=True)
    got = ops.run("attention", q, k, v, np.array([2, 5], kind))
    check(ops, got, q, k, v, [2, 5])


def test_queries_that_see_nothing_give_zeros(ops):
    q, k, v = operands(ops, "f32", queries=3, keys=4)
    got = ops.run("attention", q, k, v, np.array(1, np.int32), causal=True)
    assert (got[:, :, :2] == 0).all() and (got[:, :, 2] != 0).any()
    assert (ops.run("attention", q, k, v, np.array(0, np.int32)) == 0).all()
    assert ops.run("attention", q, k[:, :, :0], v[:, :, :0]).tolist() == np.zeros((2, 4, 3, 5)).tolist()
    assert ops.run("attention", q[:0], k[:0], v[:0]).shape == (0, 4, 3, 5)


def test_chunks_over_heads_change_nothing(ops, monkeypatch):
    q, k, v = operands(ops, "f32", heads=6, shared=3)
    whole = ops.run("attention", q, k, v, causal=True)
    monkeypatch.setattr(family, "_CHUNK", 1)
    ops.assert_same(ops.run("attention", q, k, v, causal=True), whole)


@pytest.mark.parametrize("causal", [True, False])
def test_torch_agrees(ops, causal):
    q, k, v = operands(ops, "f64", shared=4, queries=7)
    witness = torch.nn.functional.scaled_dot_product_attention(
        *map(torch.tensor, (q, k, v)), is_causal=causal
    )
    ops.assert_close(ops.run("attention", q, k, v, causal=causal), witness.numpy(), length=100, magnitude=2.0)


def test_dynamic_extents(ops):
    b, s, t = DimVar("B", 1, 9), DimVar("S", 1, 99), DimVar("T", 1, 99)
    types = (
        TensorType((b, 4, s, 8), "f32"),
        TensorType((b, 2, t, 8), "f32"),
        TensorType((b, 2, t, 5), "f32"),
    )
    assert ops.infer("attention", *types).shape == (b, 4, s, 5)
    q, k, v = operands(ops, "f32")
    check(ops, ops.run("attention", q, k, v, types=types), q, k, v, [7, 7])


def test_length_outside_is_refused(ops):
    for length in (-1, 8):
        with pytest.raises(EvaluationError, match=rf"kv_len = {length} is outside \[0, 7\]"):
            ops.run("attention", *operands(ops, "f32"), np.array(length, np.int32))


Q, K = TensorType((2, 4, 3, 8), "f32"), TensorType((2, 2, 7, 8), "f32")


@pytest.mark.parametrize(
    ("types", "attrs", "message"),
    [
        (
            (Q, TensorType((2, 3, 7, 8), "f32"), TensorType((2, 3, 7, 8), "f32")),
            {},
            "no multiple of the 3 heads",
        ),
        ((Q, K, TensorType((2, 2, 6, 8), "f32")), {}, "do not fit"),
        ((Q, TensorType((2, 2, 7, 9), "f32"), K), {}, "do not fit"),
        ((Q, TensorType((2, 7, 8), "f32"), K), {}, r"must all be \[batch, heads, length, dim\]"),
        ((Q, K, K.with_dtype("bf16")), {}, "operands must have one dtype"),
        ((Q, K, K, TensorType((3,), "i32")), {}, r"a scalar or \[2\] is needed"),
        ((Q, K, K, TensorType((), "f32")), {}, "i32 or i64 is needed"),
        ((Q, K, K), {"window": 2}, "it needs causal=True"),
        ((Q, K, K), {"window": 0, "causal": True}, "an integer of 1 or more is needed"),
        ((Q, K, K), {"softcap": 0.0}, "a number above 0 is needed"),
        ((TensorType((2, 4, 3, DimVar("D")), "f32"), K, K), {}, r"give scale=, the default"),
    ],
)
def test_refusals(ops, types, attrs, message):
    with pytest.raises(TypeRuleError, match=message):
        ops.infer("attention", *types, **attrs)
