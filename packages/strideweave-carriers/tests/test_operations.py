"""Operations on random layouts. Oracle: torch on the logical values, forward and backward, in float64.

Generic and CPU (and CUDA, where there is one) run each program; bounds follow from the element type and the
length of sums.
"""

from __future__ import annotations

import math
import sys
from pathlib import Path

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import strideweave as sw
from tilefoundry.ir.layout import flatten, product

sys.path.insert(0, str(Path(__file__).parent))
from random_layouts import TREES, layouts, logical, place, reference

pytestmark = pytest.mark.spec("operations")

CARRIERS = {"Generic": sw.Generic(), "CPU": sw.CPU(0)}
if torch.cuda.is_available():
    CARRIERS["CUDA"] = sw.CUDA(0)
BOUND = {sw.Float32: 2e-6, sw.Float16: 2e-3, sw.BFloat16: 1.6e-2}
relaxed = settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.too_slow])


def close(actual, expected, bound):
    assert len(actual) == len(expected)
    for a, e in zip(actual, expected, strict=True):
        assert (math.isnan(a) and math.isnan(e)) or abs(a - e) <= bound * max(1.0, abs(e)), (a, e)


def run(program, torch_program, values, lays, data, dtype=sw.Float32, scale=1.0):
    """Program and reference on the same values; results and gradients of a weighted sum agree."""
    pairs = list(zip(values, lays, strict=True))
    refs = [reference(v, lay.shape.extents, torch.float64).requires_grad_() for v, lay in pairs]
    expected = torch_program(*refs)
    gen = torch.Generator().manual_seed(1)
    weights = torch.randn(expected.shape, dtype=torch.float64, generator=gen).to(dtype.torch())
    (expected * weights.double()).sum().backward()
    bound = BOUND[dtype] * scale
    for carrier in CARRIERS.values():
        args = [place(v, lay, data, carrier, dtype) for v, lay in zip(values, lays, strict=True)]
        out = program(*args)
        assert type(out.carrier) is type(carrier) and out.dtype() is dtype
        assert out.shape.leaves() == tuple(expected.shape), "dense result of the same leaves"
        close(out.tolist(), logical(expected.detach()), bound)
        seed = carrier.new_like(logical(weights.double()), mutable=True, dtype=dtype)
        out.backward(sw.Tensor(seed, 0, sw.Layout(out.shape)))
        for arg, ref in zip(args, refs, strict=True):
            assert type(arg.grad.carrier) is type(carrier) and arg.grad.shape == arg.shape
            assert arg.grad.autograd_ctx is None and not arg.grad.is_differentiable()
            close(arg.grad.tolist(), logical(ref.grad), 4 * bound)


def numbers(n, low=-3.0, high=3.0):
    # A grid that every float type holds exactly, so that inputs are the same everywhere.
    return st.lists(st.integers(int(low * 8), int(high * 8)).map(lambda k: k / 8), min_size=n, max_size=n)


UNARY = {
    "relu": (sw.relu, torch.relu, -3, 3),
    "neg": (sw.neg, torch.neg, -3, 3),
    "exp": (sw.exp, torch.exp, -3, 3),
    "log": (sw.log, torch.log, 0.25, 3),
    "sqrt": (sw.sqrt, torch.sqrt, 0.25, 3),
    "rsqrt": (sw.rsqrt, torch.rsqrt, 0.25, 3),
    "sigmoid": (sw.sigmoid, torch.sigmoid, -3, 3),
    "tanh": (sw.tanh, torch.tanh, -3, 3),
    "silu": (sw.silu, torch.nn.functional.silu, -3, 3),
    "gelu": (sw.gelu, torch.nn.functional.gelu, -3, 3),
}


@pytest.mark.parametrize("dtype", BOUND, ids=str)
@pytest.mark.parametrize("name", UNARY)
@given(data=st.data())
@settings(max_examples=6, deadline=None)
def test_unary(name, dtype, data):
    ours, theirs, low, high = UNARY[name]
    lay = data.draw(layouts())
    values = data.draw(numbers(lay.size(), low, high))
    # Slopes read the rounded result, so one more rounding than a single operation.
    run(ours, theirs, [values], [lay], data.draw(st.integers(0, 2)), dtype, scale=4)


BINARY = {
    "add": (sw.add, torch.add),
    "sub": (sw.sub, torch.sub),
    "mul": (sw.mul, torch.mul),
    "elementwise_mul": (sw.elementwise_mul, torch.mul),
    "div": (sw.div, torch.div),
}


@st.composite
def broadcast_pair(draw):
    extents = draw(TREES)
    shapes = []
    for _ in range(2):
        shapes.append(sw.Shape(_thinned(draw, extents)))
    return extents, shapes


def _thinned(draw, tree):
    if isinstance(tree, tuple):
        return tuple(_thinned(draw, t) for t in tree)
    return draw(st.sampled_from([tree, tree, 1]))


@pytest.mark.parametrize("name", BINARY)
@given(data=st.data())
@relaxed
def test_binary_with_broadcasting(name, data):
    ours, theirs = BINARY[name]
    _, shapes = data.draw(broadcast_pair())
    lays = [data.draw(layouts(s.extents)) for s in shapes]
    values = [data.draw(numbers(s.size(), 0.5, 3)) for s in shapes]
    run(ours, theirs, values, lays, data.draw(st.integers(0, 2)), scale=64)


REDUCE = {
    "sum": (sw.reduce_sum, lambda x, d: x.sum(d)),
    "mean": (sw.reduce_mean, lambda x, d: x.mean(d)),
    "max": (sw.reduce_max, lambda x, d: x.amax(d)),
    "min": (sw.reduce_min, lambda x, d: x.amin(d)),
}


@pytest.mark.parametrize("name", REDUCE)
@given(data=st.data())
@relaxed
def test_reductions(name, data):
    ours, theirs = REDUCE[name]
    modes = data.draw(st.lists(TREES, min_size=1, max_size=3).map(tuple))
    names = "abc"[: len(modes)]
    kept = data.draw(st.sets(st.sampled_from(names), max_size=len(modes) - 1))
    pattern = f"{' '.join(names)} -> {' '.join(n for n in names if n in kept)}"
    lay = data.draw(layouts(modes))
    dims, leaf = [], 0
    for n, mode in zip(names, modes, strict=True):
        count = len(flatten(mode))
        dims += [] if n in kept else list(range(leaf, leaf + count))
        leaf += count
    values = data.draw(numbers(lay.size()))
    run(lambda x: ours(x, pattern), lambda x: theirs(x, dims), [values], [lay], 0, scale=16)


@given(data=st.data())
@relaxed
def test_matmul_contracts_both_second_modes(data):
    i, j, k = (data.draw(TREES) for _ in range(3))
    lays = [data.draw(layouts((i, k))), data.draw(layouts((j, k)))]
    values = [data.draw(numbers(lay.size())) for lay in lays]

    def expected(a, b):
        rows = a.permute(_fortran(i, k)).reshape(product(k), product(i))
        columns = b.permute(_fortran(j, k)).reshape(product(k), product(j))
        flat = torch.einsum("ki,kj->ji", rows, columns)
        leaves = (*flatten(i), *flatten(j))
        return flat.reshape(leaves[::-1]).permute(list(range(len(leaves)))[::-1])

    run(sw.matmul, expected, values, lays, 1, scale=product(k) * 4)


def _fortran(a, b):
    return list(range(len(flatten(a)) + len(flatten(b))))[::-1]


@given(data=st.data())
@relaxed
def test_softmax(data):
    modes = data.draw(st.lists(st.integers(1, 4), min_size=1, max_size=3).map(tuple))
    mode = data.draw(st.integers(0, len(modes) - 1))
    lay = data.draw(layouts(modes))
    values = data.draw(numbers(lay.size()))
    run(lambda x: sw.softmax(x, mode), lambda x: x.softmax(mode), [values], [lay], 0, scale=8)


@given(data=st.data())
@relaxed
def test_index_select_with_repeats(data):
    modes = data.draw(st.lists(st.integers(1, 4), min_size=1, max_size=3).map(tuple))
    mode = data.draw(st.integers(0, len(modes) - 1))
    ids = data.draw(st.lists(st.integers(0, modes[mode] - 1), min_size=1, max_size=6))
    lay = data.draw(layouts(modes))
    values = data.draw(numbers(lay.size()))
    run(
        lambda x: sw.index_select(x, ids, mode),
        lambda x: x.index_select(mode, torch.tensor(ids)),
        [values],
        [lay],
        0,
    )


@given(data=st.data())
@relaxed
def test_where(data):
    lay = data.draw(layouts())
    n = lay.size()
    choice = data.draw(st.lists(st.booleans(), min_size=n, max_size=n))
    values = [data.draw(numbers(n)) for _ in range(2)]
    mask = reference(choice, lay.shape.extents, torch.bool)

    def ours(a, b):
        c = sw.Tensor(a.carrier.new_like(choice, mutable=True, dtype=sw.Bool), 0, sw.Layout(lay.shape))
        return sw.where(c, a, b)

    run(ours, lambda a, b: torch.where(mask, a, b), values, [lay, lay], 0)


@pytest.mark.parametrize("dtype", BOUND, ids=str)
def test_a_longer_program(dtype):
    """silu(x w1) * (x w2) summed with a softmax over rows: every value and gradient within the type's bound."""
    gen = torch.Generator().manual_seed(3)
    shapes = [(4, 6), (5, 6), (5, 6)]
    values = [(torch.randint(-8, 8, (a * b,), generator=gen) / 8).tolist() for a, b in shapes]

    def program(x, w1, w2):
        hidden = sw.silu(sw.matmul(x, w1)) * sw.matmul(x, w2)
        return sw.softmax(hidden, 1) * 2 - hidden / 4

    def expected(x, w1, w2):
        hidden = torch.nn.functional.silu(x @ w1.T) * (x @ w2.T)
        return hidden.softmax(1) * 2 - hidden / 4

    run(program, expected, values, [sw.Layout(s) for s in shapes], 0, dtype, scale=40)


@pytest.mark.parametrize("name", sorted(set(UNARY) - {"relu", "neg"}))
def test_slopes_match_finite_differences(name):
    ours = UNARY[name][0]
    points = [0.4, 0.9, 1.7]
    x = sw.tensor(points)
    sw.reduce_sum(sw.reshape(ours(x), (3, 1)), "a b -> b").backward()
    theirs = UNARY[name][1]
    for p, g in zip(points, x.grad.tolist(), strict=True):
        h = 1e-5
        pair = torch.tensor([p - h, p + h], dtype=torch.float64)
        low, high = theirs(pair).tolist()
        assert abs(g - (high - low) / (2 * h)) < 1e-4


def test_tensors_that_do_not_begin_with_their_storage():
    """Large host memory is aligned to pages, so its storage begins before it. Oracle: torch on the same values."""
    rows, columns = 1024, 300
    values = torch.randn(rows, columns)
    mine = sw.Tensor(sw.CPU(rows * columns), 0, sw.Layout((rows, columns), (columns, 1)))
    mine.carrier.flat().copy_(values.reshape(-1))
    theirs = values.clone().requires_grad_()
    assert torch.equal(sw.to_torch(mine[10:20]), values[10:20])
    part = sw.reduce_sum(sw.reduce_sum(mine[10:20] * mine[10:20], "a b -> a"), "a -> ")
    (theirs[10:20] * theirs[10:20]).sum().backward()
    part.backward()
    assert torch.allclose(sw.to_torch(mine.grad), theirs.grad)
