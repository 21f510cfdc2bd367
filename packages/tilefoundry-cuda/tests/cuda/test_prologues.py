"""Products that compute an operand while they read it. Oracles: the evaluator, kernels and bytes counted by hand."""

from __future__ import annotations

import pytest

from tilefoundry import CompilerOptions, func, lower
from tilefoundry.codegen import explain
from tilefoundry.codegen.cuda import BACKEND
from tilefoundry.dsl import DimVar, Tensor, tf
from tilefoundry.ir.tir import Launch, PrimFunction, Slab, walk_tir
from tilefoundry.target import CudaTarget

from ..cpu.harness import Program, compare, random_tensor
from ..placed_text import same_code
from .emulating import run_emulated
from .runners import compile_for, computing_with, run_on_gpu

H200 = CudaTarget("nvidia.h200_sxm")
N = DimVar("N", 1, 5000)


def _turned(p, w):
    return p("transpose", w, perm=(1, 0))


def widened(p, rows, k, n, narrow, wide):
    """Weights as rows of k; nothing but a cast."""
    w = p("cast", p.param("w", (n, k), narrow), dtype=wide)
    return p("matmul", p.param("x", (rows, k), wide), _turned(p, w))


def scaled(p, rows, k, n, narrow, wide):
    """Weights as rows of columns, a scale per column, a bias after."""
    w = p("cast", p.param("w", (k, n), narrow), dtype=wide)
    w = p("mul", w, p.param("s", (n,), wide))
    product = p("matmul", p.param("x", (rows, k), wide), w)
    return p("gelu", p("add", product, p.param("b", (n,), wide)), approximate="tanh")


def shifted(p, rows, k, n, narrow, wide):
    """A zero point and a scale per row of weights, which are turned after; a residual of the result's own shape."""
    w = p("cast", p.param("w", (n, k), narrow), dtype=wide)
    w = p("mul", p("sub", w, p.param("z", (n, 1), wide)), p.param("s", (n, 1), wide))
    return p("add", p("matmul", p.param("x", (rows, k), wide), _turned(p, w)), p.param("r", (rows, n), wide))


def by_row(p, rows, k, n, narrow, wide):
    """A scale per row of k, itself narrow: it is widened once for all columns."""
    s = p("cast", p.param("s", (k, 1), "f16"), dtype=wide)
    w = p("mul", p("cast", p.param("w", (k, n), narrow), dtype=wide), s)
    return p("matmul", p.param("x", (rows, k), wide), w)


def turned_scale(p, rows, k, n, narrow, wide):
    """The scaled weights are turned, so that their own columns are the product's k."""
    w = p("mul", p("cast", p.param("w", (n, k), narrow), dtype=wide), p.param("s", (k,), wide))
    return p("matmul", p.param("x", (rows, k), wide), _turned(p, w))


def gated(p, rows, k, n, narrow, wide):
    """Both operands: two values joined on the left, a cast on the right."""
    h = p("mul", p("relu", p.param("g", (rows, k), wide)), p.param("u", (rows, k), wide))
    return p("matmul", h, _turned(p, p("cast", p.param("w", (n, k), narrow), dtype=wide)))


def heads(p, rows, k, n, narrow, wide):
    """A matrix of weights for each of several."""
    w = p("mul", p("cast", p.param("w", (3, k, n), narrow), dtype=wide), p.param("s", (3, 1, n), wide))
    return p("matmul", p.param("x", (3, rows, k), wide), w)


FORMS = (widened, scaled, shifted, by_row, turned_scale, gated, heads)
KINDS = (("bf16", "f32"), ("i8", "bf16"), ("i8", "f32"), ("fp8e4m3", "bf16"), ("i8", "f16"), ("f16", "f32"))
SHAPES = ((1, 264, 70), (3, 40, 64), (8, 144, 33), (2, 37, 5), (5, 16, 1))
MORE_ROWS = ((17, 80, 48), (32, 264, 70), (9, 37, 5))
"""Of 16-bit products, which are multiplied on matrix instructions."""


def _case(form, rows, k, n, narrow, wide):
    program = Program()
    function = program.done(form(program, rows, k, n, narrow, wide))
    tensors = []
    for i, param in enumerate(program.params):
        # Small weights and scales keep 16-bit floats far from their largest value.
        tensor = random_tensor(tuple(param.type.shape), param.type.dtype.name, 7 * i + rows)
        tensors.append(tensor if tensor.dtype.itemsize == 1 or param.name == "x" else (tensor * 0.25))
    return function, tensors


def _shapes(form, wide):
    return (*SHAPES, *MORE_ROWS) if wide != "f32" and form is not gated else SHAPES


def _cases(form, narrow, wide):
    return [_case(form, rows, k, n, narrow, wide) for rows, k, n in _shapes(form, wide)]


def _kernels(function):
    functions = [f for f in lower(function, target=H200).functions if isinstance(f, PrimFunction)]
    return sum(isinstance(stmt, Launch) for f in functions for stmt in walk_tir(f.body))


@pytest.mark.parametrize("form", FORMS, ids=lambda form: form.__name__)
def test_one_kernel_and_the_same_from_its_text(form):
    for wide in ("f32", "bf16"):
        for rows, k, n in _shapes(form, wide):
            function, _ = _case(form, rows, k, n, "i8", wide)
            assert _kernels(function) == 1, function
            if k in (264, 37):
                same_code(function, H200)


@pytest.mark.parametrize(
    ("form", "kinds"),
    [
        (scaled, ("i8", "f32")),
        (shifted, ("i8", "bf16")),
        (gated, ("bf16", "f32")),
        (heads, ("fp8e4m3", "bf16")),
    ],
)
@pytest.mark.emulated
def test_on_an_emulated_block(form, kinds):
    with computing_with(run_emulated):
        compare(_cases(form, *kinds), length=264)


@pytest.mark.slow
@pytest.mark.parametrize("arch", ["sm_80", "sm_90a"])
def test_they_compile(arch):
    with computing_with(compile_for(arch)):
        compare([_case(form, 3, 40, 64, "i8", "bf16") for form in FORMS])
        compare([_case(form, 32, 72, 130, "fp8e4m3", "bf16") for form in FORMS if form is not gated])


@pytest.mark.gpu
@pytest.mark.parametrize("kinds", KINDS, ids="-".join)
@pytest.mark.parametrize("form", FORMS, ids=lambda form: form.__name__)
def test_on_the_gpu(form, kinds):
    with computing_with(run_on_gpu):
        compare(_cases(form, *kinds), length=264)


def _reasons(program):
    return [reason for kernel in explain(program, target=H200).kernels for _, reason in kernel.unfused]


def test_many_rows_read_what_a_kernel_before_computes():
    @func
    def many(x: Tensor[(512, 64), "f32"], w: Tensor[(64, 32), "i8"]) -> Tensor[(512, 32), "f32"]:
        return x @ tf.cast(w, "f32")

    @func
    def unknown(x: Tensor[(N, 64), "f32"], w: Tensor[(64, 32), "i8"]) -> Tensor[(N, 32), "f32"]:
        return x @ tf.cast(w, "f32")

    passed = "apart it costs 16384 bytes, and each element once"
    assert _reasons(many) == [f"its right operand would be computed for every 64 of 512 rows; {passed}"]
    assert _reasons(unknown) == [f"its right operand would be computed for every 64 of N rows; {passed}"]


def test_left_operands_that_many_columns_would_compute_again():
    @func
    def rows(g: Tensor[(16, 64), "f32"], w: Tensor[(64, 32), "f32"]) -> Tensor[(16, 32), "f32"]:
        return tf.silu(g) @ w

    assert _reasons(rows) == [
        "its left operand, 15 operations for each of 16 rows, would be computed again for every few of 32 columns; "
        "apart it costs 8192 bytes, and each element once"
    ]


def test_matrices_that_share_an_operand():
    @func
    def batched(x: Tensor[(4, 1, 64), "f32"], w: Tensor[(64, 32), "i8"]) -> Tensor[(4, 1, 32), "f32"]:
        return x @ tf.cast(w, "f32")

    (reason,) = _reasons(batched)
    assert reason.startswith("its right operand would be computed by each of the 4 matrices that share it;")


def test_operands_that_are_not_the_products_alone():
    @func
    def returned(
        x: Tensor[(1, 64), "f32"], w: Tensor[(64, 32), "i8"]
    ) -> tuple[Tensor[(1, 32), "f32"], Tensor[(64, 32), "f32"]]:
        wide = tf.cast(w, "f32")
        return x @ wide, wide

    @func
    def in_the_middle(
        x: Tensor[(1, 64), "f32"], w: Tensor[(64, 32), "i8"], s: Tensor[(32,), "f32"]
    ) -> tuple[Tensor[(1, 32), "f32"], Tensor[(64, 32), "f32"]]:
        wide = tf.cast(w, "f32")
        return x @ (wide * s), tf.relu(wide)

    @func
    def residual(x: Tensor[(2, 64), "f32"], w: Tensor[(64, 64), "f32"]) -> Tensor[(2, 64), "f32"]:
        h = tf.relu(x)
        return h @ w + h

    @func
    def squared(x: Tensor[(4, 4), "f32"]) -> Tensor[(4, 4), "f32"]:
        h = tf.relu(x)
        return h @ h

    for program in (returned, in_the_middle, residual, squared):
        assert _kernels(program) == 2, program.name
    assert _reasons(returned) == ["others read it as well"]


def test_joined_rows_are_not_joined_again():
    @func
    def normed(
        x: Tensor[(1, 64), "f32"], g: Tensor[(64,), "f32"], w: Tensor[(64, 32), "f32"]
    ) -> Tensor[(1, 32), "f32"]:
        return tf.rms_norm(x, g, eps=1e-6) @ w

    assert _reasons(normed) == [
        "a product computes elementwise what it reads, and these rows are joined first"
    ]


def test_bytes_and_operations_of_the_kernel_are_those_of_narrow_weights():
    @func
    def program(
        x: Tensor[(1, 64), "bf16"], w: Tensor[(64, 32), "i8"], s: Tensor[(32,), "bf16"]
    ) -> Tensor[(1, 32), "bf16"]:
        return x @ (tf.cast(w, "bf16") * s)

    (kernel,) = explain(program, target=H200).kernels
    assert kernel.reads == 64 * 2 + 64 * 32 + 32 * 2 and kernel.writes == 32 * 2
    assert kernel.flops == 2 * 64 * 32 + 2 * 64 * 32 and kernel.ops == ("cast", "mul", "matmul")


def test_layers_are_built_once_and_weights_take_no_workspace():
    @func
    def layers(
        x: Tensor[(2, 64), "bf16"],
        a: Tensor[(64, 64), "i8"],
        b: Tensor[(64, 64), "i8"],
        s: Tensor[(64,), "bf16"],
        t: Tensor[(64,), "bf16"],
    ) -> Tensor[(2, 64), "bf16"]:
        h = tf.relu(x @ (tf.cast(a, "bf16") * s))
        return tf.relu(h @ (tf.cast(b, "bf16") * t))

    lowered = lower(layers, target=H200)
    host = lowered.entry_function()
    assert isinstance(host, PrimFunction)
    (slab,) = (stmt for stmt in host.body if isinstance(stmt, Slab))
    assert slab.slots == ((2 * 64 * 2,),)
    assert _kernels(layers) == 2
    built = BACKEND.emit(lowered, H200, CompilerOptions())
    assert sum(text.count("__global__") for text in built.parts.devices) == 1
