"""Hand-placed programs of several kernels, with loops, shared memory, gathers and variants."""

from tilefoundry import func, module
from tilefoundry.dsl import (
    ConstTensor,
    DimVar,
    DimVarRangePat,
    Mesh,
    Tensor,
    Topology,
    ceildiv,
    tf,
    tile,
)

M = DimVar("M", 1, 5000)
N = DimVar("N", 1, 5000)


def CTA(n):
    return Topology("cta", n)


def TH(n):
    return Topology("thread", n)


@module(entry="step")
class launches:
    @func(topologies=(CTA(4), TH(32)))
    def doubled(x: Tensor[(N, 128), "f32"]) -> Tensor[(N, 128), "f32"]:
        y = tf.zeros(Tensor[(N, 128), "f32"])
        with Mesh(("cta", "thread"), (4, 32), ("b", "t")) as m:
            for i in tile(N, 1, over=m.b):
                a = tf.reshard(x[i, :], (1, 128 @ m.t), "rmem")
                y = tf.insert_slice(y, tf.reshard(a * 2.0, (1, 128), "gmem"), (i, 0))
        return y

    @func(topologies=(CTA(1), TH(64)))
    def column_sums(x: Tensor[(8, 128), "f32"], w: ConstTensor[(128,), "f32"]) -> Tensor[(1, 128), "f32"]:
        with Mesh(("cta", "thread"), (1, 64), ("b", "t")) as m:
            a = tf.reshard(x, (8, 128 @ m.t), "rmem")
            s = tf.reduce(a, axes=(0,), keepdim=True, kind="max")
            out = tf.reshard(s * w, (1, 128 @ m.t), "gmem")
        return out

    @func
    def shifted(x: Tensor[(8, 128), "f32"]) -> Tensor[(8, 128), "f32"]:
        return tf.exp(x) + 1.0

    @func
    def step(x: Tensor[(8, 128), "f32"]) -> tuple[Tensor[(8, 128), "f32"], Tensor[(1, 128), "f32"]]:
        a = doubled(x)
        b = shifted(a)
        c = column_sums(doubled(b))
        return b, c


@module(entry="run")
class children:
    @module(entry="fn", topologies=(CTA(2), TH(32)))
    class layer:
        @func
        def fn(x: Tensor[(2, 64), "f32"], w: ConstTensor[(64,), "f32"]) -> Tensor[(2, 64), "f32"]:
            with Mesh(("cta", "thread"), (2, 32), ("b", "t")) as m:
                a = tf.reshard(x, (2 @ m.b, 64 @ m.t), "rmem")
                return tf.reshard(tf.rms_norm(a, w, eps=1e-5), (2 @ m.b, 64 @ m.t), "gmem")

    @func
    def run(x: Tensor[(2, 64), "f32"]) -> Tensor[(2, 64), "f32"]:
        return layer(layer(x)) * 0.5


@module(entry="pick", topologies=(CTA(4), TH(32)))
class variants:
    @func
    def pick(x: Tensor[(M, 64), "f32"]) -> Tensor[(M, 64), "f32"]:
        pass

    @pick.specialize(DimVarRangePat("M", 1, 8))
    def small(x: Tensor[(M, 64), "f32"]) -> Tensor[(M, 64), "f32"]:
        y = tf.zeros(Tensor[(M, 64), "f32"])
        with Mesh(("cta", "thread"), (4, 32), ("b", "t")) as m:
            for i in tile(M, 1, over=m.b):
                a = tf.reshard(x[i, :], (1, 64 @ m.t), "rmem")
                y = tf.insert_slice(y, tf.reshard(a + 1.0, (1, 64), "gmem"), (i, 0))
        return y

    @pick.specialize(DimVarRangePat("M", 8, 5000))
    def large(x: Tensor[(M, 64), "f32"]) -> Tensor[(M, 64), "f32"]:
        y = tf.zeros(Tensor[(M, 64), "f32"])
        with Mesh(("cta", "thread"), (4, 32), ("b", "t")) as m:
            for i in tile(M, 2, over=m.b):
                a = tf.reshard(x[i, :], (i.extent, 64 @ m.t), "rmem")
                y = tf.insert_slice(y, tf.reshard(a + 2.0, (i.extent, 64), "gmem"), (i, 0))
        return y


@func(topologies=(CTA(2), TH(32)))
def host_between(x: Tensor[(2, 64), "f32"]) -> Tensor[(2, 64), "f32"]:
    with Mesh(("cta", "thread"), (2, 32), ("b", "t")) as m:
        a = tf.reshard(x, (2 @ m.b, 64 @ m.t), "rmem")
        y = tf.reshard(tf.exp(a), (2 @ m.b, 64 @ m.t), "gmem")
    z = tf.transpose(tf.reshape(y, (64, 2)), (1, 0)) + 1.0
    with Mesh(("cta", "thread"), (2, 32), ("b", "t")) as n:
        b = tf.reshard(z, (2 @ n.b, 64 @ n.t), "rmem")
        out = tf.reshard(tf.relu(b), (2 @ n.b, 64 @ n.t), "gmem")
    return out


@func(topologies=(CTA(2), TH(64)))
def whole_smem(x: Tensor[(32, 64), "bf16"], w: Tensor[(64, 32), "bf16"]) -> Tensor[(32, 32), "f32"]:
    with Mesh(("cta", "thread"), (2, 8, 8), ("b", "u", "v")) as m:
        a = tf.reshard(x, (32 @ (m.b, m.u), 64), "smem")
        w2 = tf.reshard(w, (64, 32), "smem")
        p = tf.matmul(
            tf.cast(tf.reshard(a, (32 @ (m.b, m.u), 64), "rmem"), "f32"),
            tf.cast(tf.reshard(w2, (64, 32 @ m.v), "rmem"), "f32"),
        )
        out = tf.reshard(p, (32 @ (m.b, m.u), 32 @ m.v), "gmem")
    return out


@func(topologies=(CTA(2), TH(32)))
def gathered(table: Tensor[(10, 64), "f32"], ids: Tensor[(2,), "i32"]) -> Tensor[(2, 64), "f32"]:
    with Mesh(("cta", "thread"), (2, 32), ("b", "t")) as m:
        a = tf.reshard(tf.index_select(table, ids, dim=0), (2 @ m.b, 64 @ m.t), "rmem")
        out = tf.reshard(a * 2.0, (2 @ m.b, 64 @ m.t), "gmem")
    return out


@func(topologies=(CTA(2), TH(32)))
def local_parts(x: Tensor[(2, 64), "f32"]) -> Tensor[(2, 32, 2), "f32"]:
    with Mesh(("cta", "thread"), (2, 32), ("b", "t")) as m:
        a = tf.reshard(x, (2 @ m.b, 64 @ m.t), "rmem")
        p = tf.local(a)
        q = tf.exp(p) - tf.reduce(p, axes=(2,), keepdim=True, kind="max")
        r = tf.reshard(q, (2 @ m.b, 64 @ m.t), "rmem")
        out = tf.reshard(r, (2 @ m.b, 32 @ m.t, 2), "gmem")
    return out


@func(topologies=(CTA(2), TH(32)))
def online(x: Tensor[(2, 1024), "f32"]) -> Tensor[(2, 1), "f32"]:
    with Mesh(("cta", "thread"), (2, 32), ("b", "t")) as m:
        acc = tf.reshard(x[:, 0:32], (2 @ m.b, 32 @ m.t), "rmem") * 0.0
        for i in tile(1024, 32):
            acc = acc + tf.reshard(x[:, i], (2 @ m.b, 32 @ m.t), "rmem")
        s = tf.reduce(acc, axes=(1,), keepdim=True, kind="sum")
        out = tf.reshard(s, (2 @ m.b, 1), "gmem")
    return out


@func(topologies=(CTA(2), TH(64)))
def staged(x: Tensor[(2, 32, 128), "f32"]) -> Tensor[(2, 128), "f32"]:
    with Mesh(("cta", "thread"), (2, 64), ("b", "t")) as m:
        acc = tf.zeros(Tensor[(2, 128), "f32", (2 @ m.b, 128 @ m.t), "rmem"])
        for i in tile(32, 8):
            s = tf.reshard(x[:, i, :], (2 @ m.b, 8, 128 @ m.t), "smem")
            r = tf.reshard(s, (2 @ m.b, 8, 128 @ m.t), "rmem")
            acc = acc + tf.reduce(r, axes=(1,), keepdim=False, kind="sum")
        out = tf.reshard(acc, (2 @ m.b, 128 @ m.t), "gmem")
    return out


@func(topologies=(CTA(3), TH(32)))
def cached(cache: Tensor[(8, 64), "f32"], new: Tensor[(2, 64), "f32"]) -> Tensor[(8, 64), "f32"]:
    with Mesh(("cta", "thread"), (3, 32), ("b", "t")) as m:
        a = tf.reshard(new, (2, 64 @ m.t), "rmem")
        out = tf.insert_slice(cache, tf.reshard(a, (2, 64), "gmem"), (3, 0))
    return out


@func(topologies=(CTA(2), TH(32)))
def nested(x: Tensor[(5, 64), "f32"]) -> Tensor[(5, 64), "f32"]:
    y = tf.zeros(Tensor[(5, 64), "f32"])
    with Mesh(("cta",), (2,), ("b",)) as c:
        for i in tile(5, 1, over=c.b):
            with Mesh(("thread",), (32,), ("t",)) as t:
                a = tf.reshard(x[i, :], (1, 64 @ t.t), "rmem")
                s = tf.reduce(a, axes=(1,), keepdim=True, kind="max")
                y = tf.insert_slice(y, tf.reshard(a - s, (1, 64), "gmem"), (i, 0))
    return y


@func(topologies=(Topology("cta", ceildiv(M, 4)), TH(64)))
def vectors(x: Tensor[(M,), "f32"]) -> Tensor[(M,), "f32"]:
    y = tf.workspace(Tensor[(M,), "f32"])
    with Mesh(("cta", "thread"), (ceildiv(M, 4), 64), ("b", "t")) as m:
        for i in tile(M, 4, over=m.b):
            for j in tile(i.extent, 1, over=m.t):
                a = tf.reshard(x[i][j], (1,), "rmem")
                y = tf.insert_slice(y, tf.reshard(a + 1.0, (1,), "gmem"), (i.start + j.start,))
    return y


@func(topologies=(CTA(2), TH(128)))
def tiles(x: Tensor[(128, 64), "bf16"], w: Tensor[(64, 32), "bf16"]) -> Tensor[(128, 32), "bf16"]:
    """Four warps a block, each with 16 rows of the product; operands lie in shared memory."""
    with Mesh(("cta", "thread"), (2, 4, 8, 4), ("b", "w", "g", "q")) as m:
        a = tf.reshard(x, (128 @ (m.b, m.w), 64), "smem")
        b = tf.reshard(w, (64, 32), "smem")
        mine = tf.reshard(a, (2 @ m.b, 4 @ m.w, 2, 8 @ m.g, 64), "rmem")
        p = tf.matmul(mine, tf.reshard(b, (64, 4, 8 @ m.q), "rmem"))
        out = tf.reshard(p, (128 @ (m.b, m.w), 32), "gmem")
    return out


@func(topologies=(CTA(2), TH(128)))
def large_shared(x: Tensor[(2, 128, 128), "f32"]) -> Tensor[(2, 128, 128), "f32"]:
    with Mesh(("cta", "thread"), (2, 128), ("b", "t")) as m:
        s = tf.reshard(x, (2 @ m.b, 128, 128 @ m.t), "smem")
        r = tf.reshard(s, (2 @ m.b, 128 @ m.t, 128), "rmem")
        out = tf.reshard(tf.softmax(r, axis=2), (2 @ m.b, 128 @ m.t, 128), "gmem")
    return out


PROGRAMS = {k: v for k, v in globals().items() if hasattr(v, "entry_function")}
