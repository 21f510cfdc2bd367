"""Run one op on numpy arrays, and compare with exact values inside the bounds table.

Arrays of types that numpy lacks carry their ml_dtypes type; ``astype(np.float64)`` gives their exact values.
"""

from __future__ import annotations

import os
from types import SimpleNamespace
from typing import Any

import ml_dtypes
import numpy as np
import pytest
import torch

from tilefoundry.evaluator import evaluate
from tilefoundry.evaluator.bounds import error_bound
from tilefoundry.ir.core.expr import Bind, Block, Var
from tilefoundry.ir.hir import HIR_OPS
from tilefoundry.ir.hir.function import Function
from tilefoundry.ir.types import DType, TensorType, TupleType

DEVICE = os.environ.get("TILEFOUNDRY_TEST_DEVICE", "cpu")
"""Where the ops run; the oracles stay on the host."""

NUMPY = {
    "f64": np.float64,
    "f32": np.float32,
    "f16": np.float16,
    "bf16": ml_dtypes.bfloat16,
    "fp8e4m3": ml_dtypes.float8_e4m3fn,
    "fp8e5m2": ml_dtypes.float8_e5m2,
    "f8e8m0": ml_dtypes.float8_e8m0fnu,
    "f4e2m1": ml_dtypes.float4_e2m1fn,
    "i8": np.int8,
    "u8": np.uint8,
    "i16": np.int16,
    "i32": np.int32,
    "i64": np.int64,
    "bool": np.bool_,
}
_NAME = {np.dtype(kind): name for name, kind in NUMPY.items()}


def to_torch(array: Any) -> torch.Tensor:
    """The tensor with the same bytes; f4e2m1 as uint8 codes."""
    array = np.asarray(array)
    dtype = DType.from_name(_NAME[array.dtype])
    target = torch.uint8 if dtype.torch_name is None else getattr(torch, dtype.torch_name)
    if not array.size:
        return torch.empty(array.shape, dtype=target, device=DEVICE)
    raw = np.ascontiguousarray(array).reshape(-1).view(np.uint8).copy()
    return torch.from_numpy(raw).to(DEVICE).view(target).reshape(array.shape)


def to_numpy(tensor: torch.Tensor, dtype: DType) -> Any:
    """The array with the same bytes, under the numpy type of ``dtype``."""
    flat = tensor.detach().cpu().contiguous().reshape(-1)
    raw = flat.view(torch.uint8).numpy() if flat.numel() else np.zeros(0, np.uint8)
    return raw.view(NUMPY[dtype.name]).reshape(tuple(tensor.shape))


def type_of(array: Any) -> TensorType:
    """The static type of an array."""
    array = np.asarray(array)
    return TensorType(array.shape, _NAME[array.dtype])


def infer(op: str, *types: Any, **attrs: Any) -> Any:
    """The result type of an op on operands of these types."""
    return HIR_OPS[op].call(tuple(Var(t, f"x{i}") for i, t in enumerate(types)), attrs).type


def function_of(op: str, types: tuple[Any, ...], attrs: dict[str, Any]) -> Function:
    """A function whose body is one call."""
    params = tuple(Var(type_, f"x{i}") for i, type_ in enumerate(types))
    call = HIR_OPS[op].call(params, attrs)
    out = Var(call.type, "out")
    return Function("f", params, call.type, Block((Bind(out, call),), (out,)))


def run(op: str, *arrays: Any, types: tuple[Any, ...] | None = None, **attrs: Any) -> Any:
    """The op's value on arrays, as arrays; ``types`` gives dynamic operand types. Result extents are checked."""
    types = types or tuple(type_of(array) for array in arrays)
    function = function_of(op, types, attrs)
    tensors = tuple(to_torch(array) for array in arrays)
    before = [tensor.clone() for tensor in tensors]
    result = evaluate(function, *tensors, device=DEVICE)
    for tensor, kept in zip(tensors, before, strict=True):
        same = tensor.reshape(-1).view(torch.uint8), kept.reshape(-1).view(torch.uint8)
        assert torch.equal(*same) or not tensor.numel(), "an evaluator wrote to its operand"
    return _results(result, function.result)


def _results(value: Any, type_: Any) -> Any:
    if isinstance(type_, TupleType):
        return tuple(_results(v, t) for v, t in zip(value, type_.elements, strict=True))
    if type_.is_static:
        assert tuple(value.shape) == type_.shape
    return to_numpy(value, type_.dtype)


def sample(shape: tuple[int, ...], dtype: str, seed: int = 0, low: float = -2.0, high: float = 2.0) -> Any:
    """Reproducible values of a dtype: floats uniform in a range, integers from it, bools at random."""
    rng = np.random.default_rng(seed + 7919 * len(shape))
    kind = DType.from_name(dtype).kind
    if kind == "bool":
        return rng.random(shape) < 0.5
    if kind in ("int", "uint"):
        return rng.integers(
            max(int(low * 30), 0 if kind == "uint" else -120), int(high * 30) + 1, shape
        ).astype(NUMPY[dtype])
    return np.asarray(rng.uniform(low, high, shape)).astype(NUMPY[dtype])


def exact(array: Any) -> Any:
    """The values as float64, exactly."""
    return np.asarray(array).astype(np.float64)


def assert_close(actual: Any, expected: Any, length: int = 1, magnitude: Any = 0.0, steps: int = 1) -> None:
    """``actual``, of its own dtype, lies within the bounds table of the float64 ``expected``; NaN equals NaN."""
    name = _NAME[np.asarray(actual).dtype]
    expected = np.asarray(expected, np.float64)
    got = exact(actual)
    assert got.shape == expected.shape, (got.shape, expected.shape)
    bound = error_bound(DType.from_name(name), length, steps)
    limit = bound.limit(np.where(np.isfinite(expected), expected, 0.0), magnitude)
    largest = float(ml_dtypes.finfo(NUMPY[name]).max)
    overflow = np.abs(expected) > largest
    same = (got == expected) | (np.isnan(got) & np.isnan(expected))
    with np.errstate(invalid="ignore"):
        near = np.abs(got - expected) <= limit
    wrong = ~(same | near | (overflow & ~np.isfinite(got)))
    assert not wrong.any(), (
        f"{int(wrong.sum())} of {wrong.size} differ, first: got {got[wrong][0]!r}, expected {expected[wrong][0]!r}, "
        f"allowed {np.broadcast_to(limit, got.shape)[wrong][0]!r}"
    )


def assert_same(actual: Any, expected: Any) -> None:
    """Equal dtype, shape and bytes."""
    actual, expected = np.asarray(actual), np.asarray(expected)
    assert actual.dtype == expected.dtype, (actual.dtype, expected.dtype)
    assert actual.shape == expected.shape, (actual.shape, expected.shape)
    assert actual.tobytes() == expected.tobytes(), (actual, expected)


@pytest.fixture(scope="session")
def ops() -> Any:
    """The functions of this file under one name."""
    return SimpleNamespace(
        NUMPY=NUMPY,
        to_torch=to_torch,
        to_numpy=to_numpy,
        type_of=type_of,
        infer=infer,
        function_of=function_of,
        run=run,
        sample=sample,
        exact=exact,
        assert_close=assert_close,
        assert_same=assert_same,
    )
