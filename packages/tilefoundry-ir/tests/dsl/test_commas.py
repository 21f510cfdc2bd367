"""One entry without the comma that makes it a tuple. Oracle: the message shows the entry with its comma."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest

from tilefoundry import func, prim_func
from tilefoundry.dsl import DimVar, Mesh, T, Tensor, Topology, tf
from tilefoundry.ir.types import DType, TensorType
from tilefoundry.ir.types.shard import Layout, make_mesh

N = DimVar("N", 1, 9)
LEVELS = (Topology("cta", 4), Topology("thread", 32))


def shape() -> None:
    @func
    def f(x: Tensor[(4), "f32"]) -> Tensor[(4,), "f32"]:
        return x


def result() -> None:
    @func
    def f(x: Tensor[(N,), "f32"]) -> Tensor[(N), "f32"]:
        return x


def layout() -> None:
    @func
    def f(x: Tensor[(4,), "f32", (4)]) -> Tensor[(4,), "f32"]:
        return x


def split() -> None:
    @func(topologies=LEVELS)
    def f(x: Tensor[(32,), "f32"]) -> Tensor[(32,), "f32"]:
        with Mesh(("thread",), (32,), ("t",)) as m:
            return tf.reshard(tf.reshard(x, (32 @ m.t), "rmem"), (32,), "gmem")


def reshard() -> None:
    @func(topologies=LEVELS)
    def f(x: Tensor[(32,), "f32"]) -> Tensor[(32,), "f32"]:
        with Mesh(("thread",), (32,), ("t",)) as m:
            return tf.reshard(tf.reshard(x, (32 @ m.t,), "rmem"), (32), "gmem")


def mesh_in_a_scope() -> None:
    @func(topologies=LEVELS)
    def f(x: Tensor[(32,), "f32"]) -> Tensor[(32,), "f32"]:
        with Mesh(("thread",), (32), ("t",)) as m:
            return tf.reshard(tf.reshard(x, (32 @ m.t,), "rmem"), (32,), "gmem")


def inner_shape() -> None:
    @func
    def f(x: Tensor[(4,), "f32"]) -> Tensor[(4,), "f32"]:
        return x + tf.zeros(Tensor[(4), "f32"])


def buffer() -> None:
    @prim_func
    def f(x: Tensor[(4,), "f32"], y: Tensor[(4,), "f32"]):
        held = T.alloc_tensor(Tensor[(4), "f32"])
        T.copy(x, held)
        T.copy(held, y)


def view_shape() -> None:
    @prim_func
    def f(x: Tensor[(4,), "f32"], y: Tensor[(4,), "f32"]):
        T.copy(T.tensor_view(x, (4), (1,), 0), y)


def view_strides() -> None:
    @prim_func
    def f(x: Tensor[(4,), "f32"], y: Tensor[(4,), "f32"]):
        T.copy(T.tensor_view(x, (4,), (1), 0), y)


CASES: dict[Callable[[], object], str] = {
    shape: "a shape is a tuple of extents, got 4; a tuple of one entry has a comma: (4,)",
    result: "a shape is a tuple of extents, got N; a tuple of one entry has a comma: (N,)",
    layout: "a layout is a tuple of extents, or a layout record, got 4; a tuple of one entry has a comma: (4,)",
    split: "got 32 @ t; a tuple of one entry has a comma: (32 @ t,)",
    reshard: "tf.reshard: a layout is a tuple of extents, or a layout record, got 32;",
    mesh_in_a_scope: "a Mesh's axes are a tuple of extents, got 32; a tuple of one entry has a comma: (32,)",
    inner_shape: "has a comma: (4,)",
    buffer: "has a comma: (4,)",
    view_shape: "T.tensor_view: shape is a tuple of extents, got 4; a tuple of one entry has a comma: (4,)",
    view_strides: "strides are a tuple with one entry per extent, got 1; a tuple of one entry has a comma: (1,)",
}


@pytest.mark.spec("dsl.commas")
@pytest.mark.parametrize("define", CASES, ids=lambda define: define.__name__)
def test_a_definition_shows_the_comma(define):
    with pytest.raises(SyntaxError, match=re.escape(CASES[define])):
        define()


@pytest.mark.spec("dsl.commas")
@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: TensorType((4), DType.f32), r"a shape is a tuple of extents, got 4; .* comma: \(4,\)"),
        (lambda: Layout((4), (1,)), r"Layout: shape is a tuple .* got 4; .* comma: \(4,\)"),
        (lambda: Layout((4,), (1)), r"Layout: strides is a tuple .* got 1; .* comma: \(1,\)"),
        (lambda: Mesh(LEVELS[1:], (32), ("t",)), r"a Mesh's axes .* comma: \(32,\)"),
        (lambda: make_mesh(LEVELS[1:], (32)), r"a Mesh's axes .* comma: \(32,\)"),
        (lambda: make_mesh(7), "make_mesh: levels are Topology objects, got 7"),
        (lambda: TensorType(None, DType.f32), r"a shape is a tuple of extents, got None$"),
        (lambda: TensorType({4}, DType.f32), r"a shape is a tuple of extents, got \{4\}$"),
    ],
)
def test_records_show_the_comma(make, message):
    with pytest.raises(TypeError, match=message):
        make()


@pytest.mark.spec("dsl.commas")
def test_one_level_or_name_may_stand_bare():
    """Oracle: the mesh with tuples."""
    wanted = make_mesh(LEVELS[1:], (32,), ("t",))
    assert make_mesh(LEVELS[1], (32,), "t") == Mesh(LEVELS[1], (32,), "t") == wanted
