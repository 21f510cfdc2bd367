"""Dtypes, storage kinds, tensor and tuple types. Oracle: the stated lists and rules."""

from __future__ import annotations

import copy
import pickle

import pytest
import torch

from tilefoundry.ir.core.kinds import BinaryKind, ReduceKind, UnaryKind
from tilefoundry.ir.types import DimVar, DType, StorageKind, TensorType, TupleType
from tilefoundry.ir.types.shard import P

N = DimVar("N", 1, 100)
DTYPES = [
    "f32",
    "f16",
    "bf16",
    "fp8e4m3",
    "fp8e5m2",
    "f8e8m0",
    "f4e2m1",
    "f64",
    "i8",
    "u8",
    "i16",
    "i32",
    "i64",
    "bool",
]


@pytest.mark.spec("types.dtypes")
def test_dtypes_are_one_object_per_name():
    assert list(DType.names()) == DTYPES
    for name in DTYPES:
        dtype = DType.from_name(name)
        assert DType.from_name(dtype) is dtype is DType.from_name(str(dtype))
        assert copy.copy(dtype) is dtype is copy.deepcopy(dtype) is pickle.loads(pickle.dumps(dtype))
        assert getattr(DType, "bool_" if name == "bool" else name) is dtype
        if dtype.torch_name is not None:
            assert torch.empty(0, dtype=getattr(torch, dtype.torch_name)).element_size() * 8 == dtype.bits


@pytest.mark.spec("types.dtypes")
@pytest.mark.parametrize(
    ("door", "kind", "names"),
    [
        (DType.from_name, "dtype", DTYPES),
        (StorageKind.from_name, "storage", [k.value for k in StorageKind]),
        (StorageKind, "storage", [k.value for k in StorageKind]),
        (ReduceKind, "ReduceKind", ["sum", "mean", "max", "min", "absmax"]),
        (UnaryKind, "UnaryKind", [k.value for k in UnaryKind]),
        (BinaryKind, "BinaryKind", [k.value for k in BinaryKind]),
        (P, "ReduceKind", ["sum", "mean", "max", "min", "absmax"]),
    ],
)
def test_every_string_door_lists_its_names(door, kind, names):
    with pytest.raises(ValueError, match=f"unknown {kind} 'nope'; .*{', '.join(names)}"):
        door("nope")


@pytest.mark.spec("types.dtypes")
def test_a_dtype_is_a_name_or_a_dtype():
    with pytest.raises(TypeError, match="a dtype is a name or a DType, got int: 3"):
        DType.from_name(3)


@pytest.mark.spec("types.storage")
def test_storage_kinds():
    assert [str(k) for k in StorageKind] == ["host", "gmem", "smem", "rmem", "tmem", "undecided"]
    assert StorageKind.from_name("smem") is StorageKind("smem") is StorageKind.from_name(StorageKind.SMEM)
    assert TensorType((), "f32").storage is StorageKind.UNDECIDED


@pytest.mark.spec("types.tensor")
def test_a_tensor_type_and_a_tuple_of_them():
    t = TensorType((N, 4), "bf16", storage="gmem")
    assert (t.rank, t.size, t.is_static, str(t)) == (2, 4 * N, False, "bf16[N, 4]")
    assert t.dtype is DType.bf16 and t.concrete_shape({"N": 3}) == (3, 4)
    assert TensorType([2, 0], "f32").size == 0
    scalar = TensorType((), "i64")
    assert (scalar.rank, scalar.size, str(scalar)) == (0, 1, "i64[]")
    assert t.same_value_type(TensorType((N, 4), "bf16")) and t != TensorType((N, 4), "bf16")
    assert not t.same_value_type(TensorType((N, 4), "f32"))
    both = TupleType((t, scalar))
    assert str(both) == "tuple[bf16[N, 4], i64[]]" and not both.same_value_type(TupleType((t,)))


@pytest.mark.spec("types.tensor")
@pytest.mark.parametrize(
    ("make", "error", "message"),
    [
        (lambda: TensorType((-1,), "f32"), ValueError, "an extent cannot be negative, got -1"),
        (
            lambda: TensorType((True,), "f32"),
            TypeError,
            "an extent is an int, a DimVar or an expression .* True",
        ),
        (lambda: TensorType((1.0,), "f32"), TypeError, r"an extent is an int, .* got 1\.0"),
        (lambda: TensorType(4, "f32"), TypeError, r"a shape is a tuple of extents, got 4; .* \(4,\)"),
        (lambda: TensorType((N - 200,), "f32"), ValueError, "the extent .* is negative for every value"),
        (lambda: TensorType((1,), "f31"), ValueError, "unknown dtype 'f31'"),
        (lambda: TensorType((1,), "f32", storage="ram"), ValueError, "unknown storage 'ram'"),
        (lambda: TupleType((3,)), TypeError, "a TupleType holds types, got 3"),
    ],
)
def test_refused_types(make, error, message):
    with pytest.raises(error, match=message):
        make()
