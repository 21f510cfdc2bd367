"""Layouts of results. Oracle: a simulation that gives each instance its part, runs torch on the parts alone,
and compares what the inferred layout promises with the parts of the global result."""

from __future__ import annotations

from itertools import product
from typing import Any

import pytest
import torch

from tilefoundry.ir.core.expr import Constant, Var
from tilefoundry.ir.errors import TypeRuleError
from tilefoundry.ir.hir import HIR_OPS
from tilefoundry.ir.types import TensorType, scalar
from tilefoundry.ir.types.shard import Mesh, P, ShardLayout, layout_from_sugar

M = Mesh(("cta", "thread"), (2, 4), ("x", "y"))
OTHER = Mesh(("cta", "thread"), (4, 2), ("x", "y"))


def sharded(shape: tuple, written: Any) -> TensorType:
    return TensorType(shape, "f64", layout_from_sugar(shape, written), "rmem")


def typed(op: str, *types: TensorType, **attrs: Any) -> TensorType:
    args = [Var(t, f"v{i}") for i, t in enumerate(types)]
    return HIR_OPS[op].call(args, attrs).type  # type: ignore[return-value]  # one tensor


def parts(value: torch.Tensor, type_: TensorType) -> dict[tuple[int, ...], torch.Tensor]:
    """What each instance holds of ``value``, in the tensor's own rank: axes that are split are narrowed."""
    layout = type_.layout
    places = list(product(*map(range, M.shape)))
    if not isinstance(layout, ShardLayout):
        return dict.fromkeys(places, value)
    view = value.reshape(tuple(layout.shape))
    out = {}
    for place in places:
        part = view
        for k, axis in layout.splits.items():
            part = part.narrow(k, place[axis], 1)
        out[place] = part
    return out


def check_split(op: str, run: Any, result: TensorType, value: torch.Tensor, *operands: tuple) -> None:
    """``run`` on the parts of each instance gives the instance's part of ``value``."""
    held = [parts(v, t) for v, t in operands]
    for place, want in parts(value, result).items():
        got = run(*(h[place] for h in held))
        torch.testing.assert_close(got.reshape(-1), want.reshape(-1), msg=f"{op} at {place}")


@pytest.mark.spec("shard.op-rules")
def test_elementwise_ops_keep_the_layout() -> None:
    t = sharded((8, 12), (8 @ M.y, 12 @ M.x))
    x, y = torch.randn(8, 12).double(), torch.randn(8, 12).double()
    result = typed("add", t, t)
    assert result.layout == t.layout
    check_split("add", torch.add, result, x + y, (x, t), (y, t))
    assert typed("relu", t).layout == t.layout
    assert typed("cast", t, dtype="f32").layout == t.layout


def test_a_stretched_operand_must_be_split_as_the_result_is() -> None:
    t = sharded((8, 12), (8 @ M.y, 12))
    row, column = sharded((12,), (12,)), sharded((8, 1), (8 @ M.y, 1))
    assert typed("mul", t, column).layout == t.layout
    assert typed("mul", t, row).layout == t.layout
    with pytest.raises(TypeRuleError, match="axis 0 is split over y"):
        typed("mul", sharded((8, 12), (8 @ M.x, 12)), column)


def test_operands_laid_out_differently_are_refused() -> None:
    with pytest.raises(TypeRuleError, match="laid out differently"):
        typed("add", sharded((8, 12), (8 @ M.y, 12)), sharded((8, 12), (8, 12 @ M.y)))
    with pytest.raises(TypeRuleError, match="laid out differently"):
        typed("add", sharded((8, 12), (8 @ M.x, 12)), sharded((8, 12), (8 @ OTHER.y, 12)))


def test_partial_values_pass_linear_ops_only() -> None:
    t = sharded((8, 12), ((8, 12), {M.y @ P("sum")}))
    half = Constant(scalar("f64"), 0.5)
    assert typed("add", t, t).layout == t.layout
    assert typed("neg", t).layout == t.layout
    assert HIR_OPS["mul"].call((Var(t, "v"), half)).type.layout == t.layout
    for op in ("relu", "exp", "square"):
        with pytest.raises(TypeRuleError, match=r"along y hold partial values \(sum\)"):
            typed(op, t)
    with pytest.raises(TypeRuleError, match="hold partial values"):
        typed("add", t, TensorType((8, 12), "f64"))
    with pytest.raises(TypeRuleError, match="hold partial values"):
        typed("mul", t, t)
    with pytest.raises(TypeRuleError, match="hold partial values"):
        HIR_OPS["div"].call((half, Var(t, "v")))
    most = sharded((8, 12), ((8, 12), {M.y @ P("max")}))
    with pytest.raises(TypeRuleError, match="hold partial values"):
        typed("add", most, most)


def test_transposing_takes_canonical_axes_along() -> None:
    t = sharded((8, 3, 12), (8 @ M.y, 3, 12 @ M.x))
    x = torch.randn(8, 3, 12).double()
    result = typed("transpose", t, perm=(2, 0, 1))
    assert result.layout.shape == (2, 6, 4, 2, 3)
    for place, want in parts(x.permute(2, 0, 1), result).items():
        own = parts(x, t)[place]  # y, 2, 3, x, 6 with the split extents 1
        torch.testing.assert_close(own.reshape(2, 3, 6).permute(2, 0, 1).reshape(-1), want.reshape(-1))


def test_reshaping_keeps_the_layout() -> None:
    t = sharded((8, 12), (8 @ M.y, 12))
    assert typed("reshape", t, new_shape=(96,)).layout == t.layout
    assert typed("reshape", t, new_shape=(4, 24)).layout == t.layout


def test_reducing_drops_canonical_axes_and_a_split_one_is_combined() -> None:
    t = sharded((8, 12), (8 @ M.y, 12 @ M.x))
    kept = typed("reduce", t, axes=(1,), keepdim=True, kind="sum")
    assert (kept.layout.shape, kept.layout.splits) == ((4, 2, 1), {0: 1})
    dropped = typed("reduce", t, axes=(0,), keepdim=False, kind="max")
    assert (dropped.layout.shape, dropped.layout.splits) == ((2, 6), {0: 0})
    x = torch.randn(8, 12).double()
    whole = sharded((8, 12), (8 @ M.y, 12))
    result = typed("reduce", whole, axes=(1,), keepdim=False, kind="sum")
    check_split("reduce", lambda a: a.reshape(2, 12).sum(1), result, x.sum(1), (x, whole))
    with pytest.raises(TypeRuleError, match="partial"):
        typed("reduce", sharded((8, 12), ((8, 12), {M.y @ P("sum")})), axes=(1,), keepdim=True, kind="max")


def test_products_split_rows_and_columns() -> None:
    lhs, rhs = sharded((8, 6), (8 @ M.y, 6)), sharded((6, 4), (6, 4 @ M.x))
    a, b = torch.randn(8, 6).double(), torch.randn(6, 4).double()
    result = typed("matmul", lhs, rhs)
    assert result.layout.splits == {0: 1, 2: 0}
    check_split("matmul", lambda p, q: p.reshape(2, 6) @ q.reshape(6, 2), result, a @ b, (a, lhs), (b, rhs))
    check_split(
        "matmul",
        lambda p, q: p.reshape(2, 6) @ q,
        typed("matmul", lhs, TensorType((6, 4), "f64")),
        a @ b,
        (a, lhs),
        (b, TensorType((6, 4), "f64")),
    )


@pytest.mark.spec("shard.op-rules")
def test_products_over_a_split_axis_leave_partial_sums() -> None:
    lhs, rhs = sharded((3, 8), (3, 8 @ M.y)), sharded((8, 5), (8 @ M.y, 5))
    a, b = torch.randn(3, 8).double(), torch.randn(8, 5).double()
    result = typed("matmul", lhs, rhs)
    assert result.layout.partials == {1: "sum"}
    assert not result.layout.splits
    held_a, held_b = parts(a, lhs), parts(b, rhs)
    total = sum(held_a[0, y].reshape(3, 2) @ held_b[0, y].reshape(2, 5) for y in range(4))
    torch.testing.assert_close(total, a @ b)


def test_products_keep_batch_axes_split() -> None:
    lhs, rhs = sharded((4, 3, 8), (4 @ M.y, 3, 8)), sharded((4, 8, 5), (4 @ M.y, 8, 5))
    assert typed("matmul", lhs, rhs).layout.splits == {0: 1}
    with pytest.raises(TypeRuleError, match="over different meshes"):
        typed("matmul", lhs, sharded((4, 8, 5), (4 @ OTHER.x, 8, 5)))


@pytest.mark.parametrize(
    ("left", "right"),
    [
        (((8 @ M.y), 8), (8, (8 @ M.y))),
        ((8, 8 @ M.y), (8, 8 @ M.y)),
        ((8, 8 @ M.y), (8 @ M.x, 8 @ M.y)),
    ],
)
def test_one_mesh_axis_does_one_thing_in_a_product(left: tuple, right: tuple) -> None:
    with pytest.raises(TypeRuleError, match="would do two things"):
        typed("matmul", sharded((8, 8), left), sharded((8, 8), right))


def test_ops_that_need_whole_operands_refuse_split_ones_and_copy_copies() -> None:
    whole = sharded((8, 12), ((8, 12), {M.y @ P("sum")}))
    with pytest.raises(TypeRuleError, match="partial"):
        typed("argmax", whole, axis=1)
    with pytest.raises(TypeRuleError, match="split over"):
        typed("argmax", sharded((8, 12), (8, 12 @ M.x)), axis=1)
