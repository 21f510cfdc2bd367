"""Storage and layout of results. Oracle: the layouts written out by hand, and evaluation of one split program."""

from __future__ import annotations

import pytest

from tilefoundry.ir.errors import TypeRuleError
from tilefoundry.ir.types import StorageKind, TensorType, TupleType
from tilefoundry.ir.types.shard import B, Instances, Layout, Mesh, P, S, ShardLayout

MESH = Mesh(("cta", "thread"), (2, 4), ("b", "t"))
OTHER = Mesh(("thread",), (4,), ("t",))


def shard(shape, *attrs, strides=None, mesh=MESH):
    return ShardLayout(Layout(shape, strides), attrs, mesh)


def tensor(shape, layout=None, storage="undecided", dtype="f32"):
    return TensorType(shape, dtype, layout, storage)


ROWS = shard((2, 3, 4, 2), S(0), S(2))  # [6, 8]: rows over b, columns over t
X = tensor((6, 8), ROWS, "rmem")
WHOLE_COLUMNS = tensor((6, 8), shard((2, 3, 8), S(0), B()), "rmem")


def attrs_of(type_):
    return type_.layout.shape, type_.layout.attrs


@pytest.mark.parametrize("op", ["neg", "exp", "relu", "gelu", "softmax", "prefetch"])
def test_one_operand_keeps_its_layout_and_storage(ops, op):
    assert ops.infer(op, X) == X


def test_elementwise_ops_take_the_common_layout(ops):
    assert ops.infer("add", X, X) == X
    assert ops.infer("cmp_lt", X, X) == X.with_dtype("bool")
    assert ops.infer("mul", X, tensor(())) == X
    row = tensor((8,), shard((4, 2), B(), S(0)), "rmem")
    assert ops.infer("mul", X, row) == X and ops.infer("rms_norm", X, row) == X
    assert ops.infer("cast", X, dtype="bf16") == X.with_dtype("bf16")


def test_storage_follows_the_decided_operands(ops):
    held = tensor((2,), storage="gmem")
    assert ops.infer("add", held, tensor((2,))).storage is StorageKind.GMEM
    assert ops.infer("matmul", tensor((2, 3)), tensor((3, 4), storage="smem")).storage is StorageKind.SMEM
    with pytest.raises(
        TypeRuleError, match=r"must live in one storage, got lhs in gmem, rhs in rmem; use tf\.reshard"
    ):
        ops.infer("add", held, tensor((2,), storage="rmem"))


@pytest.mark.spec("shard.op-rules")
def test_a_reduction_is_complete(ops):
    summed = ops.infer("reduce", X, axes=(1,), keepdim=True, kind="sum")
    assert (
        summed.shape == (6, 1)
        and attrs_of(summed) == ((2, 3, 1), (S(0), B()))
        and summed.storage == X.storage
    )
    assert attrs_of(ops.infer("reduce", X, axes=(0,), keepdim=False, kind="max")) == ((4, 2), (B(), S(0)))
    # What rms_norm spells out: the mean's reciprocal root scales the rows that it came from.
    scale = ops.infer("rsqrt", ops.infer("reduce", ops.infer("mul", X, X), axes=(-1,), kind="mean"))
    assert ops.infer("mul", X, scale) == X


def test_a_split_contraction_leaves_partial_sums(ops):
    right = tensor((8, 5), shard((4, 2, 5), B(), S(0)), "rmem")
    product = ops.infer("matmul", X, right)
    assert product.shape == (6, 5) and product.layout.attrs == (S(0), P("sum"))
    with pytest.raises(TypeRuleError, match="hold partial values"):
        ops.infer("exp", product)
    assert ops.infer("add", product, product) == product
    assert ops.infer("mul", product, tensor(())) == product


def test_views_take_their_axes_along(ops):
    assert attrs_of(ops.infer("transpose", X)) == ((4, 2, 2, 3), (S(2), S(0)))
    assert attrs_of(ops.infer("reshape", X, new_shape=(2, 3, 8))) == ((2, 3, 4, 2), (S(0), S(2)))


@pytest.mark.parametrize(
    ("op", "operands", "attrs", "shape", "expected"),
    [
        ("slice", 1, {"starts": (0, 2), "sizes": (6, 4)}, (6, 4), ((2, 3, 4), (S(0), B()))),
        ("concat", 2, {"axis": 1}, (6, 16), ((2, 3, 16), (S(0), B()))),
        ("stack", 2, {"axis": 0}, (2, 6, 8), ((2, 2, 3, 8), (S(1), B()))),
        ("repeat_interleave", 1, {"repeats": 2, "axis": 1}, (6, 16), ((2, 3, 16), (S(0), B()))),
        ("argmax", 1, {}, (6,), ((2, 3), (S(0), B()))),
    ],
)
def test_ops_along_a_whole_axis_keep_the_others_split(ops, op, operands, attrs, shape, expected):
    result = ops.infer(op, *[WHOLE_COLUMNS] * operands, **attrs)
    assert result.shape == shape and attrs_of(result) == expected
    if op != "stack":
        with pytest.raises(
            TypeRuleError, match=r"axis 1 is split over t; use tf\.reshard to make that axis whole"
        ):
            ops.infer(op, *[X] * operands, **attrs)


def test_pairs_and_rows_keep_the_others_split(ops):
    for part in ops.infer("split", WHOLE_COLUMNS, axis=1, num_splits=2).elements:
        assert part.shape == (6, 4) and attrs_of(part) == ((2, 3, 4), (S(0), B()))
    values, indices = ops.infer("topk", WHOLE_COLUMNS, k=3).elements
    assert attrs_of(values) == attrs_of(indices) == ((2, 3, 3), (S(0), B()))
    picked = ops.infer("index_select", WHOLE_COLUMNS, TensorType((5, 2), "i64"), dim=1)
    assert picked.shape == (6, 5, 2) and attrs_of(picked) == ((2, 3, 5, 2), (S(0), B()))
    window = ops.infer(
        "insert_slice", WHOLE_COLUMNS, tensor((6, 2), shard((2, 3, 2), S(0), B()), "rmem"), offsets=(0, 1)
    )
    assert attrs_of(window) == ((2, 3, 8), (S(0), B()))
    codes, scales = ops.infer("quant", WHOLE_COLUMNS, group=4, target_dtype="i8").elements
    assert attrs_of(codes) == ((2, 3, 8), (S(0), B())) and attrs_of(scales) == ((2, 3, 2), (S(0), B()))


def test_strides_keep_the_form_of_the_source(ops):
    own = tensor((6, 8), shard((2, 3, 8), S(0), B(), strides=(0, 8, 1)), "rmem")
    assert ops.infer("slice", own, starts=(0, 0), sizes=(6, 4)).layout.strides == (0, 4, 1)
    shared = tensor((6, 8), shard((2, 3, 8), S(0), B(), strides=(24, 8, 1)), "gmem")
    assert ops.infer("slice", shared, starts=(0, 0), sizes=(6, 4)).layout.strides == (12, 4, 1)


def test_ops_on_one_instances_part_stay_there(ops):
    part = tensor((1, 3, 1, 2), Instances(MESH), "rmem")
    assert ops.infer("exp", part) == part
    assert ops.infer("reduce", part, axes=(1,), kind="sum").layout == Instances(MESH)
    assert ops.infer("concat", part, part, axis=3).layout == Instances(MESH)
    assert ops.infer("mul", part, tensor(())).layout == Instances(MESH)
    pair = ops.infer("topk", part, k=1)
    assert isinstance(pair, TupleType) and all(t.layout == Instances(MESH) for t in pair.elements)


@pytest.mark.parametrize(
    ("op", "types", "attrs", "message"),
    [
        ("add", (X, WHOLE_COLUMNS), {}, "operands are laid out differently"),
        ("add", (X, tensor((6, 8), shard((6, 4, 2), S(1), mesh=OTHER), "rmem")), {}, "laid out differently"),
        ("mul", (X, tensor((8,), shard((2, 4), S(0), B()), "rmem")), {}, "axis 0 is split over b"),
        (
            "concat",
            (WHOLE_COLUMNS, tensor((6, 8), shard((6, 8), B(), B()), "rmem")),
            {"axis": 1},
            "laid out differently",
        ),
        ("index_add", (X, TensorType((6,), "i32"), X), {}, "axis 0 is split over b"),
        ("neg", (tensor((6, 8), shard((6, 8), P("max"), B()), "rmem"),), {}, "hold partial values"),
        (
            "slice",
            (tensor((6, 8), shard((6, 8), P("sum"), B())),),
            {"starts": (0, 0), "sizes": (6, 4)},
            "hold partial",
        ),
        (
            "add",
            (tensor((1, 3, 1, 2), Instances(MESH)), tensor((1, 3, 1, 2), shard((1, 3, 1, 2), B(), B()))),
            {},
            "use tf.local on it too",
        ),
    ],
)
def test_refusals(ops, op, types, attrs, message):
    with pytest.raises(TypeRuleError, match=message):
        ops.infer(op, *types, **attrs)
