"""Every op under dynamic extents. Oracle: the same call with the extents written out as integers.

Letters in a shape are DimVars; the dynamic program is typed once and run at several sizes, and must give the
static program's shapes and bytes each time.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from tilefoundry.ir.hir import HIR_OPS
from tilefoundry.ir.types import DimVar, DType, TensorType, TupleType

VARS = {name: DimVar(name, 0, 64) for name in "BSTN"}
SIZES = [{"B": 2, "S": 3, "T": 5, "N": 4}, {"B": 1, "S": 1, "T": 1, "N": 1}, {"B": 3, "S": 7, "T": 7, "N": 2}]
EMPTY = {"B": 0, "S": 3, "T": 2, "N": 2}

Attrs = Callable[[dict[str, Any]], dict[str, Any]]


def case(op: str, *operands: str, attrs: Attrs | None = None, empty: bool = True) -> Any:
    """``operands`` are such as ``"f32 B S 4"``; ``attrs`` gets the extents by letter, dims or integers."""
    return pytest.param(op, operands, attrs or (lambda d: {}), empty, id=f"{op}-{'-'.join(operands)}")


ELEMENTWISE = [name for name in HIR_OPS if len(HIR_OPS[name].operands) == 1 and not HIR_OPS[name].attrs]
ELEMENTWISE = [n for n in ELEMENTWISE if n not in ("local", "shape_of", "rank", "tuple_get_item")]
CASES = [
    *(case(n, "bool B S" if n.startswith("logical") else "f32 B S 2") for n in ELEMENTWISE),
    *(
        case(n, "f32 B S 2", "f32 S 1")
        for n in ("add", "sub", "mul", "div", "minimum", "maximum", "floor_div", "mod")
    ),
    *(case(n, "i32 B 1 N", "i32 S 1") for n in ("cmp_eq", "cmp_ne", "cmp_lt", "cmp_le", "cmp_gt", "cmp_ge")),
    *(case(n, "bool B S", "bool S") for n in ("logical_and", "logical_or")),
    case("clamp", "f32 B S", attrs=lambda d: {"min_val": 0.0}),
    case("gelu", "bf16 B S"),
    case("softmax", "f32 B S T", attrs=lambda d: {"axis": -2}),
    case("rms_norm", "f32 B S", "f32 S"),
    case("layer_norm", "f32 B S T", "f32 S T", "f32 S T", attrs=lambda d: {"axis": 1}),
    case("matmul", "f32 B S T", "f32 T N"),
    case("grouped_matmul", "f32 B 4", "f32 2 4 N", "offsets 3", empty=False),
    case("conv2d", "f32 B 2 S 9", "f32 3 2 1 2", attrs=lambda d: {"stride": 2}),
    case("rope", "f32 B S 4 8", "f32 B S 2 8", "f32 64 8", "f32 64 8", "index S"),
    case("attention", "f32 B 4 S 8", "f32 B 2 T 8", "f32 B 2 T 6", attrs=lambda d: {"causal": True}),
    case("cast", "f32 B S", attrs=lambda d: {"dtype": "fp8e4m3"}),
    case("quant", "f32 B 8", attrs=lambda d: {"group": 4}),
    case("reshape", "f32 B S 6", attrs=lambda d: {"new_shape": (d["B"] * d["S"], 3, 2)}),
    case("reshape", "f32 B S 6", attrs=lambda d: {"new_shape": (d["B"] * d["S"], -1, 2)}, empty=False),
    case("reshape", "f32 B S 6", attrs=lambda d: {"new_shape": (-1, d["S"] * 6)}, empty=False),
    case("transpose", "f32 B S T", attrs=lambda d: {"perm": (2, 0, 1)}),
    case("slice", "f32 B 9", attrs=lambda d: {"starts": (0, 2), "sizes": (d["B"], 3), "strides": (1, 2)}),
    case("slice", "f32 S 9", attrs=lambda d: {"starts": (0, d["S"]), "sizes": (d["S"], 1)}),
    case("insert_slice", "f32 9 S", "f32 B S", attrs=lambda d: {"offsets": (d["B"], 0)}),
    case("concat", "f32 B S", "f32 T S", "f32 N S"),
    case("stack", "f32 B S", "f32 B S", attrs=lambda d: {"axis": -1}),
    case("split", "f32 B 6", attrs=lambda d: {"axis": 1, "num_splits": 3}),
    case("repeat_interleave", "f32 B S", attrs=lambda d: {"repeats": 3, "axis": 0}),
    case("reduce", "f32 B S T", attrs=lambda d: {"axes": (0, 2), "kind": "sum"}),
    case("reduce", "f32 B S T", attrs=lambda d: {"axes": (1,), "kind": "max", "keepdim": False}),
    case("argmax", "f32 B S"),
    case("topk", "f32 B 9", attrs=lambda d: {"k": 4}),
    case("where", "bool B 1", "f32 S", "f32 B S"),
    case("index_select", "f32 64 S", "index B T"),
    case("index_add", "f32 64 S", "index B", "f32 B S"),
    case("index_copy", "f32 S 64", "index B", "f32 S B", attrs=lambda d: {"dim": 1}),
    case("cache_update", "f32 B 64 2 S", "one", "one", "f32 B T 2 S"),
    case("arange", attrs=lambda d: {"end": 64, "start": 3}),
    case("full_like", "f32 B S", attrs=lambda d: {"value": 0.5}),
    case("shape_of", "f32 B S"),
    case("rank", "f32 B S"),
    case("prefetch", "f32 B S"),
]
# Ops whose only operand is a type, a tuple, or a layout; their dynamic forms are tested beside them.
ELSEWHERE = {"zeros", "workspace", "tuple_get_item", "reshard", "local"}


@pytest.mark.spec("ops.dynamic")
def test_the_table_covers_every_op():
    assert {param.values[0] for param in CASES} | ELSEWHERE == set(HIR_OPS)


def _type(text: str, extents: dict[str, Any]) -> TensorType:
    kind, *letters = text.split()
    dtype = {"index": "i64", "offsets": "i32", "one": "i32"}.get(kind, kind)
    return TensorType(tuple(extents.get(x) if x in extents else int(x) for x in letters), dtype)


def _value(ops: Any, text: str, shape: tuple[int, ...], rows: int) -> Any:
    kind = text.split()[0]
    if kind == "index":
        return np.random.default_rng(1).integers(0, 64, shape)
    if kind == "offsets":
        return np.array([0, rows // 2, rows], np.int32)
    if kind == "one":
        return np.array(1, np.int32)
    return ops.sample(shape, kind, len(text), 0.25, 2.0)


def _shapes(type_: Any, env: dict[str, int]) -> Any:
    if isinstance(type_, TupleType):
        return tuple(_shapes(element, env) for element in type_.elements)
    return type_.concrete_shape(env), type_.dtype


@pytest.mark.spec("ops.dynamic")
@pytest.mark.parametrize(("op", "operands", "attrs", "empty"), CASES)
def test_dynamic_equals_static(ops, op, operands, attrs, empty):
    types = tuple(_type(text, VARS) for text in operands)
    dynamic = attrs(VARS)
    inferred = ops.infer(op, *types, **dynamic)
    for env in [*SIZES, EMPTY] if empty else SIZES:
        static = tuple(_type(text, env) for text in operands)
        arrays = [_value(ops, text, t.shape, env["B"]) for text, t in zip(operands, static, strict=True)]
        want = ops.run(op, *arrays, **attrs(env))
        assert _shapes(inferred, env) == _shapes(ops.infer(op, *static, **attrs(env)), env)
        got = ops.run(op, *arrays, types=types, **dynamic)
        for one, other in zip(_flat(got), _flat(want), strict=True):
            ops.assert_same(one, other)


def _flat(value: Any) -> tuple[Any, ...]:
    return value if isinstance(value, tuple) else (value,)


def test_dtypes_of_results_do_not_depend_on_extents(ops):
    for param in CASES:
        op, operands, attrs, _ = param.values
        result = ops.infer(op, *(_type(text, VARS) for text in operands), **attrs(VARS))
        elements = result.elements if isinstance(result, TupleType) else (result,)
        assert all(isinstance(element.dtype, DType) for element in elements)
