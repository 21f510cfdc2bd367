"""Hand-placed programs of loops that carry memory, of joins over odd numbers of threads, and with names of C++."""

from tilefoundry import func
from tilefoundry.dsl import DimVar, Mesh, Tensor, Topology, tf, tile
from tilefoundry.ir.core.module import Module

M = DimVar("M", 1, 5000)


def CTA(n):
    return Topology("cta", n)


def TH(n):
    return Topology("thread", n)


@func(topologies=(CTA(2), TH(32)))
def iterated(x: Tensor[(2, 64), "f32"]) -> Tensor[(2, 64), "f32"]:
    with Mesh(("cta", "thread"), (2, 32), ("b", "t")) as m:
        y = tf.reshard(x, (2, 64), "gmem")
        for _k in range(5):
            own = tf.reshard(y, (2 @ m.b, 64 @ m.t), "rmem")
            every = tf.reshard(y, (2, 64 @ m.t), "rmem")
            total = tf.reduce(every, axes=(0,), keepdim=True, kind="mean")
            y = tf.reshard(own * 0.5 + total, (2, 64), "gmem")
        out = tf.reshard(tf.reshard(y, (2 @ m.b, 64 @ m.t), "rmem"), (2 @ m.b, 64 @ m.t), "gmem")
    return out


@func(topologies=(CTA(2), TH(128)))
def extremes(
    x: Tensor[(2, 256), "bf16"],
) -> tuple[Tensor[(2, 1), "bf16"], Tensor[(2, 1), "bf16"], Tensor[(2, 1), "bf16"]]:
    with Mesh(("cta", "thread"), (2, 128), ("b", "t")) as m:
        a = tf.reshard(x, (2 @ m.b, 256 @ m.t), "rmem")
        p = tf.reshard(tf.reduce(a, axes=(1,), keepdim=True, kind="absmax"), (2 @ m.b, 1), "gmem")
        q = tf.reshard(tf.reduce(a, axes=(1,), keepdim=True, kind="max"), (2 @ m.b, 1), "gmem")
        r = tf.reshard(tf.reduce(a, axes=(1,), keepdim=True, kind="min"), (2 @ m.b, 1), "gmem")
    return p, q, r


@func(topologies=(CTA(1), TH(24)))
def twenty_four(x: Tensor[(3, 24), "f32"]) -> Tensor[(3,), "f32"]:
    with Mesh(("cta", "thread"), (1, 24), ("b", "t")) as m:
        a = tf.reshard(x, (3, 24 @ m.t), "rmem")
        out = tf.reshard(tf.reduce(a, axes=(1,), keepdim=False, kind="mean"), (3,), "gmem")
    return out


@func(topologies=(CTA(2), TH(32)))
def reserved(
    int: Tensor[(2, 64), "f32"],
    max: Tensor[(2, 64), "f32"],
    template: Tensor[(64,), "f32"],
    blockIdx: Tensor[(1,), "f32"],
) -> Tensor[(2, 64), "f32"]:
    with Mesh(("cta", "thread"), (2, 32), ("b", "t")) as lane:
        auto = tf.reshard(int, (2 @ lane.b, 64 @ lane.t), "rmem")
        this = tf.reshard(max, (2 @ lane.b, 64 @ lane.t), "rmem")
        double = auto * this + template * blockIdx
        out = tf.reshard(double, (2 @ lane.b, 64 @ lane.t), "gmem")
    return out


@func(topologies=(CTA(2), TH(32)))
def vector_tails(x: Tensor[(M,), "f32"]) -> Tensor[(M,), "f32"]:
    y = tf.workspace(Tensor[(M,), "f32"])
    with Mesh(("cta", "thread"), (2, 32), ("b", "t")) as m:
        for i in tile(M, 128, over=m.b):
            for j in tile(i.extent, 4, over=m.t):
                a = tf.reshard(x[i][j], (j.extent,), "rmem")
                y = tf.insert_slice(y, tf.reshard(tf.exp(a), (j.extent,), "gmem"), (i.start + j.start,))
    return y


@func(topologies=(CTA(1), TH(32)))
def swapped(x: Tensor[(4, 64), "f32"]) -> Tensor[(4, 64), "f32"]:
    with Mesh(("cta", "thread"), (1, 32), ("b", "t")) as m:
        a = tf.reshard(x, (4, 64 @ m.t), "rmem")
        b = a * 2.0
        for _k in range(3):
            a, b = b, a + b
        out = tf.reshard(a - b, (4, 64 @ m.t), "gmem")
    return out


PROGRAMS = {name: value for name, value in list(globals().items()) if isinstance(value, Module)}
