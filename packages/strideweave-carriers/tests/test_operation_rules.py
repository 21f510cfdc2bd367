"""Type and shape rules of operations, exact integers, refusals. Oracle: Python integers."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import strideweave as sw

pytestmark = pytest.mark.spec("central-operations")

CARRIERS = [sw.Generic(), sw.CPU(0)]
if torch.cuda.is_available():
    CARRIERS.append(sw.CUDA(0))
F32, F16, BF16, I32, I64 = sw.Float32, sw.Float16, sw.BFloat16, sw.Int32, sw.Int64
each_carrier = pytest.mark.parametrize("carrier", CARRIERS, ids=lambda c: type(c).__name__)


def make(carrier, values, dtype=F32, shape=None):
    return sw.tensor(values, dtype=dtype, carrier=carrier, shape=shape)


@each_carrier
@pytest.mark.parametrize(
    ("a", "b", "out"),
    [
        (I32, I32, I32),
        (I32, F32, F32),
        (F16, I32, F16),
        (BF16, F32, F32),
        (F16, BF16, F32),
        (I32, I64, I64),
        (BF16, BF16, BF16),
    ],
)
def test_promotion(carrier, a, b, out):
    for op in (sw.add, sw.mul, sw.elementwise_mul):
        result = op(make(carrier, [1, 2], a), make(carrier, [3, 4], b))
        assert result.dtype() is out
        assert result.tolist() == ([4, 6] if op is sw.add else [3, 8])


@each_carrier
def test_weak_scalars(carrier):
    ints, halves = make(carrier, [1, 2], I32), make(carrier, [1, 2], BF16)
    assert (ints * 2).dtype() is I32 and (2 * ints).tolist() == [2, 4]
    assert (ints * 1.5).dtype() is F32 and (ints * 1.5).tolist() == [1.5, 3.0]
    assert (ints * True).dtype() is F32 and (True * ints).tolist() == [1.0, 2.0]
    assert (halves * 2).dtype() is BF16 and (0.5 * halves).tolist() == [0.5, 1.0]
    for bad in ("2", None, 1j, [1]):
        with pytest.raises(TypeError):
            sw.mul(ints, bad)
    with pytest.raises(TypeError):
        sw.elementwise_mul(ints, 2)
    with pytest.raises(TypeError, match="at least one"):
        sw.mul(2, 3)


@each_carrier
@given(
    st.lists(
        st.tuples(st.integers(-(2**31), 2**31 - 1), st.integers(-(2**31), 2**31 - 1)), min_size=1, max_size=4
    )
)
def test_int32_is_exact_or_overflows(carrier, pairs):
    left, right = (make(carrier, list(side), I32) for side in zip(*pairs, strict=True))
    for op, exact in (
        (sw.add, lambda a, b: a + b),
        (sw.sub, lambda a, b: a - b),
        (sw.mul, lambda a, b: a * b),
    ):
        wanted = [exact(a, b) for a, b in pairs]
        if all(-(2**31) <= w < 2**31 for w in wanted):
            assert op(left, right).tolist() == wanted
        else:
            with pytest.raises(OverflowError):
                op(left, right)


@each_carrier
@given(st.lists(st.integers(-(2**31), 2**31 - 1), min_size=4, max_size=4))
def test_int32_matmul_and_sum_are_exact_or_overflow(carrier, v):
    square = make(carrier, v, I32, (2, 2))
    products = [v[i] * v[j] + v[i + 2] * v[j + 2] for j in range(2) for i in range(2)]
    for run, wanted in (
        (lambda: sw.matmul(square, square), products),
        (lambda: sw.reduce_sum(square, "a b -> a"), [v[0] + v[2], v[1] + v[3]]),
    ):
        if all(-(2**31) <= w < 2**31 for w in wanted):
            assert run().tolist() == wanted
        else:
            with pytest.raises(OverflowError):
                run()


@each_carrier
def test_int64_overflow_is_seen(carrier):
    big = make(carrier, [2**62], I64)
    assert sw.sub(big, big).tolist() == [0]
    for run in (lambda: big + big, lambda: big * 4):
        with pytest.raises(OverflowError):
            run()


@each_carrier
def test_types_without_arithmetic_are_refused_by_name(carrier):
    for dtype in (sw.Float8E4M3, sw.Float8E5M2, sw.Int8, sw.UInt8):
        x = make(carrier, [1, 2], dtype)
        with pytest.raises(TypeError, match=str(dtype)):
            sw.add(x, x)
        assert sw.add(sw.cast(x, F32), sw.cast(x, F32)).tolist() == [2, 4]
    for op in (sw.exp, sw.softmax, sw.gelu):
        with pytest.raises(TypeError, match="Int32"):
            op(make(carrier, [1], I32))
    with pytest.raises(TypeError, match="cast one"):
        sw.div(make(carrier, [1], I32), make(carrier, [2], I32))


@each_carrier
def test_shapes_are_refused(carrier):
    a = make(carrier, range(6), F32, (2, 3))
    with pytest.raises(ValueError, match="differ in leaf"):
        sw.add(a, make(carrier, range(4), F32, (2, 2)))
    with pytest.raises(ValueError, match="different form"):
        sw.add(a, make(carrier, range(6), F32, (2, (3,))))
    with pytest.raises(ValueError, match="second modes"):
        sw.matmul(a, make(carrier, range(4), F32, (2, 2)))
    with pytest.raises(ValueError, match="2"):
        sw.matmul(a, make(carrier, range(4)))
    for pattern in (
        "a b -> b a",
        "a -> a",
        "a b c -> a",
        "a b",
        "a a -> a",
        "a b -> a b",
        "(a b) -> a",
        "a b -> c",
    ):
        with pytest.raises(ValueError, match="reduce_sum"):
            sw.reduce_sum(a, pattern)
    with pytest.raises(TypeError):
        sw.reduce_sum(a, 3)


@each_carrier
def test_accumulator(carrier):
    x = make(carrier, [1, 2, 3, 4], F32, (2, 2))
    assert sw.reduce_sum(x, "a b -> a", accumulator_dtype=F32).tolist() == [4, 6]
    with pytest.raises(TypeError, match="accumulator_dtype"):
        sw.reduce_sum(x, "a b -> a", accumulator_dtype=I32)
    halves = make(carrier, [256.0] + [0.5] * 7, BF16, (1, 8))
    assert sw.reduce_sum(halves, "a b -> a").tolist() == [260.0], "carried wide, rounded once"


@each_carrier
def test_special_values(carrier):
    nan, inf = math.nan, math.inf
    assert [math.isnan(v) for v in sw.relu(make(carrier, [nan, -inf, inf])).tolist()] == [True, False, False]
    assert sw.exp(make(carrier, [1000.0, -inf])).tolist() == [inf, 0.0]
    assert sw.log(make(carrier, [0.0])).tolist() == [-inf]
    assert sw.rsqrt(make(carrier, [0.0, 4.0])).tolist() == [inf, 0.5]
    assert math.isnan(sw.sqrt(make(carrier, [-1.0])).tolist()[0])
    row = make(carrier, [1, nan, 2], F32, (1, 3))
    assert all(math.isnan(f(row, "a b -> a").item()) for f in (sw.reduce_max, sw.reduce_min, sw.reduce_sum))
    assert sw.reduce_max(make(carrier, [-3, -2, -9], F32, (1, 3)), "a b -> a").item() == -2
    assert sw.div(make(carrier, [1.0, -1.0]), make(carrier, [0.0, 0.0])).tolist() == [inf, -inf]


@each_carrier
def test_casts(carrier):
    x = make(carrier, [1.75, -1.75, 0.0])
    assert sw.cast(x, I32).tolist() == [1, -1, 0] and sw.cast(x, sw.Bool).tolist() == [True, True, False]
    assert sw.cast(sw.cast(x, sw.Float8E4M3), F32).tolist() == [1.75, -1.75, 0.0]
    for bad in (3e9, math.nan, -math.inf):
        with pytest.raises(OverflowError):
            sw.cast(make(carrier, [bad]), I32)
    with pytest.raises(OverflowError):
        sw.cast(make(carrier, [300], I32), sw.UInt8)
    assert sw.cast(make(carrier, [True, False], sw.Bool), I32).tolist() == [1, 0]


def test_carriers_do_not_mix():
    with pytest.raises(TypeError, match="CPU and Generic"):
        sw.add(make(CARRIERS[0], [1]), make(CARRIERS[1], [1]))
    assert not sw.supports_operation_plan("add", make(CARRIERS[0], [1]), make(CARRIERS[1], [1]))


def test_storage_carriers_compute_nothing_and_say_so(tmp_path):
    x = sw.Tensor(sw.FileBacked(tmp_path / "f", 2), 0, sw.Layout(2))
    with pytest.raises(sw.UnsupportedOperationPlan, match="only stores; move"):
        sw.relu(x)
    assert issubclass(sw.UnsupportedOperationPlan, NotImplementedError)
    assert sw.operation_capabilities(sw.FileBacked) == frozenset()
    for bad in ("add", sw.zeros(1), int):
        with pytest.raises(TypeError, match="expected a carrier or its class"):
            sw.operation_capabilities(bad)
    assert {"add", "matmul", "gelu", "index_select"} <= sw.operation_capabilities(sw.CPU)
    assert sw.operation_capabilities(sw.Generic) == sw.operation_capabilities(sw.CPU)
    assert not sw.supports_operation_plan("relu", x) and "FileBacked" in sw.plan_refusal("relu", x)
    with pytest.raises(sw.UnsupportedOperationPlan, match="no such operation"):
        sw.require_operation_plan("convolve", x)


def test_an_evictable_computes_on_its_primary():
    carrier = sw.Evictable(sw.CPU(0), sw.Generic([1.0, -2.0]))
    x = sw.Tensor(carrier, 0, sw.Layout(2))
    assert carrier.is_evicted() and sw.supports_operation_plan("relu", x)
    y = sw.relu(x)
    assert type(y.carrier) is sw.CPU and y.tolist() == [1.0, 0.0] and not carrier.is_evicted()
    assert (y + sw.tensor([1.0, 1.0])).tolist() == [2.0, 1.0]
    y.backward(sw.ones(2))
    assert type(x.grad.carrier) is sw.Evictable and x.grad.tolist() == [1.0, 0.0]


def test_results_never_alias_operands():
    x = sw.tensor([1.0, 2.0])
    for y in (
        sw.cast(x, F32),
        sw.copy(x),
        sw.relu(x),
        sw.reduce_sum(sw.reshape(x, (2, 1)), "a b -> a"),
        x * 1,
    ):
        assert not y.carrier.shares_storage(x.carrier)


def test_torch_modes_of_the_caller_change_nothing():
    """Oracle: the same product without autocast, inference mode and default dtype."""
    a = sw.tensor([1.001, 2.002, 3.003, 4.004], shape=(2, 2))
    plain = sw.matmul(a, a).tolist()
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert sw.matmul(a, a).tolist() == plain
        assert torch.is_autocast_enabled("cpu")
    with torch.inference_mode():
        inside = sw.matmul(a, a)
    inside.carrier.set_value(0, 0.0)
    assert inside.tolist()[1:] == plain[1:] and torch.is_grad_enabled()


def test_pending_handles_are_no_operands():
    handle = sw.move_async(sw.tensor([1.0]), sw.CPU(0))
    for use in (
        lambda: sw.relu(handle),
        lambda: sw.add(handle, 1),
        lambda: sw.reshape(handle, 1),
        lambda: sw.move(handle, sw.CPU(0)),
        lambda: sw.reduce_sum(handle, "a -> "),
    ):
        with pytest.raises(TypeError, match="wait"):
            use()
    assert not hasattr(handle, "__await__")
    handle.wait()


def test_what_is_no_operand_has_no_plan():
    """Oracle: what dispatch of the same operands raises."""
    carrier, x = sw.CPU(2), sw.zeros(2)
    for operands in ((carrier,), (sw.CPU,), (3,), (), ("a",), (x, None), (sw.move_async(x, sw.CPU(0)),)):
        assert not sw.supports_operation_plan("add", *operands)
        with pytest.raises(TypeError, match="add: "):
            sw.require_operation_plan("add", *operands)
    assert sw.supports_operation_plan("mul", x, 2) and not sw.supports_operation_plan("matmul", x, 2)


@pytest.mark.parametrize(
    "call",
    [
        lambda t: sw.add(sw.ones(2), t),
        lambda t: sw.relu(t),
        lambda t: sw.reshape(t, 2),
        lambda t: sw.move(t, sw.CPU(0)),
        lambda t: (sw.ones(2) * 2).backward(gradient=t),
        lambda t: sw.grad(sw.ones(1) * 2, [t]),
        lambda t: sw.TiledEvictable.from_torch(t, tile_shape=(1,)).carrier.project(
            t, sw.TileSelection([[0]])
        ),
    ],
)
def test_a_tensor_of_torch_is_told_apart_from_ours(call):
    with pytest.raises(TypeError, match=r"got torch.Tensor; wrap it with from_torch"):
        call(torch.ones(2))


def test_a_scalar_of_numpy_is_named_with_the_way_out():
    with pytest.raises(TypeError, match=r"got numpy.float32; pass a Python number"):
        sw.mul(sw.ones(2), np.float32(2))
