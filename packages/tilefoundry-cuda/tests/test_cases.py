"""Inputs that broke other systems, on each target. Oracles: torch and float64, and guard elements around outputs."""

from __future__ import annotations

import ctypes

import pytest
import torch

from tilefoundry import func, jit, module
from tilefoundry.dsl import DimVar, Tensor, tf
from tilefoundry.evaluator import evaluate

TARGETS = ["cpu", pytest.param("cuda", marks=pytest.mark.gpu)]
N = DimVar("N", 1, 5000)
M = DimVar("M", 1, 5000)


@module(entry="main")
class Plain:
    """Nothing of it is placed."""

    @func
    def shifted(x: Tensor[(N, M), "f32"], y: Tensor[(N, M), "f32"]) -> Tensor[(N, M), "f32"]:
        return 1.0 - x + y

    @func
    def main(
        x: Tensor[(1024, 1024), "f32"],
        a: Tensor[(2, 4, 8), "f32"],
        b: Tensor[(8,), "f32"],
        c: Tensor[(4, 1), "f32"],
        d: Tensor[(1, 8), "f32"],
    ) -> tuple[
        Tensor[(1024, 1024), "f32"], Tensor[(2, 4, 8), "f32"], Tensor[(4, 8), "f32"], Tensor[(1024,), "f32"]
    ]:
        return shifted(x, x), a + b, c + d, tf.reduce(x, axes=(1,), keepdim=False, kind="sum")


@pytest.mark.spec("case.unplaced")
@pytest.mark.parametrize("target", TARGETS)
def test_a_program_that_nobody_placed(target):
    x = torch.randn(1024, 1024)
    rest = (torch.randn(2, 4, 8), torch.randn(8), torch.randn(4, 1), torch.randn(1, 8))
    a, b, c, d = rest
    out = jit(Plain, target=target)(*(t.to(target) for t in (x, *rest)))
    wanted = (1.0 - x + x, a + b, c + d, x.double().sum(1).float())
    for got, want in zip(out, wanted, strict=True):
        torch.testing.assert_close(got.cpu(), want, rtol=1e-5, atol=1e-4)


@func
def doubled(x: Tensor[(N,), "f32"]) -> Tensor[(N,), "f32"]:
    return x + x


class _Managed(ctypes.Structure):
    """DLManagedTensor, as DLPack lays it out."""

    _fields_ = [
        ("data", ctypes.c_void_p),
        ("device_type", ctypes.c_int32),
        ("device_id", ctypes.c_int32),
        ("ndim", ctypes.c_int32),
        ("code", ctypes.c_uint8),
        ("bits", ctypes.c_uint8),
        ("lanes", ctypes.c_uint16),
        ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("strides", ctypes.POINTER(ctypes.c_int64)),
        ("byte_offset", ctypes.c_uint64),
        ("context", ctypes.c_void_p),
        ("deleter", ctypes.c_void_p),
    ]


class _Offset:
    """Elements of a tensor from its eighth on, as a base pointer and an offset in bytes."""

    def __init__(self, base: torch.Tensor) -> None:
        self.base = base
        self.shape = (ctypes.c_int64 * 1)(base.numel() - 8)
        self.strides = (ctypes.c_int64 * 1)(1)
        kind = 2 if base.is_cuda else 1
        self.record = _Managed(
            base.data_ptr(),
            kind,
            base.device.index or 0,
            1,
            2,
            32,
            1,
            self.shape,
            self.strides,
            32,
            None,
            None,
        )

    def __dlpack__(self, **_: object) -> object:
        make = ctypes.pythonapi.PyCapsule_New
        make.restype, make.argtypes = ctypes.py_object, [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]
        return make(ctypes.addressof(self.record), b"dltensor", None)

    def __dlpack_device__(self) -> tuple[int, int]:
        return self.record.device_type, self.record.device_id


@pytest.mark.spec("case.byte-offset")
@pytest.mark.parametrize("target", TARGETS)
def test_a_base_pointer_with_an_offset(target):
    base, out = torch.arange(40.0, device=target), torch.zeros(32, device=target)
    jit(doubled, target=target)(_Offset(base), out)
    assert torch.equal(out, base[8:] * 2)


@func
def normed(x: Tensor[(M, N), "f32"], w: Tensor[(N,), "f32"]) -> Tensor[(M, N), "f32"]:
    return tf.rms_norm(x, w, eps=1e-6)


@pytest.mark.spec("case.awkward-rows")
@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize(("rows", "length"), [(7, 769), (3, 1), (3, 3), (3, 31), (3, 33), (3, 1025)])
def test_rows_of_awkward_lengths(target, rows, length):
    x, w = torch.randn(rows, length), torch.rand(length) + 0.5
    memory = torch.full((rows * length + 64,), 7.0, device=target)
    out = memory[32 : 32 + rows * length].view(rows, length)
    jit(normed, target=target)(x.to(target), w.to(target), out)
    wide = x.double()
    wanted = wide / torch.sqrt((wide * wide).mean(1, keepdim=True) + 1e-6) * w.double()
    torch.testing.assert_close(out.cpu(), wanted.float(), rtol=1e-5, atol=1e-6)
    assert (memory[:32] == 7).all() and (memory[32 + rows * length :] == 7).all()


@func
def extremes(
    x: Tensor[(M, N), "f32"],
) -> tuple[Tensor[(M,), "f32"], Tensor[(M,), "f32"], Tensor[(M,), "f32"], Tensor[(N,), "f32"]]:
    top = tf.reduce(x, axes=(1,), keepdim=False, kind="max")
    low = tf.reduce(x, axes=(1,), keepdim=False, kind="min")
    wide = tf.reduce(x, axes=(1,), keepdim=False, kind="absmax")
    return top, low, wide, tf.reduce(x, axes=(0,), keepdim=False, kind="max")


@pytest.mark.spec("case.nan-extremes")
@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("length", [3, 40, 2000])
def test_extremes_of_nan_negative_and_infinite_rows(target, length):
    x = -torch.rand(7, length) - 1.0
    x[0, 1] = float("nan")
    x[1, 2] = -float("nan")
    x[2] = float("-inf")
    x[3, 0] = float("inf")
    x[4] = -0.0
    out = jit(extremes, target=target)(x.to(target))
    wanted = evaluate(extremes, x)
    assert wanted[0].isnan().tolist() == [True, True] + [False] * 5 and wanted[0][5] < 0
    for got, want in zip(out, wanted, strict=True):
        torch.testing.assert_close(got.cpu(), want, rtol=0, atol=0, equal_nan=True)
