"""Placements that are not followed are refused, and the message names the value and the way out."""

from __future__ import annotations

import pytest

from tilefoundry import func, lower
from tilefoundry.codegen.cuda.authored import NotFollowed, PlacementWarning
from tilefoundry.dsl import DimVar, Mesh, S, Tensor, Topology, tf, tile
from tilefoundry.ir.errors import LoweringError
from tilefoundry.ir.layout import Swizzle
from tilefoundry.ir.types.shard import ComposedLayout, Layout, ShardLayout
from tilefoundry.target import CudaTarget

H200 = CudaTarget("nvidia.h200_sxm")
M = DimVar("M", 1, 5000)
LEVELS = (Topology("cta", 2), Topology("thread", 32))


def refused(program, message):
    with pytest.raises(NotFollowed, match=message) as caught:
        lower(program, target=H200)
    assert isinstance(caught.value, LoweringError)


def test_a_result_that_stays_in_registers():
    @func(topologies=LEVELS)
    def kept(x: Tensor[(2, 64), "f32"]) -> Tensor[(2, 64), "f32"]:
        with Mesh(("cta", "thread"), (2, 32), ("b", "t")) as m:
            out = tf.reshard(x, (2 @ m.b, 64 @ m.t), "rmem")
        return out

    refused(kept, r"out leaves its scope, but lies in rmem; end with tf.reshard\(x, shape, \"gmem\"\)")


def test_more_registers_than_an_instance_has():
    @func(topologies=LEVELS)
    def large(x: Tensor[(2, 65536), "f32"]) -> Tensor[(2, 65536), "f32"]:
        with Mesh(("cta", "thread"), (2, 32), ("b", "t")) as m:
            a = tf.reshard(x, (2 @ m.b, 65536), "rmem")
            out = tf.reshard(a, (2 @ m.b, 65536), "gmem")
        return out

    refused(large, r"large.a: an instance would hold 65536 elements .* distribute it over more instances")


def test_more_shared_memory_than_a_block_has():
    @func(topologies=LEVELS)
    def large(x: Tensor[(2, 65536), "f32"]) -> Tensor[(2, 65536), "f32"]:
        with Mesh(("cta", "thread"), (2, 32), ("b", "t")) as m:
            s = tf.reshard(x, (2 @ m.b, 65536 @ m.t), "smem")
            out = tf.reshard(s, (2 @ m.b, 65536 @ m.t), "gmem")
        return out

    refused(large, r"s: with it a block takes 262144 bytes of shared memory, at most 221184")


def test_a_value_without_a_place():
    @func(topologies=LEVELS)
    def nowhere(x: Tensor[(2, 64), "f32"]) -> Tensor[(2, 64), "f32"]:
        with Mesh(("cta", "thread"), (2, 32), ("b", "t")) as m:
            y = x + 1.0
            total = tf.reduce(y, axes=(1,), keepdim=True, kind="sum")
            a = tf.reshard(x, (2 @ m.b, 64 @ m.t), "rmem")
            out = tf.reshard(a * total, (2 @ m.b, 64 @ m.t), "gmem")
        return out

    refused(nowhere, r"total reads y, which has no place; bring it to registers")


def test_an_op_without_a_placed_form():
    @func(topologies=LEVELS)
    def joined(x: Tensor[(2, 64), "f32"]) -> Tensor[(2, 128), "f32"]:
        with Mesh(("cta", "thread"), (2, 32), ("b", "t")) as m:
            a = tf.reshard(x, (2 @ m.b, 64), "rmem")
            out = tf.reshard(tf.concat(a, a, axis=1), (2 @ m.b, 128), "gmem")
        return out

    refused(
        joined, r"= tf.concat\(...\) has no lowering in a hand-placed scope; call it outside of the scope"
    )


def test_a_sub_mesh():
    @func(topologies=LEVELS)
    def part(x: Tensor[(2, 64), "f32"]) -> Tensor[(2, 64), "f32"]:
        with Mesh(("cta", "thread"), (2, 32), ("b", "t"))[0:1] as _m:
            a = tf.reshard(x, (2, 64), "rmem")
            out = tf.reshard(a, (2, 64), "gmem")
        return out

    refused(part, r"is a sub-mesh; open the scope over the whole mesh")


def test_threads_that_would_meet_in_turns_of_their_own():
    @func(topologies=LEVELS)
    def uneven(x: Tensor[(M, 64), "f32"]) -> Tensor[(M, 1), "f32"]:
        y = tf.zeros(Tensor[(M, 1), "f32"])
        with Mesh(("cta", "thread"), (2, 32), ("b", "t")) as m:
            for i in tile(M, 1, over=m.t):
                s = tf.reshard(x[i, :], (1, 64), "smem")
                r = tf.reshard(s, (1, 64), "rmem")
                total = tf.reduce(r, axes=(1,), keepdim=True, kind="sum")
                y = tf.insert_slice(y, tf.reshard(total, (1, 1), "gmem"), (i, 0))
        return y

    refused(
        uneven, r"threads would have to meet inside the loop over i, which hands its tiles to threads in turn"
    )


def test_a_read_of_what_was_overwritten():
    @func(topologies=LEVELS)
    def late(x: Tensor[(2, 64), "f32"]) -> tuple[Tensor[(4, 64), "f32"], Tensor[(1, 64), "f32"]]:
        with Mesh(("cta", "thread"), (2, 32), ("b", "t")) as m:
            a = tf.reshard(x, (2, 64 @ m.t), "rmem")
            y = tf.zeros(Tensor[(4, 64), "f32"])
            first = tf.reshard(x[0:1, :], (1, 64 @ m.t), "rmem")
            for i in tile(4, 2):
                old = y[0:1, :]
                y = tf.insert_slice(y, tf.reshard(a, (2, 64), "gmem"), (i, 0))
                first = first + tf.reshard(old, (1, 64 @ m.t), "rmem")
            out = tf.reshard(first, (1, 64 @ m.t), "gmem")
        return y, out

    refused(late, r"\w+ reads old after a window of it was replaced in place")


def test_a_window_at_a_value():
    @func(topologies=LEVELS)
    def moved(x: Tensor[(8, 64), "f32"], at: Tensor[(), "i32"]) -> Tensor[(2, 64), "f32"]:
        with Mesh(("cta", "thread"), (2, 32), ("b", "t")) as m:
            a = tf.reshard(x[at : at + 2, :], (2 @ m.b, 64 @ m.t), "rmem")
            out = tf.reshard(a, (2 @ m.b, 64 @ m.t), "gmem")
        return out

    refused(moved, r"its window starts at the value at; .* take the window outside of the scope")


def test_levels_without_extents():
    @func
    def unknown(x: Tensor[(2, 64), "f32"]) -> Tensor[(2, 64), "f32"]:
        with Mesh(("cta", "thread"), (2, 32), ("b", "t")) as m:
            a = tf.reshard(x, (2 @ m.b, 64 @ m.t), "rmem")
            out = tf.reshard(a, (2 @ m.b, 64 @ m.t), "gmem")
        return out

    refused(
        unknown, r"the mesh uses the level 'cta'; levels in force: none; declare topologies= with .*Mesh\("
    )


def test_a_swizzle_is_dropped_with_a_warning_that_says_so():
    mesh = Mesh(("cta", "thread"), (2, 32), ("b", "t"))
    plain = Layout((2, 32, 8), (0, 8, 1))
    swizzled = ShardLayout(ComposedLayout(Swizzle(2, 0, 3), 0, plain), (S(0), S(1)), mesh)

    @func(topologies=LEVELS)
    def staged(x: Tensor[(2, 256), "f32"]) -> Tensor[(2, 256), "f32"]:
        with mesh as m:
            s = tf.reshard(x, swizzled, "smem")
            r = tf.reshard(s, (2 @ m.b, 256 @ m.t), "rmem")
            out = tf.reshard(r, (2 @ m.b, 256 @ m.t), "gmem")
        return out

    with pytest.warns(
        PlacementWarning, match="staged.s: the swizzle of its shared memory is dropped"
    ) as seen:
        lower(staged, target=H200)
    assert {warning.filename for warning in seen} == {__file__}
