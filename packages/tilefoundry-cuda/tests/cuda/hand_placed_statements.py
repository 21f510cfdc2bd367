"""Statement-level programs for CUDA: kernels of ``T`` statements, and a host that launches several."""

from tilefoundry.dsl import DimVar, Mesh, T, Tensor, Topology, module, prim_func, tf
from tilefoundry.ir.core.module import Module

N = DimVar("N", 1, 5000)


def CTA(n):
    return Topology("cta", n)


def TH(n):
    return Topology("thread", n)


@prim_func(topologies=(CTA(3), TH(64)))
def elements(x: Tensor[(N, 3), "f32"], y: Tensor[(N, 3), "f32"], total: Tensor[(N,), "f32"]):
    for begin, end in T.parallel(N, cost=4):
        for i in range(begin, end):
            acc = T.accumulator("sum")
            for j in T.vectorized(3):
                v = tf.exp(x[i, j]) * 2.0
                y[i, j] = T.select(v > 3.0, v, T.cast(i + 10 * j, "f32"))
                acc += v
            total[i] = acc


@prim_func(topologies=(CTA(2), TH(64)))
def plain_ops(
    x: Tensor[(N, 8), "f32"],
    w: Tensor[(8,), "f32"],
    y: Tensor[(N, 8), "f32"],
    z: Tensor[(N, 8), "f32"],
    r: Tensor[(N,), "f32"],
):
    T.rms_norm(x, w, y, eps=1e-6)
    T.binary(x, w, z, "mul")
    T.reduce(x, r, axes=(1,), kind="max")


@prim_func(topologies=(CTA(2), TH(64)))
def distributed(x: Tensor[(4, 256), "bf16"], y: Tensor[(4, 256), "f32"], s: Tensor[(4, 1), "f32"]):
    with Mesh(("cta", "thread"), (2, 64), ("b", "t")) as m:
        a = T.alloc_tensor(Tensor[(4, 256), "bf16", (4 @ m.b, 256 @ m.t), "rmem"])
        f = T.alloc_tensor(Tensor[(4, 256), "f32", (4 @ m.b, 256 @ m.t), "rmem"])
        t = T.alloc_tensor(Tensor[(4, 1), "f32", (4 @ m.b, 1), "rmem"])
        T.copy(x, a)
        T.unary(a, f, "exp")
        T.reduce(f, t, axes=(1,), kind="sum")
        T.binary(f, t, f, "div")
        T.copy(f, y)
        T.copy(t, s)


@prim_func(topologies=(CTA(2), TH(64)))
def staged_async(x: Tensor[(2, 64, 8), "f32"], y: Tensor[(2, 8, 64), "f32"]):
    with Mesh(("cta", "thread"), (2, 64), ("b", "t")) as m:
        s = T.alloc_tensor(Tensor[(2, 64, 8), "f32", (2 @ m.b, 64 @ m.t, 8), "smem"])
        T.copy_async(x, s)
        T.cp_async_commit()
        T.cp_async_wait(0)
        T.sync(Mesh(("thread",), (64,), ("t",)))
        f = T.alloc_tensor(Tensor[(2, 64, 8), "f32", (2 @ m.b, 64 @ m.t, 8), "rmem"])
        T.copy(s, f)
        T.unary(f, f, "neg")
        T.copy(f, T.tensor_view(y, (2, 64, 8), (512, 1, 64)))


@prim_func(topologies=(CTA(2), TH(32)))
def gridded(x: Tensor[(2, 32), "f32"], part: Tensor[(2, 32), "f32"], y: Tensor[(2, 32), "f32"]):
    with Mesh(("cta", "thread"), (2, 32), ("b", "t")) as m:
        a = T.alloc_tensor(Tensor[(2, 32), "f32", (2 @ m.b, 32 @ m.t), "rmem"])
        T.copy(x, a)
        T.unary(a, a, "exp")
        T.copy(a, part)
        T.sync(m)
        b = T.alloc_tensor(Tensor[(2, 32), "f32", (2, 32 @ m.t), "rmem"])
        t = T.alloc_tensor(Tensor[(1, 32), "f32", (1, 32 @ m.t), "rmem"])
        T.copy(part, b)
        T.reduce(b, t, axes=(0,), kind="sum")
        T.binary(a, t, a, "add")
        T.copy(a, y)


@prim_func(topologies=(CTA(1), TH(32)))
def product(a: Tensor[(32, 32), "bf16"], b: Tensor[(32, 16), "bf16"], y: Tensor[(32, 16), "f32"]):
    with Mesh(("cta", "thread"), (1, 8, 4), ("c", "g", "q")) as m:
        acc = T.alloc_tensor(Tensor[(32, 16), "f32", (4, 8 @ m.g, 2, 8 @ m.q), "rmem"])
        T.fill(acc, 0.0)
        T.mma(acc, a, b, atom="m16n8k16")
        T.copy(acc, y)


@module(entry="host")
class several:
    @prim_func
    def doubled(x: Tensor[(N, 8), "f32"], y: Tensor[(N, 8), "f32"]):
        T.binary(x, x, y, "add")

    @prim_func
    def host(x: Tensor[(3, N, 8), "f32"], y: Tensor[(3, N, 8), "f32"]):
        half = T.alloc_tensor(Tensor[(N, 8), "f32"])
        for i in range(3):
            T.launch(doubled, x[i], half, grid=2, block=64)
            T.launch(doubled, half, y[i], grid=(N, 2), block=64)


PROGRAMS = {name: value for name, value in list(globals().items()) if isinstance(value, Module)}
