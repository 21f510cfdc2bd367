"""The registry holds the whole op list, each op complete. Oracle: the list written out here."""

from __future__ import annotations

import pytest

from tilefoundry.ir.core.op import Attr, Op, OpRegistry
from tilefoundry.ir.errors import TypeRuleError
from tilefoundry.ir.hir import HIR_OPS
from tilefoundry.ir.types import TensorType

_LIST = (
    "add sub mul div floor_div mod minimum maximum cmp_eq cmp_ne cmp_lt cmp_le cmp_gt cmp_ge logical_and "
    "logical_or neg abs logical_not rsqrt sqrt exp exp2 log log2 square ceil floor round sin cos erf clamp "
    "softplus relu sigmoid silu tanh gelu softmax rms_norm layer_norm matmul conv2d rope cast reshape "
    "transpose slice insert_slice concat stack split tuple_get_item reduce argmax topk where index_select "
    "index_add index_copy cache_update repeat_interleave quant arange zeros full_like shape_of rank reshard "
    "local grouped_matmul attention workspace prefetch"
)
NAMES = set(_LIST.split())


@pytest.mark.spec("ops.list")
def test_every_op_of_the_list_is_registered_and_no_other():
    assert set(HIR_OPS) == NAMES


@pytest.mark.spec("ops.list")
@pytest.mark.parametrize("name", sorted(NAMES))
def test_ops_are_complete(name):
    op = HIR_OPS[name]
    assert op.name == name
    assert len(op.doc) > 0 and op.doc[-1] != "."
    assert op.optional <= len(op.operands)
    assert len({*op.operands, *(attr.name for attr in op.attrs)}) == len(op.operands) + len(op.attrs)


def test_a_second_op_of_one_name_is_refused():
    registry = OpRegistry("test")
    op = Op("f", (), lambda types, attrs: TensorType((), "f32"), lambda ctx, values, attrs: None)
    registry.register(op)
    with pytest.raises(ValueError, match="registered twice"):
        registry.register(op)
    with pytest.raises(KeyError, match="no test op 'g'; ops: f"):
        registry["g"]


@pytest.mark.parametrize(
    ("op", "count", "message"),
    [
        ("add", 1, r"tf.add\(lhs, rhs\) takes 2 tensor operands, got 1"),
        ("add", 3, "got 3"),
        ("layer_norm", 4, "takes 1 to 3 tensor operands, got 4"),
        ("concat", 0, "takes 1 or more tensor operands, got 0"),
        ("arange", 1, "takes 0 tensor operands, got 1"),
    ],
)
def test_wrong_operand_counts_are_refused(ops, op, count, message):
    with pytest.raises(TypeRuleError, match=message):
        ops.infer(op, *[TensorType((2,), "f32")] * count)


def test_unknown_missing_and_malformed_attributes_are_refused(ops):
    x = TensorType((2, 3), "f32")
    with pytest.raises(TypeRuleError, match="no attribute 'dim'; its attributes: axis"):
        ops.infer("softmax", x, dim=1)
    with pytest.raises(TypeRuleError, match="needs the attribute 'new_shape'"):
        ops.infer("reshape", x)
    with pytest.raises(TypeRuleError, match=r"attribute axis=1\.5: an integer is needed"):
        ops.infer("softmax", x, axis=1.5)
    with pytest.raises(TypeRuleError, match="unknown ReduceKind 'prod'; there are sum"):
        ops.infer("reduce", x, axes=(0,), kind="prod")
    with pytest.raises(TypeRuleError, match="unknown dtype 'float32'; the dtypes are f32"):
        ops.infer("cast", x, dtype="float32")
    with pytest.raises(TypeRuleError, match="there are none, tanh"):
        ops.infer("gelu", x, approximate="erf")


def test_attributes_become_canonical():
    from tilefoundry.ir.core.expr import Var

    x = Var(TensorType((2, 3, 4), "f32"), "x")
    assert HIR_OPS["softmax"].call((x,), {"axis": -1}) == HIR_OPS["softmax"].call((x,), {"axis": 2})
    assert HIR_OPS["transpose"].call((x,), {}) == HIR_OPS["transpose"].call((x,), {"perm": [-1, 1, 0]})
    assert HIR_OPS["reshape"].call((x,), {"new_shape": (-1, 4)}).attr("new_shape") == (6, 4)
    assert HIR_OPS["slice"].call((x,), {"starts": (1, 0, 0)}).attr("sizes") == (1, 3, 4)
    assert HIR_OPS["reduce"].call((x,), {"axes": -1}).attr("axes") == (2,)


def test_attr_defaults_are_filled_in_schema_order():
    op = Op(
        "f",
        (),
        lambda types, attrs: TensorType((), "f32"),
        lambda ctx, values, attrs: None,
        (Attr("a", 1), Attr("b")),
    )
    assert list(op.bind_attrs({"b": 2}).items()) == [("a", 1), ("b", 2)]
