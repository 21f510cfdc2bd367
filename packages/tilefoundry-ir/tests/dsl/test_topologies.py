"""topologies= and target= on functions and modules, and Mesh scopes."""

# ruff: noqa: F841
# The programs in this file are DSL source, written as a user writes them.
from __future__ import annotations

import pytest
import torch

from tilefoundry.dsl import ConstTensor, DimVar, Mesh, P, Tensor, Topology, func, module, tf, tile
from tilefoundry.evaluator import evaluate
from tilefoundry.ir.core.expr import For, MeshScope
from tilefoundry.ir.core.module import Module
from tilefoundry.ir.errors import DslError
from tilefoundry.ir.types.shard import Broadcast, Partial, ShardLayout, Split
from tilefoundry.target import CpuTarget

N = DimVar("N", 1, 100)
M = DimVar("M", 1, 4096)
CTA = Topology("cta", 8)
THREAD = Topology("thread", 32)


@pytest.mark.spec("dsl.implicit-module")
def test_a_standalone_function_with_topologies_is_a_module_of_one_function():
    @func(topologies=(CTA,))
    def f(x: Tensor[(N,), "f32"]) -> Tensor[(N,), "f32"]:
        return x + 1.0

    assert isinstance(f, Module)
    assert (f.name, f.entry, f.topologies, f.target) == ("f", "f", (CTA,), None)


@pytest.mark.spec("dsl.implicit-module")
def test_a_standalone_function_with_a_target_is_a_module_of_one_function():
    target = CpuTarget()

    @func(target=target)
    def f(x: Tensor[(N,), "f32"]) -> Tensor[(N,), "f32"]:
        return x + 1.0

    assert isinstance(f, Module) and f.target is target and f.topologies is None


def test_bare_parentheses_change_nothing():
    @func()
    def f(x: Tensor[(N,), "f32"]) -> Tensor[(N,), "f32"]:
        return x + 1.0

    assert not isinstance(f, Module)


@pytest.mark.spec("dsl.implicit-module")
def test_inside_a_class_it_is_a_child_module_called_with_activations():
    @module(entry="main")
    class M:
        @func(topologies=(CTA,))
        def kernel(x: Tensor[(N,), "f32"], w: ConstTensor[(N,), "f32"]) -> Tensor[(N,), "f32"]:
            return x * w

        @func
        def main(x: Tensor[(N,), "f32"]) -> Tensor[(N,), "f32"]:
            return kernel(x)

    assert [child.name for child in M.modules] == ["kernel"]
    assert M.child("kernel").topologies == (CTA,)
    (bind,) = M.lookup("main").stmts()
    assert bind.value.path == ("kernel", "kernel")


def test_a_target_inside_a_class_is_refused():
    with pytest.raises(DslError, match="declares a target inside a class; only the root module declares one"):

        @module
        class M:
            @func(target=CpuTarget())
            def f(x: Tensor[(N,), "f32"]) -> Tensor[(N,), "f32"]:
                return x


def test_module_declares_target_and_topologies():
    target = CpuTarget()

    @module(entry="f", target=target, topologies=(CTA, THREAD))
    class M:
        @func
        def f(x: Tensor[(N,), "f32"]) -> Tensor[(N,), "f32"]:
            return x + 1.0

    assert M.target is target and M.topologies == (CTA, THREAD)


@pytest.mark.spec("dsl.topologies-first")
def test_topologies_are_known_before_the_body_is_read():
    with pytest.raises(DslError, match="the mesh uses the level 'warp'; levels in force: cta, thread"):

        @module(topologies=(CTA, THREAD))
        class M:
            @func
            def f(x: Tensor[(N,), "f32"]) -> Tensor[(N,), "f32"]:
                with Mesh(("warp",), (4,), ("w",)) as c:
                    y = x + 1.0
                return y


@pytest.mark.spec("dsl.topologies-first")
def test_nested_classes_look_outward_and_empty_topologies_stop_the_look():
    @module(topologies=(CTA,))
    class Outer:
        @module
        class inherits:
            @func
            def f(x: Tensor[(N,), "f32"]) -> Tensor[(N,), "f32"]:
                with Mesh(("cta",), (8,), ("b",)) as c:
                    y = x + 1.0
                return y

        @module(topologies=(THREAD,))
        class replaces:
            @func
            def f(x: Tensor[(N,), "f32"]) -> Tensor[(N,), "f32"]:
                with Mesh(("thread",), (32,), ("t",)) as c:
                    y = x + 1.0
                return y

    assert [child.effective_topologies() for child in Outer.modules] == [(CTA,), (THREAD,)]
    with pytest.raises(DslError, match="levels in force: none"):

        @module(topologies=(CTA,))
        class Other:
            @module(topologies=())
            class stops:
                @func
                def f(x: Tensor[(N,), "f32"]) -> Tensor[(N,), "f32"]:
                    with Mesh(("cta",), (8,), ("b",)) as c:
                        y = x + 1.0
                    return y


def test_a_mesh_scope_keeps_its_names_visible_and_its_statements_together():
    @func
    def f(x: Tensor[(N,), "f32"]) -> Tensor[(N,), "f32"]:
        with Mesh(("cta",), (8,), ("b",)) as c:
            y = x + 1.0
            z = y * y
        return z + y

    scope = f.body.stmts[0]
    assert isinstance(scope, MeshScope)
    assert (scope.name, scope.mesh, [s.target.name for s in scope.stmts]) == (
        "c",
        Mesh(("cta",), (8,), ("b",)),
        ["y", "z"],
    )
    x = torch.rand(3)
    torch.testing.assert_close(evaluate(f, x), (x + 1) ** 2 + x + 1)


def test_a_mesh_may_be_built_outside_and_by_keyword():
    mesh = Mesh(topologies=("thread",), layout=(32,), names=("t",))

    @func
    def f(x: Tensor[(64,), "f32"]) -> Tensor[(64,), "f32"]:
        with mesh as m:
            return tf.reshard(tf.reshard(x, (64 @ m.t,), "rmem") + 1.0, (64,), "gmem")

    x = torch.rand(64)
    torch.testing.assert_close(evaluate(f, x), x + 1)


def layout_of(function, name: str) -> ShardLayout:
    (found,) = [
        s.target.type.layout for s in function.stmts() if hasattr(s, "target") and s.target.name == name
    ]
    return found


@pytest.mark.spec("dsl.layout-sugar")
def test_extents_split_over_axes():
    @func
    def f(x: Tensor[(16, 64), "f32"]) -> Tensor[(16, 64), "f32"]:
        with Mesh(("cta", "thread"), (8, 2, 16), ("b", "w", "t")) as c:
            r = tf.reshard(x, (16 @ c.b, 64 @ (c.w, c.t)), "rmem")
            return tf.reshard(r, (16, 64), "gmem")

    layout = layout_of(f, "r")
    assert layout.layout.shape == (8, 2, 2, 16, 2)
    assert layout.attrs == (Split(0), Split(2), Split(3))


@pytest.mark.spec("dsl.layout-sugar")
def test_partial_values_are_stated_in_an_outer_set():
    mesh = Mesh(("cta", "thread"), (8, 32), ("b", "t"))

    @func
    def f(
        x: Tensor[(16, 1), "f32", ((16 @ mesh.b, 1), {mesh.t @ P("sum")}), "rmem"],
    ) -> Tensor[(16, 1), "f32"]:
        q = tf.reshard(x, (16 @ mesh.b, 1), "rmem")
        return tf.reshard(q, (16, 1), "gmem")

    assert f.params[0].type.layout.attrs == (Split(0), Partial("sum"))
    assert layout_of(f, "q").attrs == (Split(0), Broadcast())


@pytest.mark.spec("dsl.layout-sugar")
def test_a_split_that_does_not_divide_is_refused(run):
    with pytest.raises(DslError, match="the mesh extent 8 does not divide 12"):
        run(
            """
            @func
            def f(x: Tensor[(12,), "f32"]):
                with Mesh(("cta",), (8,), ("b",)) as c:
                    return tf.reshard(x, (12 @ c.b,), "rmem")
            """
        )


def test_a_signature_declares_a_layout():
    mesh = Mesh(("cta",), (8,), ("b",))

    @func
    def f(x: Tensor[(16, 4), "f32", (16 @ mesh.b, 4), "gmem"]) -> Tensor[(16, 4), "f32"]:
        return tf.reshard(x, (16, 4), "gmem")

    assert f.params[0].type.layout.attrs == (Split(0),)


@pytest.mark.spec("dsl.tiles-over-axes")
def test_tiles_are_handed_to_a_mesh_axis_in_turn():
    @func
    def f(x: Tensor[(N, 4), "f32"]) -> Tensor[(N, 4), "f32"]:
        y = tf.zeros(Tensor[(N, 4), "f32"])
        with Mesh(("cta",), (8,), ("b",)) as c:
            for i in tile(N, 2, over=c.b):
                y = tf.insert_slice(y, x[i, :] + 1.0, (i, 0))
        return y

    (loop,) = [s for s in f.stmts() if isinstance(s, For)]
    assert loop.over == "c.b"
    x = torch.rand(5, 4)
    torch.testing.assert_close(evaluate(f, x), x + 1)


@pytest.mark.spec("dsl.tiles-over-axes")
@pytest.mark.parametrize("rows", [1, 3, 4, 7, 8])
def test_a_tile_that_the_edge_cuts_is_split_over_all_of_its_lanes(rows):
    levels = (Topology("cta", (M + 3) // 4), Topology("thread", 128))

    @func(topologies=levels)
    def norm(x: Tensor[(M, 64), "f32"], w: Tensor[(64,), "f32"]) -> Tensor[(M, 64), "f32"]:
        y = tf.zeros(Tensor[(M, 64), "f32"])
        with Mesh(("cta", "thread"), ((M + 3) // 4, 4, 32), ("b", "w", "t")) as c:
            g = tf.reshard(w, (64 @ c.t,), "rmem")
            for i in tile(M, 4, over=c.b):
                r = tf.reshard(x[i, :], (4 @ c.w, 64 @ c.t), "rmem")
                p = tf.reduce(r * r, axes=(-1,), kind="mean", keepdim=True)
                p = tf.reshard(p, (4 @ c.w, 1), "rmem")
                top = tf.reduce(tf.reshard(x[i, :], (4 @ c.w, 64), "rmem"), axes=(0,), kind="max")
                o = r * tf.rsqrt(p + 1e-6) * g
                y = tf.insert_slice(y, tf.reshard(o, (4, 64), "gmem"), (i, 0))
        return y

    function = norm.lookup("norm")
    (loop,) = [s for s in function.stmts() if isinstance(s, For)]
    kinds = {s.target.name: s.target.type for s in loop.body.stmts}
    assert kinds["r"].shape == (loop.window, 64) and kinds["r"].layout.shape == (4, 32, 2)
    assert kinds["r"].layout.local_shape == (1, 1, 2)
    assert kinds["top"].shape == (1, 64) and kinds["top"].layout.shape == (1, 64)
    x, w = torch.randn(rows, 64), torch.randn(64)
    wanted = x * torch.rsqrt((x * x).mean(-1, keepdim=True) + 1e-6) * w
    torch.testing.assert_close(evaluate(function, x, w), wanted)


@pytest.mark.spec("dsl.tiles-over-axes")
@pytest.mark.parametrize(
    ("statement", "message"),
    [
        (
            "r = tf.reshard(x[i], (4 @ c.w, 32), 'rmem')",
            r"the layout \(4 @ w, 32\) has 128 elements, .* 64, 256 with a whole tile",
        ),
        ("r = tf.reshard(x[i], (3 @ c.w, 64), 'rmem')", "the mesh extent 4 does not divide 3"),
        (
            "r = tf.local(tf.reshard(x[i], (4 @ c.w, 64), 'rmem'))",
            "axis 0 the edge may cut: instances outside hold",
        ),
        ("r = tf.reshard(x, (4 @ c.w, 64), 'rmem')", "has 256 elements, the tensor"),
    ],
)
def test_refused_layouts_of_tiles(run, statement, message):
    with pytest.raises(DslError, match=message):
        run(
            f"""
            M = DimVar("M", 1, 4096)
            @func
            def f(x: Tensor[(M, 64), "f32"]):
                with Mesh(("cta", "thread"), (8, 4, 32), ("b", "w", "t")) as c:
                    for i in tile(M, 4, over=c.b):
                        {statement}
                return x
            """
        )


@pytest.mark.spec("dsl.tiles-over-axes")
def test_a_cta_extent_may_be_a_dim_or_persistent():
    from tilefoundry.dsl import ceildiv

    @func(topologies=(Topology("cta", ceildiv(N, 4)), THREAD))
    def f(x: Tensor[(N,), "f32"]) -> Tensor[(N,), "f32"]:
        return x + 1.0

    assert f.resolve_topology("cta").extent == ceildiv(N, 4)
    assert Topology("cta", "persistent").extent.name == "persistent"


@pytest.mark.parametrize(
    ("statement", "message"),
    [
        ("with x as c: pass", "with opens the scope of a Mesh"),
        ("with open as c: pass", "with opens the scope of a Mesh"),
        ('with Mesh(("cta",), (8,), ("b",)): pass', "name the scope's mesh"),
        ('with Mesh(("cta",), (8,), ("b",)) as (a, b): pass', "name the scope's mesh"),
        ('with Mesh(("cta",), (8,), ("b", "d")) as c: pass', "a Mesh of 1 axes needs 1 names"),
        ('with Mesh(("cta",), (8,), ("b",)) as c: y = 8 @ c.q', "the mesh has no axis 'q'; its axes: b"),
        ('with Mesh(("cta",), (8,), ("b",)) as c: y = 8.0 @ c.b', "splits an int or a dim"),
        ('with Mesh(("cta",), (8,), ("b",)) as c, x as d: pass', "one mesh per with"),
        (
            'with Mesh(("cta",), (8,), ("b",)) as c: x = x\n    for i in tile(16, 4, over=c.b): x = x',
            "belongs to no mesh whose scope is open here",
        ),
    ],
)
def test_refused_scopes(run, statement, message):
    with pytest.raises(DslError, match=message):
        run(
            f"""\
@func
def f(x: Tensor[(16,), "f32"]):
    {statement}
    return x
"""
        )


@pytest.mark.parametrize("value", [3, ("cta",), "cta"])
def test_topologies_are_levels(value):
    with pytest.raises(TypeError, match=r"topologies=...\) takes a tuple"):
        func(topologies=value)
    with pytest.raises(TypeError, match=r"topologies=...\) takes a tuple"):
        module(topologies=value)


@pytest.mark.spec("mesh.axes-to-levels")
def test_axes_that_do_not_divide_among_the_levels_in_force_are_refused_where_they_are_written():
    with pytest.raises(
        DslError, match=r"mesh axes \(4\) do not divide among levels of 8 instances(.|\n)*with Mesh"
    ):

        @func(topologies=(CTA, THREAD))
        def f(x: Tensor[(16,), "f32"]) -> Tensor[(16,), "f32"]:
            with Mesh(("cta",), (4,), ("b",)) as c:
                y = x + 1.0
            return y
