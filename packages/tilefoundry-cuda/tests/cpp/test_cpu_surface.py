"""The CPU surface against numpy in float64 and against ml_dtypes, through a compiled C interface."""

from __future__ import annotations

import ctypes
import subprocess
from math import erf
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest

ROOT = Path(__file__).resolve().parents[4]
SOURCE = (ROOT / "cpp-runtime/tests/host/cpu_surface.cc").read_text()
BF16 = ml_dtypes.bfloat16


class Library:
    """A loaded library whose functions take arrays, ints and floats."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.handle = ctypes.CDLL(str(path))

    def __call__(self, name: str, *args: Any) -> int:
        function = getattr(self.handle, name)
        return function(*(self.argument(a) for a in args))

    @staticmethod
    def argument(value: Any) -> Any:
        if isinstance(value, np.ndarray):
            return ctypes.c_void_p(value.ctypes.data)
        return ctypes.c_double(value) if isinstance(value, float) else ctypes.c_int64(value)


@pytest.fixture(scope="module", params=["-O2 -fopenmp", "-O0"])
def cpu(request, cpu_gxx) -> Library:
    """The surface with threads, and without OpenMP."""
    built = cpu_gxx(SOURCE, *request.param.split(), "-shared", "-fPIC")
    assert built.ok, built.log
    library = Library(built.path)
    library("tilefoundry_set_num_threads", 2)
    return library


def all_floats() -> np.ndarray:
    """Every upper half of a float, with four lower halves that sit on and beside rounding ties."""
    high = np.arange(1 << 16, dtype=np.uint32)[:, None] << 16
    return (high | np.array([0, 1, 0x8000, 0xFFFF], np.uint32)).reshape(-1).view(np.float32)


FORMATS = {
    "f16": (np.float16, np.uint16),
    "bf16": (BF16, np.uint16),
    "fp8e4m3": (ml_dtypes.float8_e4m3fn, np.uint8),
    "fp8e5m2": (ml_dtypes.float8_e5m2, np.uint8),
    "f4e2m1": (ml_dtypes.float4_e2m1fn, np.uint8),
}


@pytest.mark.parametrize("name", FORMATS)
def test_narrowing_rounds_like_ml_dtypes(cpu: Library, name: str):
    """Oracle: ml_dtypes on a quarter of a million floats; NaN only has to stay NaN."""
    dtype, bits = FORMATS[name]
    floats = all_floats()
    if name == "f4e2m1":
        floats = floats[~np.isnan(floats)]
    out = np.zeros(floats.size, bits)
    cpu(f"to_{name}", floats, out, floats.size)
    with np.errstate(all="ignore"):
        want = floats.astype(dtype)
    nan = np.isnan(want.astype(np.float32))
    assert np.array_equal(np.isnan(out.view(dtype).astype(np.float32)), nan)
    assert np.array_equal(out[~nan], want.view(bits)[~nan])


@pytest.mark.parametrize("name", [*FORMATS, "f8e8m0"])
def test_widening_is_exact(cpu: Library, name: str):
    """Oracle: ml_dtypes on every code."""
    dtype, bits = {**FORMATS, "f8e8m0": (ml_dtypes.float8_e8m0fnu, np.uint8)}[name]
    codes = np.arange(16 if name == "f4e2m1" else 1 << (8 * np.dtype(bits).itemsize)).astype(bits)
    out = np.zeros(codes.size, np.float32)
    cpu(f"from_{name}", codes, out, codes.size)
    np.testing.assert_array_equal(out, codes.view(dtype).astype(np.float32))


def test_e8m0_takes_the_nearest_power_of_two(cpu: Library):
    """Oracle: ml_dtypes, live: ties go up; zero and negative values, which the format has not, give NaN."""
    edges = [1, 1.49, 1.5, 1.51, 3, 6, 0.75, 0, -4, np.inf, np.nan, 2.0**-127, 1.5 * 2.0**-127, 2.0**-149]
    values = np.concatenate([np.array(edges, np.float32), all_floats()])
    out = np.zeros(values.size, np.uint8)
    cpu("to_f8e8m0", values, out, values.size)
    with np.errstate(invalid="ignore"):
        want = values.astype(ml_dtypes.float8_e8m0fnu).view(np.uint8)
    np.testing.assert_array_equal(out, want)


def test_float_to_integer_truncates_and_saturates(cpu: Library):
    floats = np.array([0.9, -0.9, 2.5e9, -2.5e9, np.nan, np.inf, 2147483520, -2147483648], np.float32)
    out = np.zeros(floats.size, np.int32)
    cpu("convert_f32_i32", floats, out, floats.size)
    assert out.tolist() == [0, 0, 2**31 - 1, -(2**31), 0, 2**31 - 1, 2147483520, -(2**31)]
    wide = np.array([1e19, -1e19, 2.0**62, np.nan])
    out64 = np.zeros(4, np.int64)
    cpu("convert_f64_i64", wide, out64, 4)
    assert out64.tolist() == [2**63 - 1, -(2**63), 2**62, 0]


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


UNARY = {
    "neg": np.negative, "abs": np.abs, "square": np.square, "sqrt": np.sqrt,
    "rsqrt": lambda x: 1 / np.sqrt(x), "exp": np.exp, "exp2": np.exp2, "log": np.log, "log2": np.log2,
    "ceil": np.ceil, "floor": np.floor, "round": np.rint, "sin": np.sin, "cos": np.cos,
    "erf": np.vectorize(erf, otypes=[np.float64]), "relu": lambda x: np.where(x < 0, 0, x), "sigmoid": sigmoid,
    "silu": lambda x: x * sigmoid(x), "tanh": np.tanh,
    "gelu": lambda x: 0.5 * x * (1 + np.vectorize(erf, otypes=[np.float64])(x / np.sqrt(2))),
    "gelu_tanh": lambda x: 0.5 * x * (1 + np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x**3))),
    "softplus": lambda x: np.logaddexp(x, 0), "identity": lambda x: x,
}  # fmt: skip
SIZES = (1, 3, 15, 16, 17, 1025, 100_003)


@pytest.mark.parametrize("name", UNARY)
@pytest.mark.parametrize("dtype", ["f32", "f64", "bf16"])
def test_unary(cpu: Library, name: str, dtype: str):
    """Oracle: numpy in float64. Bounds: a few units in the last place, absolute where results cancel."""
    kind = {"f32": np.float32, "f64": np.float64, "bf16": BF16}[dtype]
    relative = {"f32": 5e-7, "f64": 1e-14, "bf16": 4e-3}[dtype]
    absolute = {"f32": 1e-6, "f64": 1e-14, "bf16": 1e-6}[dtype] if "gelu" in name else 1e-30
    rng = np.random.default_rng(len(name))
    for size in SIZES:
        x = rng.uniform(0.01 if name in ("sqrt", "rsqrt", "log", "log2") else -9, 9, 2 * size).astype(kind)
        for step in (1, 2):
            out = np.zeros(size, kind)
            cpu(f"unary_{name}_{dtype}_{dtype}", x, out, size, step)
            want = UNARY[name](x[: size * step : step].astype(np.float64))
            np.testing.assert_allclose(out.astype(np.float64), want, rtol=relative, atol=absolute)


@pytest.mark.parametrize("name", ["exp", "sigmoid", "silu", "tanh", "relu", "gelu", "softplus"])
def test_unary_at_the_edges(cpu: Library, name: str):
    """NaN stays NaN; infinities and large arguments take the formula's limits."""
    limits = {
        "exp": [0, np.inf, 0, np.inf, 1],
        "sigmoid": [0, 1, 0, 1, 0.5],
        "silu": [np.nan, np.inf, 0, 200, 0],
        "tanh": [-1, 1, -1, 1, 0],
        "relu": [0, np.inf, 0, 200, 0],
        "gelu": [np.nan, np.inf, 0, 200, 0],
        "softplus": [0, np.inf, 0, 200, np.log(2)],
    }[name]
    x = np.array([-np.inf, np.inf, -200, 200, 0, np.nan], np.float32)
    out = np.zeros(6, np.float32)
    cpu(f"unary_{name}_f32_f32", x, out, 6, 1)
    np.testing.assert_allclose(out, np.array([*limits, np.nan], np.float32), atol=1e-30, rtol=1e-6)


def test_exp_over_its_whole_range(cpu: Library):
    """Oracle: float64 exp on a million floats from underflow to overflow; the stated bound is 2 ulp."""
    x = np.linspace(-104, 88.7, 1_000_001).astype(np.float32)
    out = np.zeros_like(x)
    cpu("unary_exp_f32_f32", x, out, x.size, 1)
    want = np.exp(x.astype(np.float64))
    ulp = np.abs(out - want) / np.spacing(want.astype(np.float32)).astype(np.float64)
    assert ulp.max() <= 2.0


def test_integers_wrap(cpu: Library):
    x = np.array([-(2**31), 5, -7, 70000], np.int32)
    for name, want in {"neg": -x, "abs": np.abs(x), "square": x * x}.items():
        out = np.zeros(4, np.int32)
        cpu(f"unary_{name}_i32_i32", x, out, 4, 1)
        np.testing.assert_array_equal(out, want)


def floor_div(a, b):
    return np.where(b == 0, 0, a // np.where(b == 0, 1, b)) if a.dtype.kind == "i" else np.floor_divide(a, b)


def modulo(a, b):
    return np.where(b == 0, 0, a % np.where(b == 0, 1, b)) if a.dtype.kind == "i" else np.mod(a, b)


def quotient(a, b):
    if a.dtype.kind != "i":
        return a / b
    wide = a.astype(np.int64), np.where(b == 0, 1, b).astype(np.int64)
    whole = np.sign(wide[0]) * np.sign(wide[1]) * (np.abs(wide[0]) // np.abs(wide[1]))
    return np.where(b == 0, 0, whole).astype(np.int32)


BINARY = {
    "add": np.add, "sub": np.subtract, "mul": np.multiply, "div": quotient, "floor_div": floor_div, "mod": modulo,
    "minimum": np.minimum, "maximum": np.maximum, "cmp_eq": np.equal, "cmp_ne": np.not_equal, "cmp_lt": np.less,
    "cmp_le": np.less_equal, "cmp_gt": np.greater, "cmp_ge": np.greater_equal, "logical_and": np.logical_and,
    "logical_or": np.logical_or,
}  # fmt: skip


@pytest.mark.parametrize("name", BINARY)
@pytest.mark.parametrize("dtype", ["f32", "i32"])
def test_binary(cpu: Library, name: str, dtype: str):
    """Oracle: numpy, elementwise and broadcast; numpy computes these float operations exactly rounded as well."""
    rng = np.random.default_rng(5)
    rows, columns = 37, 1003
    for low, high in ((-5, 5), (-(2**31), 2**31 - 1)):
        if dtype == "f32":
            a, b = (rng.uniform(-9, 9, (rows, columns)).astype(np.float32) for _ in range(2))
            b[::3] = a[::3]
            a[1, :7] = [np.nan, np.inf, -np.inf, 0, -0.0, np.nan, 1]
            b[1, :7] = [1, 2, 3, 0, 5, np.nan, np.nan]
        else:
            a, b = (rng.integers(low, high, (rows, columns), dtype=np.int32) for _ in range(2))
            b[0, :3], a[0, :3] = [0, -1, -1], [7, -(2**31), 5]
        with np.errstate(all="ignore"):
            want, rowed = BINARY[name](a, b), BINARY[name](a[3][None, :], b[:, 3][:, None])
        out = np.zeros((rows, columns), bool if name.startswith(("cmp", "log")) else a.dtype)
        cpu(f"binary_{name}_{dtype}", a, b, out, rows, columns)
        np.testing.assert_array_equal(out, want)
        cpu(f"broadcast_{name}_{dtype}", a[3].copy(), b[:, 3].copy(), out, rows, columns)
        np.testing.assert_array_equal(out, rowed)


REDUCE = {
    "sum": np.sum,
    "mean": np.mean,
    "max": np.max,
    "min": np.min,
    "absmax": lambda x, axis: np.abs(x).max(axis),
}
REDUCTIONS = [(op, s, d) for op in ("sum", "max", "min", "absmax") for s, d in
              [("f32", "f32"), ("bf16", "bf16"), ("f64", "f64"), ("i32", "i32"), ("i8", "i64")]]  # fmt: skip
REDUCTIONS += [("mean", "f32", "f32"), ("mean", "bf16", "bf16"), ("mean", "i32", "f32")]
NUMPY = {"f32": np.float32, "f64": np.float64, "bf16": BF16, "f16": np.float16, "i32": np.int32, "i8": np.int8,
         "i64": np.int64}  # fmt: skip


@pytest.mark.parametrize(("op", "source", "target"), REDUCTIONS)
def test_reduce(cpu: Library, op: str, source: str, target: str):
    """Oracle: numpy in float64 (int64 for integers) over each axis of ragged shapes, NaN included."""
    rng = np.random.default_rng(3)
    for shape in ((1, 1, 1), (3, 5, 31), (2, 33, 1025), (7, 2, 16)):
        low, high = (-100, 30) if source.startswith("i") else (-3, 1)
        x = rng.uniform(low, high, shape).astype(NUMPY[source])
        for poison in (False, True):
            if poison and source.startswith("i"):
                continue
            if poison:
                x[0, 0, 0] = np.nan
            for axis in range(3):
                kept = [n for d, n in enumerate(shape) if d != axis]
                out = np.zeros(kept, NUMPY[target])
                cpu(f"reduce_{op}_{source}_{target}", x, out, *shape, axis)
                wide = x.astype(np.int64 if source.startswith("i") else np.float64)
                want = REDUCE[op](wide, axis=axis).astype(NUMPY[target]).astype(np.float64)
                scale = np.abs(wide).sum(axis=axis) if op in ("sum", "mean") else np.zeros(kept)
                exact = {"f32": 3e-7, "bf16": 4e-3, "f64": 1e-15}.get(target, 0)
                bound = exact * (scale / (shape[axis] if op == "mean" else 1)) + exact * np.abs(want)
                got = out.astype(np.float64)
                assert np.array_equal(np.isnan(got), np.isnan(want))
                ok = ~np.isnan(want)
                assert (np.abs(got - want)[ok] <= bound[ok]).all()


def test_empty_reduction(cpu: Library):
    """Nothing to sum is 0; nothing to average is NaN."""
    empty, out = np.zeros((2, 3, 0), np.float32), np.ones((2, 3), np.float32)
    cpu("reduce_sum_f32_f32", empty, out, 2, 3, 0, 2)
    assert (out == 0).all()
    cpu("reduce_mean_f32_f32", empty, out, 2, 3, 0, 2)
    assert np.isnan(out).all()


def test_full_reduction_into_a_scalar(cpu: Library):
    x = np.random.default_rng(0).uniform(-1, 1, (129, 77)).astype(np.float32)
    out = np.zeros((), np.float32)
    cpu("reduce_all", x, out, 129, 77)
    np.testing.assert_allclose(out, x.astype(np.float64).sum(), atol=1e-4)


@pytest.mark.parametrize("dtype", ["f32", "f64", "bf16"])
@pytest.mark.parametrize("shape", [(1, 1), (3, 31), (65, 1025), (7, 769)])
def test_row_kernels(cpu: Library, dtype: str, shape: tuple[int, int]):
    """Oracle: the float64 formulas of softmax (both axes), rms_norm and layer_norm."""
    kind = NUMPY[dtype]
    bound = {"f32": 3e-6, "f64": 1e-13, "bf16": 1.6e-2}[dtype]
    rng = np.random.default_rng(1)
    x, w, b = (rng.uniform(-4, 4, s).astype(kind) for s in (shape, shape[1:], shape[1:]))
    wide, weight, bias = (v.astype(np.float64) for v in (x, w, b))
    out = np.zeros(shape, kind)
    for axis in (0, 1):
        cpu(f"softmax_{dtype}", x, out, *shape, axis)
        e = np.exp(wide - wide.max(axis, keepdims=True))
        np.testing.assert_allclose(
            out.astype(np.float64), e / e.sum(axis, keepdims=True), rtol=bound, atol=1e-12
        )
    cpu(f"rms_norm_{dtype}", x, w, out, *shape, 1e-5)
    want = wide / np.sqrt((wide**2).mean(1, keepdims=True) + 1e-5) * weight
    np.testing.assert_allclose(out.astype(np.float64), want, rtol=bound, atol=bound)
    cpu(f"layer_norm_{dtype}", x, w, b, out, *shape, 1e-5)
    centred = wide - wide.mean(1, keepdims=True)
    want = centred / np.sqrt((centred**2).mean(1, keepdims=True) + 1e-5) * weight + bias
    np.testing.assert_allclose(out.astype(np.float64), want, rtol=bound, atol=2 * bound)


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


def test_small_work_opens_no_parallel_region(cpu: Library):
    """The threshold decides; every item is visited exactly once either way."""
    threaded = cpu("threads_used", 1 << 20, 1) == 2
    assert cpu("threads_used", 1000, 1) == 1
    for items, cost in ((0, 1), (1, 10**9), (1000, 1), (1 << 20, 1), (3, 10**9)):
        hits = np.zeros(max(items, 1), np.int32)
        chunks = cpu("cover", items, cost, hits)
        assert (hits[:items] == 1).all()
        assert chunks == (0 if items == 0 else 2 if threaded and items > 1 and items * cost > 1 << 17 else 1)


def test_thread_count_comes_from_the_loader(cpu: Library):
    if cpu("threads_used", 1 << 30, 1) == 1:
        pytest.skip("this build has no OpenMP")
    try:
        for threads in (1, 2, 7):
            cpu("tilefoundry_set_num_threads", threads)
            assert cpu("threads_used", 1 << 30, 1) == threads
    finally:
        cpu("tilefoundry_set_num_threads", 2)


def test_moves(cpu: Library):
    x = np.arange(35, dtype=np.float32).reshape(5, 7)
    out = np.zeros((7, 5), np.float32)
    cpu("transpose", x, out, 5, 7)
    np.testing.assert_array_equal(out, x.T)
    strided = np.zeros(12, np.float32)
    cpu("fill_strided", strided, 4, 3, 2.5)
    assert strided.tolist() == [2.5, 0, 0] * 4
    clamped = np.zeros(4, np.float32)
    cpu("clamp_f32", np.array([-9, 0.5, 9, np.nan], np.float32), clamped, 4, -1.0, 1.0)
    np.testing.assert_array_equal(clamped, np.array([-1, 0.5, 1, np.nan], np.float32))


def test_library_needs_no_blas_and_shares_no_state(cpu: Library):
    """Oracle: the dynamic section; the tables are local to the library, the two setters are exported."""
    listing = subprocess.run(["nm", "-D", str(cpu.path)], capture_output=True, text=True, check=True).stdout
    names = {line.split()[-1]: line.split()[-2] for line in listing.splitlines()}
    assert not [n for n in names if "gemm" in n.lower() and names[n] == "U"]
    assert names["tilefoundry_set_blas"] in "TW"
    assert names["tilefoundry_set_num_threads"] in "TW"
    assert not [n for n in names if "thread_limit" in n or "blas_sgemm" in n]
