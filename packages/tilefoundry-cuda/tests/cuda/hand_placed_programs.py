"""Hand-placed programs that several tests run. ``PROGRAMS``: name -> program."""

import torch

from tilefoundry import func
from tilefoundry.dsl import DimVar, Mesh, Tensor, Topology, persistent, tf, tile
from tilefoundry.evaluator import evaluate
from tilefoundry.ir.core.module import Module
from tilefoundry.runtime import DictResource

M = DimVar("M", 1, 5000)


def CTA(n):
    return Topology("cta", n)


def TH(n):
    return Topology("thread", n)


@func(topologies=(CTA(2), TH(64)))
def soft(x: Tensor[(4, 256), "bf16"], w: Tensor[(256,), "bf16"]) -> Tensor[(4, 256), "bf16"]:
    with Mesh(("cta", "thread"), (2, 64), ("b", "t")) as m:
        a = tf.reshard(x, (4 @ m.b, 256 @ m.t), "rmem")
        s = tf.softmax(a, axis=-1)
        g = tf.rms_norm(s, w, eps=1e-5)
        out = tf.reshard(g, (4 @ m.b, 256 @ m.t), "gmem")
    return out


@func(topologies=(CTA(2), TH(64)))
def two_phases(x: Tensor[(4, 128), "f32"]) -> Tensor[(4, 128), "f32"]:
    with Mesh(("cta", "thread"), (2, 64), ("b", "t")) as m:
        a = tf.reshard(x, (4 @ m.b, 128 @ m.t), "rmem")
        y = tf.reshard(tf.exp(a), (4 @ m.b, 128 @ m.t), "gmem")
    with Mesh(("cta", "thread"), (2, 64), ("c", "t")) as m2:
        b = tf.reshard(y, (4, 128 @ (m2.c, m2.t)), "rmem")
        total = tf.reduce(b, axes=(0,), keepdim=True, kind="sum")
        out = tf.reshard(b / total, (4, 128 @ (m2.c, m2.t)), "gmem")
    return out


@func(topologies=(Topology("cta", persistent), TH(128)))
def rows(x: Tensor[(M, 256), "bf16"], w: Tensor[(256,), "bf16"]) -> Tensor[(M, 256), "bf16"]:
    y = tf.zeros(Tensor[(M, 256), "bf16"])
    with Mesh(("cta", "thread"), (persistent, 128), ("b", "t")) as m:
        for i in tile(M, 1, over=m.b):
            a = tf.reshard(x[i, :], (1, 256 @ m.t), "rmem")
            n = tf.rms_norm(a, w, eps=1e-5)
            y = tf.insert_slice(y, tf.reshard(n, (1, 256), "gmem"), (i, 0))
    return y


@func(topologies=(CTA(3), TH(32)))
def masked(x: Tensor[(M, 64), "f32"]) -> tuple[Tensor[(M, 64), "f32"], Tensor[(M, 64), "f32"]]:
    y = tf.zeros(Tensor[(M, 64), "f32"])
    z = tf.zeros(Tensor[(M, 64), "f32"])
    with Mesh(("cta", "thread"), (3, 32), ("b", "t")) as m:
        for i in tile(M, 4, over=m.b):
            a = tf.reshard(x[i, :], (i.extent, 64 @ m.t), "rmem")
            s = tf.reduce(a, axes=(0,), keepdim=True, kind="mean")
            y = tf.insert_slice(y, tf.reshard(a - s, (i.extent, 64), "gmem"), (i, 0))
            z = tf.insert_slice(z, tf.reshard(a * 2.0, (i.extent, 64), "gmem"), (i, 0))
    return y, z


@func(topologies=(CTA(1), TH(64)))
def carried(x: Tensor[(64,), "f32"]) -> Tensor[(64,), "f32"]:
    with Mesh(("cta", "thread"), (1, 64), ("b", "t")) as m:
        a = tf.reshard(x, (64 @ m.t,), "rmem")
        b = a + 1.0
        for _k in range(300):
            a, b = b * 0.5, a
        out = tf.reshard(a + b, (64 @ m.t,), "gmem")
    return out


@func(topologies=(CTA(2), TH(64)))
def shared(x: Tensor[(2, 64, 8), "f32"]) -> Tensor[(2, 8, 64), "f32"]:
    with Mesh(("cta", "thread"), (2, 64), ("b", "t")) as m:
        s = tf.reshard(x, (2 @ m.b, 64 @ m.t, 8), "smem")
        r = tf.transpose(s, (0, 2, 1))
        v = tf.reshard(r, (2 @ m.b, 8, 64 @ m.t), "rmem")
        out = tf.reshard(tf.relu(v), (2 @ m.b, 8, 64 @ m.t), "gmem")
    return out


@func(topologies=(CTA(2), TH(64)))
def exchanged(x: Tensor[(2, 64, 8), "f32"]) -> Tensor[(2, 64, 8), "f32"]:
    with Mesh(("cta", "thread"), (2, 8, 8), ("b", "u", "v")) as m:
        a = tf.reshard(x, (2 @ m.b, 64 @ (m.u, m.v), 8), "rmem")
        e = tf.exp(a)
        c = tf.reshard(e, (2 @ m.b, 64 @ m.u, 8 @ m.v), "rmem")
        d = tf.reshard(c * 2.0, (2 @ m.b, 8, 8 @ m.u, 8 @ m.v), "rmem")
        out = tf.reshard(d, (2 @ m.b, 8, 8 @ m.u, 8 @ m.v), "gmem")
    return out


@func(topologies=(CTA(2), TH(64)))
def product(x: Tensor[(32, 64), "bf16"], w: Tensor[(64, 32), "bf16"]) -> Tensor[(32, 32), "f32"]:
    with Mesh(("cta", "thread"), (2, 8, 8), ("b", "u", "v")) as m:
        a = tf.reshard(x, (32 @ (m.b, m.u), 64), "rmem")
        w2 = tf.reshard(w, (64, 32 @ m.v), "smem")
        p = tf.matmul(tf.cast(a, "f32"), tf.reshard(tf.cast(w2, "f32"), (64, 32 @ m.v), "rmem"))
        out = tf.reshard(p, (32 @ (m.b, m.u), 32 @ m.v), "gmem")
    return out


@func(topologies=(CTA(2), TH(64)))
def split_k(x: Tensor[(4, 64), "f32"], w: Tensor[(64, 8), "f32"]) -> Tensor[(4, 8), "f32"]:
    with Mesh(("cta", "thread"), (2, 8, 8), ("b", "u", "v")) as m:
        a = tf.reshard(x, (4, 64 @ (m.b, m.u)), "rmem")
        w2 = tf.reshard(w, (64 @ (m.b, m.u), 8 @ m.v), "rmem")
        p = tf.matmul(a, w2)
        q = tf.reshard(p, (4, 8 @ m.v), "rmem")
        out = tf.reshard(q, (4, 8 @ m.v), "gmem")
    return out


@func(topologies=(CTA(2), TH(32)))
def conditions(
    x: Tensor[(2, 64), "f32"], bias: Tensor[(64,), "f32"]
) -> tuple[Tensor[(2, 64), "f32"], Tensor[(2, 64), "f32"]]:
    with Mesh(("cta", "thread"), (2, 32), ("b", "t")) as m:
        a = tf.reshard(x, (2 @ m.b, 64 @ m.t), "rmem")
        c = tf.where(a > 0.25, a + bias, tf.full_like(a, 0.5))
        out = tf.reshard(c, (2 @ m.b, 64 @ m.t), "gmem")
    return out, out


@func(topologies=(CTA(4), TH(32)))
def picked(
    c: Tensor[(4, 512), "bool"], a: Tensor[(4, 512), "f32"], b: Tensor[(4, 512), "f32"]
) -> Tensor[(4, 512), "f32"]:
    with Mesh(("cta", "thread"), (4, 32), ("b", "t")) as m:
        where = tf.reshard(c, (4 @ m.b, 2, 256 @ m.t), "rmem")
        x = tf.reshard(a, (4 @ m.b, 2, 256 @ m.t), "rmem")
        y = tf.reshard(b, (4 @ m.b, 2, 256 @ m.t), "rmem")
        out = tf.reshard(tf.where(where, x, y), (4 @ m.b, 2, 256 @ m.t), "gmem")
    return out


PROGRAMS = {name: value for name, value in list(globals().items()) if isinstance(value, Module)}


def arguments(compiled, rows=7, device="cpu"):
    """Random inputs of a compiled program, its weights among them; ``rows`` is the value of every extent."""
    torch.manual_seed(0)
    return [_random(param.type, rows, device) for param in compiled.type.input_params]


def _random(type_, rows, device):
    shape = [rows if not isinstance(dim, int) else dim for dim in type_.shape]
    if type_.dtype.is_integer:
        return torch.randint(0, 5, shape, device=device, dtype=torch.int32)
    if type_.dtype.name == "bool":
        return torch.rand(shape, device=device) < 0.5
    kind = {"f32": torch.float32, "bf16": torch.bfloat16}[type_.dtype.name]
    return torch.randn(shape, device=device).to(kind)


def wanted(program, compiled, given):
    """What the evaluator computes; weights of children are looked up by their dotted paths."""
    count = len(program.entry_function().params)
    if len(given) == count:
        return evaluate(program, *given)
    names = [param.name for param in compiled.type.input_params[count:]]
    return program.load(DictResource(dict(zip(names, given[count:], strict=True))))(*given[:count])


def compare(got, want):
    """Full tensors, at the precision of their type."""
    got = got if isinstance(got, tuple) else (got,)
    want = want if isinstance(want, tuple) else (want,)
    assert len(got) == len(want)
    for one, other in zip(got, want, strict=True):
        narrow = one.dtype is torch.bfloat16
        torch.testing.assert_close(one, other, rtol=2e-2 if narrow else 1e-4, atol=1e-2 if narrow else 1e-4)
