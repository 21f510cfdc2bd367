"""Forms that generated programs do not reach. Oracle: equality of the IR after reading back."""

from __future__ import annotations

import pytest
from programs import read_back

from tilefoundry.inspection import as_script
from tilefoundry.ir.core.module import Module

SOURCE = """
from tilefoundry.dsl import *
from tilefoundry.ir.types.shard import *
from tilefoundry.ir.layout import Swizzle
N = DimVar("N", 1, 9)
M = Mesh((Topology("cta", 2), Topology("thread", 128)), (2, 4, 32), ("x", "y", "t"))

@func
def part(
    a: Tensor[(4, 64), "f32", ((4 @ M.y, 64), {M.t @ P("sum")}), "smem"],
) -> Tensor[(4, 64), "f32", ((4 @ M.y, 64), {M.t @ P("sum")}), "smem"]:
    return a

@func
def swz(a: Tensor[(8, 64), "bf16", ComposedLayout(Swizzle(3, 3, 3), 0, Layout((8, 64))), "smem"]):
    b = tf.reshard(a, Layout((8, 64), (64, 1)), "gmem")
    return b

@func
def local(a: Tensor[(4, 64), "f32"]):
    with M as m:
        h = tf.local(tf.reshard(a, (4 @ m.y, 64), "rmem"))
        o = tf.reshard(h * 2.0, (4 @ m.y, 64), "gmem")
    return o

@func
def sub(a: Tensor[(4, 64), "f32"]):
    with M[0, 1:3] as m:
        h = tf.reshard(a, (2, 2 @ m.y, 64), "rmem")
    return h

@func
def tiles(x: Tensor[(N * 4 + 2, 8), "f32"], n: Tensor[(N,), "f32"]) -> Tensor[(N * 4 + 2, 8), "f32"]:
    out = tf.zeros(Tensor[(N * 4 + 2, 8), "f32"])
    with Mesh(("cta",), (ceildiv(N * 4 + 2, 4),), ("b",)) as c:
        for i in tile(N * 4 + 2, 4, over=c.b):
            out = tf.insert_slice(out, tf.exp(x[i, :]), (i.start, 0))
    return out

@func
def cut(x: Tensor[(N, 64), "f32"]) -> Tensor[(N, 64), "f32"]:
    out = tf.zeros(Tensor[(N, 64), "f32"])
    with Mesh(("cta", "thread"), (8, 4, 32), ("b", "w", "t")) as c:
        for i in tile(N, 4, over=c.b):
            row = tf.exp(tf.reshard(x[i], (4 @ c.w, 64 @ c.t), "rmem"))
            out = tf.insert_slice(out, tf.reshard(row, (4, 64), "gmem"), (i, 0))
    return out

@func
def dyn(x: Tensor[(N, 8), "f32"], p: Tensor[(), "i32"]):
    a = x[p, :]
    b = x[0:1, 2:6]
    c, d = tf.topk(x, k=2, axis=-1)
    e = tf.full_like(x, 0.5)
    return a, b, c, d, e

@func(topologies=(Topology("cta", persistent), Topology("thread", 64)))
def top(x: Tensor[(N, 8), "f32"]):
    with Mesh(("cta", "thread"), (persistent, 2, 32), ("b", "w", "t")) as m:
        y = tf.reshard(x, (N, 8 @ m.w), "rmem")
    return tf.prefetch(y)

@module
class OnlyMethods:
    def forward(self, x):
        return x

@module(entry="f")
class Deep:
    @module
    class a:
        @module(entry="g")
        class b:
            @func
            def g(x: Tensor[(N, 8), "f32"], w: ConstTensor[(8,), "f32"]):
                return x * w
    @func
    def f(x: Tensor[(N, 8), "f32"]):
        return a.b.g(a.b(x))
"""

NAMES = read_back(SOURCE)


@pytest.mark.parametrize(
    "name", ["part", "swz", "local", "sub", "tiles", "dyn", "top", "OnlyMethods", "Deep"]
)
def test_a_special_form_reads_back_equal(name: str) -> None:
    text = as_script(NAMES[name])
    back = read_back(text)[name]
    assert back == NAMES[name], text
    assert as_script(back) == text


def test_persistent_is_spelled_by_name() -> None:
    assert isinstance(NAMES["top"], Module)
    text = as_script(NAMES["top"])
    assert 'topologies=(Topology("cta", persistent), Topology("thread", 64))' in text
    assert 'DimVar("persistent"' not in text


def test_a_tile_spells_its_window_through_its_variable() -> None:
    text = as_script(NAMES["tiles"])
    assert "for i in tile(N * 4 + 2, 4, over=c.b):" in text
    assert "starts=(i.start, 0), sizes=(i.extent, 8)" in text


def test_a_layout_is_written_over_the_axes_of_its_scope_where_that_says_all() -> None:
    """Oracle: the written text; strides of the author's own keep the record."""
    source = """
from tilefoundry.dsl import *
from tilefoundry.ir.types.shard import *

@func(topologies=(Topology("cta", 4), Topology("thread", 32)))
def f(x: Tensor[(4, 64), "f32"]) -> Tensor[(4, 64), "f32"]:
    with Mesh(("cta", "thread"), (4, 32), ("b", "t")) as m:
        own = tf.reshard(x, (4 @ m.b, 64 @ m.t), "rmem")
        apart = tf.reshard(own, ShardLayout(Layout((4, 64), (128, 1)), (Split(0), Broadcast()), m), "gmem")
    return apart
"""
    text = as_script(read_back(source)["f"])
    assert 'own = tf.reshard(x, layout=(4 @ m.b, 32 @ m.t, 2), storage="rmem")' in text
    assert "apart = tf.reshard(own, layout=ShardLayout(Layout((4, 64), strides=(128, 1)), " in text
    assert as_script(read_back(text)["f"]) == text
