"""Programs that the fuzzer mutates: together they use every construct of the DSL."""

# ruff: noqa: E501
# The programs in this file are DSL source, written as a user writes them.
from __future__ import annotations

__all__ = ["SEEDS"]

ENCODER = """
B = DimVar("B", 1, 65); S = DimVar("S", 1, 129); H = 16; HEADS = 4; D = 4

@module(entry="layer")
class Layer:
    @func
    def attention(x: Tensor[(B, S, H), "f32"], mask: Tensor[(B, S), "f32"], wq: ConstTensor[(H, H), "f32"], bq: ConstTensor[(H,), "f32"]) -> Tensor[(B, S, H), "f32"]:
        q = tf.transpose(tf.reshape(tf.matmul(x, wq) + bq, (B, S, HEADS, D)), (0, 2, 1, 3))
        k = q * 0.5
        scores = tf.matmul(q, tf.transpose(k, (0, 1, 3, 2))) * (1.0 / math.sqrt(D))
        scores += tf.reshape((1.0 - mask) * -3.0e38, (B, 1, 1, S))
        p = tf.softmax(scores, axis=-1)
        return tf.reshape(tf.transpose(p @ k, (0, 2, 1, 3)), (B, S, H))

    @attention.converter("wq")
    def wq_t(query: Tensor[(H, H), "f32"]) -> Tensor[(H, H), "f32"]:
        return tf.transpose(query, (1, 0))

    @func
    def layer(x: Tensor[(B, S, H), "f32"], mask: Tensor[(B, S), "f32"], wq: ConstTensor[(H, H), "f32"], bq: ConstTensor[(H,), "f32"], g: ConstTensor[(H,), "f32"]) -> Tensor[(B, S, H), "f32"]:
        y = attention(x, mask, wq, bq=bq) + x
        z = tf.layer_norm(y, g, bq, axis=-1, eps=1e-12)
        return tf.gelu(z, approximate="none") if HEADS > 2 else z

@module(entry="encode")
class Model:
    layers = tuple(Layer.renamed(f"layer{i}") for i in range(3))

    @func
    def encode(ids: Tensor[(B, S), "i64"], mask: Tensor[(B, S), "i64"], word: ConstTensor[(100, H), "f32"], position: ConstTensor[(128, H), "f32"]) -> Tensor[(B, H), "f32"]:
        m = tf.cast(mask, "f32")
        x = tf.index_select(word, ids, dim=0) + position[0:S]
        for layer in layers:
            x = layer(x, m)
        m = tf.reshape(m, (B, S, 1))
        pooled = tf.reduce(x * m, axes=(1,), keepdim=False, kind="sum") / tf.clamp(tf.reduce(m, axes=(1,), keepdim=False, kind="sum"), 1e-9, 1e9)
        return pooled * tf.rsqrt(tf.reduce(pooled * pooled, axes=(-1,), keepdim=True, kind="sum"))
"""

LOOPS = """
N = DimVar("N", 1, 100); M = DimVar("M", 4, 50)

@func
def tiles(x: Tensor[(N, 8), "f32"], p: Tensor[(), "i64"]) -> tuple[Tensor[(N, 8), "f32"], Tensor[(8,), "f32"]]:
    y = tf.zeros(Tensor[(N, 8), "f32"])
    top = x[p, :]
    for i in tile(N, 4):
        w = x[i, :]
        top = tf.maximum(top, tf.reduce(w, axes=(0,), keepdim=False, kind="max"))
        y = tf.insert_slice(y, w * 2.0 + tf.zeros(Tensor[(i.extent, 8), "f32"]), (i, 0))
    return y, top

@func
def ranges(x: Tensor[(12, M), "f16"], c: Tensor[(12, M), "bool"]) -> Tensor[(2, M), "f16"]:
    a, b = x[0:2], x[-2:]
    for i in range(1, 5):
        window = x[2 * i : 2 * i + 2, ...]
        a, b = b + window, tf.where(c[i : i + 2], a, 0.0)
        for j in range(M // 2):
            b = b * tf.cast(j + i, "f16")
    parts = [a * float(k) for k in (1, 2, 3) if k != 2]
    return tf.concat(*parts, axis=0)[::2] - (a if M > 2 else b)

@func
def calls(x: Tensor[(N, 8), "f32"], n: Tensor[(), "i64"]) -> Tensor[(4, N), "f32"]:
    y, t = tiles(x, n)
    left, right = tf.split(y + t, 1, 2)
    values, indices = tf.topk(left, 2, axis=-1)
    both = tf.stack(left, right, axis=0)
    flags = (both[0] > 0.0) & ~(both[1] <= left) | (left != right)
    z: Tensor[(N, 4), "f32"] = tf.where(flags, left ** 2, -right) % 3.0
    return tf.transpose(z, (1, 0))
"""

PLACED = """
N = DimVar("N", 1, 100)

@module(entry="main", topologies=(Topology("cta", 8), Topology("thread", 32)))
class Placed:
    @func
    def kernel(x: Tensor[(N, 64), "f32"], w: ConstTensor[(64,), "f32"]) -> Tensor[(N, 64), "f32"]:
        with Mesh(("cta", "thread"), (8, 32), ("b", "t")) as c:
            y = tf.zeros(Tensor[(N, 64), "f32"])
            for i in tile(N, 1, over=c.b):
                row = tf.reshard(x[i, :], (1, 64 @ c.t), "rmem")
                square = row * row
                mean = tf.reshard(tf.reduce(square, axes=(-1,), keepdim=True, kind="mean"), (1, 1), "rmem")
                out = tf.reshard(row * tf.rsqrt(mean + 1e-6), (1, 64), "gmem")
                y = tf.insert_slice(y, out * w, (i, 0))
            return y

    @func
    def base(x: Tensor[(N, 64), "f32"]) -> Tensor[(N, 64), "f32"]:
        pass

    @base.specialize(DimVarRangePat("N", 1, 10))
    def small(x: Tensor[(N, 64), "f32"]) -> Tensor[(N, 64), "f32"]:
        return x + 1.0

    @base.specialize(DimVarRangePat("N", 10, 100))
    def large(x: Tensor[(N, 64), "f32"]) -> Tensor[(N, 64), "f32"]:
        return x - 1.0

    @func
    def main(x: Tensor[(N, 64), "f32"], w: ConstTensor[(64,), "f32"]) -> Tensor[(N, 64), "f32"]:
        return kernel(base(x), w)
"""

STATEMENTS = """
N = DimVar("N", 1, 100)

@prim_func
def loops(x: Tensor[(N, 4), "f32"], k: Tensor[(N,), "i64"], y: Tensor[(N, 4), "f32"], z: Tensor[(N,), "f32"]):
    state = T.alloc_tensor(Tensor[(2,), "f32"])
    state[0] = 1.0
    while state[0] < 10.0:
        state[0] += 3.0
    for begin, end in T.parallel(N, cost=4):
        for i in range(begin, end):
            acc = T.accumulator("sum", "f32")
            for j in T.vectorized(4):
                v = tf.exp(x[i, j]) * 2.0
                acc += v
                y[i, j] = T.select((v > 1.0) & ~(v > 4.0), v, T.cast(i + 2 * j, "f32"))
            if (acc > 3.0) | (k[i] == 2):
                z[i] = acc / 2.0
            elif i == 0:
                z[i] = -1.0
            else:
                return

@module(entry="host")
class Launched:
    @prim_func
    def tiles(x: Tensor[(N, 4), "f32"], w: Tensor[(4,), "f32"], y: Tensor[(N, 4), "f32"]):
        with Mesh(("thread",), (32,), ("t",)) as m:
            for i in range(N):
                T.copy(x[i, 1:3], y[i, :2])
                T.rms_norm(x[i], w, y[i], eps=1e-6)
                T.reduce(x, y[:, 0], axes=(1,), kind="max")
                T.sync(m)
        T.abort(x[0, 0] > 100.0, "too large")

    @prim_func(topologies=(Topology("cta", 4), Topology("thread", 128)))
    def gated(x: Tensor[(N, 4), "bf16"], g: Tensor[(4, 8), "bf16"], q: Tensor[(4, 8), "i8"], y: Tensor[(N, 8), "f32"]):
        up = (T.cast(q[k, j], "f32") * 0.5 for k, j in T.elements((4, 8), "bf16"))
        for i, j, a, b in T.contract(x, (g, up), tile=(64, 64, 32), stages=3, cluster=(2, 1), split_k=2):
            h = T.silu(a) * b
            if j > 3:
                y[i, j] = h

    @prim_func
    def attend(q: Tensor[(1, 4, N, 8), "f32"], k: Tensor[(1, 2, N, 8), "f32"], y: Tensor[(1, N, 4, 8), "f32"]):
        for b, h, i, d, o in T.attention(q, k, k, causal=True, window=16, split_kv=2):
            y[b, i, h, d] = o * 2.0

    @prim_func
    def host(x: Tensor[(N, 4), "f32"], w: Tensor[(4,), "f32"], v: Tensor[(N, 4), "bf16"], g: Tensor[(4, 8), "bf16"],
             q: Tensor[(4, 8), "i8"], y: Tensor[(N, 4), "f32"], z: Tensor[(N, 8), "f32"]):
        T.launch(tiles, x, w, y, grid=(N, 2), block=32, cooperative=True)
        T.launch(gated, v, g, q, z, cluster=2, programmatic=True)
"""

SEEDS = (ENCODER, LOOPS, PLACED, STATEMENTS)
