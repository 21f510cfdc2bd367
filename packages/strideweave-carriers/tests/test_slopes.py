"""Gradients of every operation. Oracle: the operation's own values, a small step to either side along a direction."""

from __future__ import annotations

import random

import pytest

import strideweave as sw

SHAPE = (3, 4)
SAME_SHAPE = ("relu", "exp", "log", "sqrt", "rsqrt", "sigmoid", "tanh", "silu", "gelu", "neg", "copy")
ONE = {
    **{name: getattr(sw, name) for name in SAME_SHAPE},
    "softmax": lambda x: sw.softmax(x, 1),
    "reduce_sum": lambda x: sw.reduce_sum(x, "a b -> a"),
    "reduce_mean": lambda x: sw.reduce_mean(x, "a b -> a"),
    "reduce_max": lambda x: sw.reduce_max(x, "a b -> a"),
    "reduce_min": lambda x: sw.reduce_min(x, "a b -> a"),
    "scaled": lambda x: sw.mul(x, 2.5) + sw.mul(3, x),
    "cast": lambda x: sw.cast(x, sw.Float32),
    "rearrange": lambda x: sw.rearrange(x, "a b -> b a"),
    "reshape": lambda x: sw.reshape(x, (6, 2)),
    "broadcast_to": lambda x: sw.broadcast_to(sw.reshape(x, (3, 4, 1)), (3, 4, 2)),
    "slice": lambda x: x[1:3],
    "index_select": lambda x: sw.index_select(x, sw.tensor([2, 0, 2], dtype=sw.Int64, carrier=_like(x)), 0),
    "move": lambda x: sw.move(x, x.carrier.allocate_like(0)),
}
TWO = {
    "add": sw.add,
    "sub": sw.sub,
    "mul": sw.mul,
    "elementwise_mul": sw.elementwise_mul,
    "div": sw.div,
    "matmul": sw.matmul,
    "where": lambda x, y: sw.where(_mask(x), x, y),
    "broadcast add": lambda x, y: sw.add(x, y[0:1]),
    "broadcast mul": lambda x, y: sw.mul(x[0:1], y),
}
CARRIERS = {"Generic": sw.Generic, "CPU": lambda: sw.CPU(0)}

STEP, BOUND = 2.0**-6, 4e-3
"""Float32: a step's rounding is 1e-5 of it; the third derivatives of these functions here are below 10."""


def _like(x):
    return x.carrier.allocate_like(0, dtype=sw.Int64)


def _mask(x):
    values = [k % 3 == 0 for k in range(12)]
    return sw.tensor(values, shape=SHAPE, dtype=sw.Bool, carrier=x.carrier.allocate_like(0, dtype=sw.Bool))


def _tensor(values, carrier, shape=SHAPE):
    return sw.tensor(values, shape=shape, carrier=carrier())


def _weighted(result, weights):
    return sum(w * v for w, v in zip(weights, result.tolist(), strict=True))


def check(operation, carrier, count):
    rng = random.Random(operation.__name__ if hasattr(operation, "__name__") else 0)
    # Apart from one another and from 0, so that no step crosses a kink or swaps an extreme.
    points = [[0.5 + 0.11 * k + 0.01 * rng.random() for k in rng.sample(range(12), 12)] for _ in range(count)]
    along = [[rng.uniform(-1, 1) for _ in range(12)] for _ in range(count)]
    inputs = [_tensor(p, carrier) for p in points]
    result = operation(*inputs)
    weights = [rng.uniform(-1, 1) for _ in range(result.size())]
    result.backward(_tensor(weights, carrier, result.shape.extents))
    mine = sum(
        g * a for x, v in zip(inputs, along, strict=True) for g, a in zip(x.grad.tolist(), v, strict=True)
    )
    with sw.no_grad():
        ahead, behind = (
            _weighted(
                operation(
                    *[
                        _tensor([p + sign * STEP * a for p, a in zip(ps, vs, strict=True)], carrier)
                        for ps, vs in zip(points, along, strict=True)
                    ]
                ),
                weights,
            )
            for sign in (1, -1)
        )
    numeric = (ahead - behind) / (2 * STEP)
    assert abs(mine - numeric) <= BOUND * max(1.0, abs(numeric)), (mine, numeric)


@pytest.mark.parametrize("carrier", CARRIERS)
@pytest.mark.parametrize("name", ONE)
def test_one_operand(name, carrier):
    check(ONE[name], CARRIERS[carrier], 1)


@pytest.mark.parametrize("carrier", CARRIERS)
@pytest.mark.parametrize("name", TWO)
def test_two_operands(name, carrier):
    check(TWO[name], CARRIERS[carrier], 2)


def test_every_operation_that_has_a_gradient_is_here():
    """Oracle: the operations that the package exports and that a float tensor can take."""
    named = {*ONE, *TWO}
    operations = {
        *(
            "add",
            "sub",
            "mul",
            "elementwise_mul",
            "div",
            "neg",
            "relu",
            "exp",
            "log",
            "sqrt",
            "rsqrt",
            "sigmoid",
        ),
        *(
            "tanh",
            "silu",
            "gelu",
            "softmax",
            "reduce_sum",
            "reduce_mean",
            "reduce_max",
            "reduce_min",
            "matmul",
        ),
        *("where", "cast", "copy", "index_select", "rearrange", "reshape", "broadcast_to"),
    }
    exported = sw.__all__[sw.__all__.index("add") : sw.__all__.index("UnsupportedOperationPlan")]
    assert set(exported) == operations and operations <= named
