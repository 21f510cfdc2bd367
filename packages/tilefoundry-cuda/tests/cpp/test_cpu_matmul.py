"""Matrix products of the CPU surface, by its own loops and by a BLAS that a loader passes."""

from __future__ import annotations

import ctypes
from pathlib import Path

import numpy as np
import pytest

from .cpu_library import NUMPY, Library


class Table(ctypes.Structure):
    """tilefoundry_blas_table as a loader declares it."""

    _fields_ = [("size", ctypes.c_ulong), ("sgemm", ctypes.c_void_p), ("dgemm", ctypes.c_void_p)]


@pytest.fixture(params=["loops", "blas"])
def blas(request, cpu: Library):
    """The library with no table, and with one from the openblas wheel."""
    if request.param == "blas":
        openblas = pytest.importorskip("scipy_openblas32")
        name = Path(openblas.get_lib_dir()) / f"lib{openblas.get_library()}.so"
        handle = ctypes.CDLL(str(name))
        table = Table(
            ctypes.sizeof(Table),
            ctypes.cast(handle.scipy_cblas_sgemm, ctypes.c_void_p),
            ctypes.cast(handle.scipy_cblas_dgemm, ctypes.c_void_p),
        )
        cpu.handle.tilefoundry_set_blas(ctypes.byref(table))
    yield cpu
    cpu.handle.tilefoundry_set_blas(None)


MATMULS = [("f32", "f32"), ("f64", "f64"), ("bf16", "bf16"), ("f16", "f32"), ("i32", "i32"), ("i8", "i32")]


@pytest.mark.spec("cpp.cpu")
@pytest.mark.parametrize(("source", "target"), MATMULS)
def test_matmul(blas: Library, source: str, target: str):
    """Oracle: numpy in float64 (int64 for integers), all transpositions, batches, shared right operands."""
    rng = np.random.default_rng(2)
    for batch, m, n, k in (
        (1, 1, 1, 1),
        (3, 5, 17, 33),
        (1, 64, 130, 70),
        (40, 4, 16, 8),
        (2, 3, 5, 0),
        (1, 1, 600, 40),
    ):
        for at, bt, shared in ((0, 0, 0), (1, 0, 1), (0, 1, 0), (1, 1, 0)):
            low, high = (-100, 100) if source.startswith("i") else (-1, 1)
            a = rng.uniform(low, high, (batch, m, k)).astype(NUMPY[source])
            b = rng.uniform(low, high, (batch, k, n)).astype(NUMPY[source])
            out = np.ones((batch, m, n), NUMPY[target])
            stored_a = np.ascontiguousarray(a.swapaxes(1, 2)) if at else a
            stored_b = np.ascontiguousarray(b.swapaxes(1, 2)) if bt else b
            blas(f"matmul_{source}_{target}", stored_a, stored_b, out, batch, m, n, k, at, bt, shared)
            wide = np.int64 if source.startswith("i") else np.float64
            right = np.broadcast_to(b[:1], b.shape) if shared else b
            want = a.astype(wide) @ right.astype(wide)
            absolute = np.abs(a.astype(wide)) @ np.abs(right.astype(wide))
            exact = {"f32": 3e-7, "bf16": 3e-7, "f64": 1e-15}.get(target, 0)
            rounding = 4e-3 if target == "bf16" else exact
            error = np.abs(out.astype(np.float64) - want.astype(np.float64))
            assert (error <= exact * absolute * max(k, 1) ** 0.5 + rounding * np.abs(want)).all()
