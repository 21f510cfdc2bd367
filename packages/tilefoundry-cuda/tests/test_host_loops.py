"""Loops whose turns only a call decides, run by the host. Oracle: the evaluator, which runs them as written."""

from __future__ import annotations

import pytest
import torch

from tilefoundry import compile, evaluate, func, jit, lower
from tilefoundry.codegen import place
from tilefoundry.dsl import DimVar, Tensor, tf, tile
from tilefoundry.ir.errors import LoweringError
from tilefoundry.target import CudaTarget

TARGETS = ["cpu", pytest.param("cuda", marks=pytest.mark.gpu)]
N = DimVar("N", 0, 600)
T = DimVar("T", 0, 100)
M = DimVar("M", 1, 100)


@func
def scan(x: Tensor[(N, 64), "f32"], h: Tensor[(64,), "f32"]) -> Tensor[(64,), "f32"]:
    for i in range(N):
        h = tf.tanh(h * 0.5 + x[i, :])
    return h


@func
def power(
    x: Tensor[(4, 64), "f32"], s: Tensor[(T,), "i32"], w: Tensor[(64, 64), "f32"]
) -> Tensor[(4, 64), "f32"]:
    for _ in range(T):
        x = tf.softmax(x @ w) + 1.0
    return x * 2.0


@func
def swapped(
    a: Tensor[(M, 8), "f32"], b: Tensor[(M, 8), "f32"], s: Tensor[(T,), "i32"]
) -> tuple[Tensor[(M, 8), "f32"], Tensor[(M, 8), "f32"], Tensor[(M, 8), "f32"]]:
    first = a
    for _ in range(T):
        old = a
        a = b * 1.5
        b = old
    return a, b, first


@func
def rotated(
    a: Tensor[(M,), "f32"], b: Tensor[(M,), "f32"], c: Tensor[(M,), "f32"], s: Tensor[(T,), "i32"]
) -> tuple[Tensor[(M,), "f32"], Tensor[(M,), "f32"], Tensor[(M,), "f32"]]:
    for _ in range(T):
        old = a
        a = b
        b = c
        c = old
    return a, b, c


@func
def gathered(x: Tensor[(N, 8), "f32"], out: Tensor[(N, 8), "f32"]) -> Tensor[(N, 8), "f32"]:
    h = tf.zeros(Tensor[(1, 8), "f32"])
    for i in range(N):
        h = h + x[i : i + 1, :]
        out = tf.insert_slice(out, h, (i, 0))
    return out


@func
def nested(x: Tensor[(M, 8), "f32"], s: Tensor[(T,), "i32"]) -> Tensor[(8,), "f32"]:
    total = tf.zeros(Tensor[(8,), "f32"])
    for _ in range(T):
        part = tf.zeros(Tensor[(8,), "f32"])
        for i in range(M):
            part = part * 0.5 + x[i, :]
        total = total + part
    return total


@func
def long(x: Tensor[(16,), "f32"]) -> Tensor[(16,), "f32"]:
    for _ in range(300):
        x = tf.sin(x) + 0.5
    return x


@func
def tiles(x: Tensor[(N, 8), "f32"]) -> Tensor[(8,), "f32"]:
    total = tf.zeros(Tensor[(8,), "f32"])
    for i in tile(N, 16):
        total = total + tf.reduce(x[i, :], axes=(0,), keepdim=False, kind="sum")
    return total


@func
def twice(x: Tensor[(N, 8), "f32"], s: Tensor[(T,), "i32"]) -> Tensor[(N, 8), "f32"]:
    y = tf.exp(x)
    for _ in range(T):
        y = y * 0.5
    z = y + x
    for _ in range(T):
        z = z - y
    return z


@func
def counted(k: Tensor[(M,), "i64"], s: Tensor[(T,), "i32"]) -> Tensor[(M,), "i64"]:
    for i in range(T):
        k = k * 2 + i
    return k


@func
def stepped(x: Tensor[(N, 8), "f32"]) -> Tensor[(8,), "f32"]:
    total = tf.zeros(Tensor[(8,), "f32"])
    for i in range(1, N, 3):
        total = total * 0.5 + x[i, :]
    return total


@func
def smooth(x: Tensor[(N, 8), "f32"]) -> Tensor[(N, 8), "f32"]:
    y = x
    for rows in tile(N, 16):
        y = tf.insert_slice(y, tf.softmax(x[rows, :], axis=-1), (rows, 0))
    return y


def _size(*shape: int) -> torch.Tensor:
    return torch.randn(*shape)


def _turns(count: int) -> torch.Tensor:
    return torch.zeros(count, dtype=torch.int32)


CASES = {
    "scan": (scan, [lambda n=n: (_size(n, 64), _size(64)) for n in (0, 1, 2, 7, 300)]),
    "power": (power, [lambda n=n: (_size(4, 64), _turns(n), _size(64, 64)) for n in (0, 1, 2, 5)]),
    "swapped": (swapped, [lambda n=n: (_size(5, 8), _size(5, 8), _turns(n)) for n in (0, 1, 2, 5)]),
    "rotated": (rotated, [lambda n=n: (_size(5), _size(5), _size(5), _turns(n)) for n in (0, 1, 2, 3, 4)]),
    "gathered": (gathered, [lambda n=n: (_size(n, 8), _size(n, 8)) for n in (1, 2, 30)]),
    "nested": (nested, [lambda n=n, m=m: (_size(m, 8), _turns(n)) for n, m in ((0, 3), (1, 1), (3, 5))]),
    "long": (long, [lambda: (_size(16),)]),
    "tiles": (tiles, [lambda n=n: (_size(n, 8),) for n in (0, 1, 15, 16, 17, 64, 100)]),
    "counted": (counted, [lambda n=n: (torch.arange(5), _turns(n)) for n in (0, 1, 2, 9)]),
    "stepped": (stepped, [lambda n=n: (_size(n, 8),) for n in (0, 1, 2, 4, 5, 6, 50)]),
    "smooth": (smooth, [lambda n=n: (_size(n, 8),) for n in (0, 1, 16, 17, 40)]),
    "twice": (twice, [lambda n=n: (_size(3, 8), _turns(n)) for n in (0, 1, 4)]),
}


@pytest.mark.spec("loops.run-time")
@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("name", CASES)
def test_a_loop_has_the_values_of_the_evaluator(name, target):
    program, makers = CASES[name]
    compiled = jit(program, target=target)
    for make in makers:
        inputs = make()
        before = [value.clone() for value in inputs]
        got = compiled(*(value.to(target) for value in inputs))
        wanted = evaluate(program, *inputs)
        for one, other in zip(_tensors(got), _tensors(wanted), strict=True):
            torch.testing.assert_close(one.cpu(), other, rtol=1e-5, atol=1e-5)
        assert all(torch.equal(value, old) for value, old in zip(inputs, before, strict=True))


def _tensors(result):
    return result if isinstance(result, tuple) else (result,)


@pytest.mark.spec("loops.run-time")
@pytest.mark.parametrize("name", ["scan", "nested", "tiles"])
def test_a_placed_loop_reads_back(name):
    """What placement makes of a loop is a program itself, with the same values."""
    program, makers = CASES[name]
    again = jit(place(program, target="cpu"), target="cpu")
    for make in makers:
        inputs = make()
        torch.testing.assert_close(again(*inputs), evaluate(program, *inputs), rtol=1e-5, atol=1e-5)


@func
def growing(x: Tensor[(N, 8), "f32"]) -> Tensor[(8,), "f32"]:
    total = tf.zeros(Tensor[(8,), "f32"])
    for i in range(N):
        grown = tf.concat(x[0:i, :], x[0:1, :], axis=0)
        total = total + tf.reduce(grown, axes=(0,), keepdim=False, kind="sum")
    return total


@pytest.mark.spec("loops.run-time")
@pytest.mark.parametrize("target", ["cpu", CudaTarget("nvidia.h200_sxm")], ids=str)
def test_memory_that_grows_from_turn_to_turn_is_refused_by_name(target):
    with pytest.raises(LoweringError, match=r"growing: .* is as large as i says, another size in every turn"):
        lower(growing, target=target)


@pytest.mark.spec("loops.run-time")
@pytest.mark.parametrize("name", CASES)
def test_cuda_libraries_of_loops_compile(name):
    compiled = compile(CASES[name][0], target=CudaTarget("nvidia.h200_sxm"))
    assert "for (index_t " in compiled.source.split("// host\n")[1]
