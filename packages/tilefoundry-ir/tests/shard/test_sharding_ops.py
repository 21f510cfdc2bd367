"""reshard and local in programs. Oracle: torch indexing of the global value, instance by instance."""

from __future__ import annotations

from itertools import product
from typing import Any

import pytest
import torch
from programs import read_back

from tilefoundry.evaluator import evaluate
from tilefoundry.ir.core.expr import Var
from tilefoundry.ir.errors import DslError, EvaluationError, TypeRuleError
from tilefoundry.ir.hir import HIR_OPS
from tilefoundry.ir.types import StorageKind, TensorType
from tilefoundry.ir.types.shard import Instances, Mesh, P, Topology, layout_from_sugar

M = Mesh((Topology("cta", 2), Topology("thread", 8)), (2, 4, 2), ("x", "y", "t"))


def call(op: str, type_: TensorType, **attrs: Any) -> TensorType:
    return HIR_OPS[op].call((Var(type_, "v"),), attrs).type  # type: ignore[return-value]  # one tensor


def sharded(shape: tuple, written: Any, storage: str = "rmem") -> TensorType:
    return TensorType(shape, "f32", layout_from_sugar(shape, written), storage)


@pytest.mark.spec("shard.strides-by-direction")
def test_reshard_settles_strides_by_direction_and_keeps_the_shape() -> None:
    x = TensorType((2, 48), "f32")
    down = call("reshard", x, layout=(2 @ M.x, 12 @ M.y, 4), storage="rmem")
    assert down.shape == (2, 48)
    assert down.storage is StorageKind.RMEM
    assert down.layout.strides == (0, 0, 4, 1)
    up = call("reshard", down, layout=(2 @ M.x, 12 @ M.y, 4), storage="gmem")
    assert up.layout.strides == (48, 12, 4, 1)
    again = call("reshard", down, layout=(2 @ M.x, 4 @ M.y, 12))
    assert again.storage is StorageKind.RMEM
    assert again.layout.owns_engines


@pytest.mark.spec("shard.refused")
def test_reshard_refuses_what_it_cannot_mean() -> None:
    x = TensorType((4, 8), "f32", None, "gmem")
    with pytest.raises(TypeRuleError, match=r"from gmem to rmem needs layout="):
        call("reshard", x, storage="rmem")
    with pytest.raises(TypeRuleError, match="has 16 elements"):
        call("reshard", x, layout=(2 @ M.x, 8), storage="rmem")
    with pytest.raises(TypeRuleError, match="holds no partial sum over t"):
        call("reshard", x, layout=((4, 8), {M.t @ P("sum")}), storage="rmem")
    with pytest.raises(TypeRuleError, match="unknown storage 'registers'"):
        call("reshard", x, layout=(4, 8), storage="registers")


def test_local_gives_one_instance_and_is_refused_without_a_mesh() -> None:
    part = call("local", sharded((2, 48), (2 @ M.x, 12 @ M.y, 4)))
    assert (part.shape, part.layout) == ((1, 1, 3, 4), Instances(M))
    with pytest.raises(TypeRuleError, match="which no mesh distributes"):
        call("local", TensorType((4,), "f32"))
    with pytest.raises(TypeRuleError, match="partial or dynamic values have no parts"):
        call("local", sharded((4, 8), ((4 @ M.y, 8), {M.t @ P("sum")})))


SOURCE = """
from tilefoundry.dsl import *

@func
def there_and_back(x: Tensor[(2, 48), "f32"], scale: Tensor[(4,), "f32"]) -> Tensor[(2, 4, 3, 4), "f32"]:
    with Mesh(("cta", "thread"), (2, 4, 2), ("x", "y", "t")) as m:
        held = tf.reshard(x, (2 @ m.x, 12 @ m.y, 4), "rmem")
        part = tf.local(held)
        total = tf.reduce(part, axes=(2,), keepdim=True, kind="sum")
        out = tf.reshard(part * scale - total, (2 @ m.x, 4 @ m.y, 3, 4), "gmem")
    return out

@func
def reduced(x: Tensor[(4, 6), "f32"]) -> Tensor[(6,), "f32"]:
    with Mesh(("cta",), (4,), ("b",)) as m:
        part = tf.local(tf.reshard(x, (4 @ m.b, 6), "rmem"))
        row = tf.reshape(part * part, (6,))
        out = tf.reshard(row, ((6,), {m.b @ P("sum")}), "rmem")
        done = tf.reshard(out, (6,), "gmem")
    return done
"""


@pytest.mark.spec("shard.values")
def test_an_instance_computes_on_its_own_part_and_the_fold_puts_parts_back() -> None:
    names = read_back(SOURCE)
    x, scale = torch.randn(2, 48), torch.randn(4)
    got = evaluate(names["there_and_back"], x, scale)
    parts = x.reshape(2, 4, 3, 4)
    want = torch.empty(2, 4, 3, 4)
    for i, j in product(range(2), range(4)):
        own = parts[i, j]
        want[i, j] = own * scale - own.sum(0, keepdim=True)
    torch.testing.assert_close(got, want)


@pytest.mark.spec("shard.values")
def test_partial_values_fold_to_their_reduction() -> None:
    names = read_back(SOURCE)
    x = torch.randn(4, 6)
    torch.testing.assert_close(evaluate(names["reduced"], x), (x * x).sum(0))


COPIES = """
from tilefoundry.dsl import *
from tilefoundry.ir.types.shard import Layout, ShardLayout

MESH = Mesh(("cta",), (4,), ("b",))
COPY = ShardLayout(Layout((6,)), (B(),), MESH)

@func
def copies(x: Tensor[({rows}, 6), "f32"]) -> Tensor[(6,), "f32"]:
    with MESH as m:
        part = tf.local(tf.reshard(x, {written}, "rmem"))
        return_ = tf.reshard(tf.reshape(part, (6,)), COPY, "gmem")
    return return_
"""


def test_copies_must_agree() -> None:
    different = read_back(COPIES.format(rows=4, written="(4 @ m.b, 6)"))["copies"]
    with pytest.raises(EvaluationError, match="the instances hold different values"):
        evaluate(different, torch.arange(24.0).reshape(4, 6))
    row = torch.randn(6)
    torch.testing.assert_close(evaluate(different, row.expand(4, 6).contiguous()), row)


def test_a_fold_needs_the_mesh_and_the_local_shape() -> None:
    part = TensorType((1, 12), "f32", Instances(M), "rmem")
    with pytest.raises(TypeRuleError, match="needs a layout over the same mesh"):
        call("reshard", part, layout=(1, 12), storage="gmem")
    with pytest.raises(TypeRuleError, match=r"one instance holds \(1, 12\), but under .* it holds \(1, 6\)"):
        call("reshard", part, layout=(2 @ M.x, 6), storage="gmem")


@pytest.mark.spec("shard.local-stays")
def test_what_one_instance_holds_is_neither_returned_nor_passed_on() -> None:
    head = "from tilefoundry.dsl import *\n\n@func\ndef g(v: Tensor[(1, 2, 6), 'f32']): return v * 2.0\n\n"
    body = (
        "@func\ndef f(x: Tensor[(4, 6), 'f32']):\n"
        "    with Mesh('cta', (2,), ('b',)) as m:\n"
        "        part = tf.local(tf.reshard(x, (4 @ m.b, 6), 'rmem'))\n"
        "    return {}\n"
    )
    for written in ("part", "(x, part)", "tf.exp(part)"):
        with pytest.raises(DslError, match=r"what one instance holds; fold it back with tf\.reshard"):
            read_back(head + body.format(written))
    with pytest.raises(DslError, match=r"g: v got .* what one instance holds"):
        read_back(head + body.format("g(part)"))
