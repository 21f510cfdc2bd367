"""Random programs over random layouts. Oracle: the same program in torch, in float64, values and gradients."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import strideweave as sw

sys.path.insert(0, str(Path(__file__).parent))
from random_layouts import layouts, logical, place, reference

pytestmark = pytest.mark.spec("operations")

CARRIERS = [sw.Generic(), sw.CPU(0)]
if torch.cuda.is_available():
    CARRIERS.append(sw.CUDA(0))

# Square matrices, so that any step may follow any other; each step is bounded, so that errors stay small.
UNARY = {
    "tanh": (sw.tanh, torch.tanh),
    "sigmoid": (sw.sigmoid, torch.sigmoid),
    "silu": (sw.silu, torch.nn.functional.silu),
    "gelu": (sw.gelu, torch.nn.functional.gelu),
    "softmax": (lambda x: sw.softmax(x, 1), lambda x: x.softmax(1)),
    "halve": (lambda x: x * 0.5, lambda x: x * 0.5),
    "transpose": (lambda x: sw.rearrange(x, "a b -> b a"), lambda x: x.T),
    "flip halves": (lambda x: sw.index_select(x, list(range(x.shape[0]))[::-1]), lambda x: x.flip(0)),
    "row mean": (
        lambda x: x - sw.reshape(sw.reduce_mean(x, "a b -> a"), (x.shape[0], 1)),
        lambda x: x - x.mean(1, keepdim=True),
    ),
    "corner": (lambda x: x + sw.broadcast_to(x[0:1, 0:1], x.shape), lambda x: x + x[0:1, 0:1]),
    "through Generic": (
        lambda x: sw.move(sw.move(x, sw.Generic()), x.carrier.allocate_like(0)),
        lambda x: x * 1,
    ),
}
BINARY = {
    "add": (sw.add, torch.add),
    "sub": (sw.sub, torch.sub),
    "mul": (sw.mul, torch.mul),
    "matmul": (lambda a, b: sw.matmul(sw.tanh(a), sw.softmax(b, 1)), lambda a, b: a.tanh() @ b.softmax(1).T),
}

steps = st.one_of(
    st.tuples(st.sampled_from(sorted(UNARY)), st.integers(0, 7)),
    st.tuples(st.sampled_from(sorted(BINARY)), st.integers(0, 7), st.integers(0, 7)),
)


def run(program, values, table):
    """The program's values after each step; each step reads earlier ones by position."""
    for name, *operands in program:
        function = (UNARY | BINARY)[name][table]
        values = [*values, function(*(values[k % len(values)] for k in operands))]
    return values[-1]


@settings(max_examples=60, deadline=None)
@given(data=st.data())
def test_values_and_gradients_agree(data):
    n = data.draw(st.integers(1, 4))
    program = data.draw(st.lists(steps, min_size=1, max_size=7))
    lays = [data.draw(layouts((n, n))) for _ in range(2)]
    numbers = st.lists(st.integers(-8, 8).map(lambda k: k / 8), min_size=n * n, max_size=n * n)
    values = [data.draw(numbers) for _ in range(2)]
    refs = [reference(v, (n, n), torch.float64).requires_grad_() for v in values]
    expected = run(program, refs, 1)
    weights = torch.linspace(-1, 1, n * n, dtype=torch.float64).reshape(n, n).T
    (expected * weights).sum().backward()
    for carrier in CARRIERS:
        args = [place(v, lay, 1, carrier) for v, lay in zip(values, lays, strict=True)]
        out = run(program, args, 0)
        assert out.tolist() == pytest.approx(logical(expected.detach()), rel=1e-4, abs=1e-4)
        seed = carrier.new_like(logical(weights), mutable=True, dtype=sw.Float32)
        out.backward(sw.Tensor(seed, 0, sw.Layout((n, n))))
        for arg, ref in zip(args, refs, strict=True):
            wanted = torch.zeros(n, n) if ref.grad is None else ref.grad
            got = [0.0] * (n * n) if arg.grad is None else arg.grad.tolist()
            assert got == pytest.approx(logical(wanted), rel=1e-3, abs=1e-3)
