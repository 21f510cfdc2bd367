"""Products whose operands are computed while they are read. Oracle: the evaluator, on full tensors."""

from __future__ import annotations

import pytest
import torch

from tilefoundry import CompilerOptions, jit, lower
from tilefoundry.codegen import explain
from tilefoundry.ir.core.expr import Atom
from tilefoundry.ir.hir.function import Function

from .harness import Program, compare, together
from .op_cases import N, case

SHAPES = ((33, 40), (17, 5), (1, 40), (300, 1))
"""(k, columns); all forms of the first, some of the others."""


def widened(p: Program, w: Atom, *scales: Atom, dtype: str = "f32") -> Atom:
    """The weight in ``dtype``; two factors are a zero point and a scale."""
    out = p("cast", w, dtype=dtype)
    if len(scales) == 2:
        out = p("sub", out, scales[0])
    return p("mul", out, scales[-1]) if scales else out


def turned(p: Program, x: Atom) -> Atom:
    return p("transpose", x, perm=(1, 0))


def kernel_count(function: Function) -> int:
    return len(lower(function, target="cpu").functions) - 1


def weight_forms(rows, k: int, columns: int) -> list:
    """Programs by a weight that is narrow: as it lies, scaled per column, per row, with zero points, transposed."""
    x, declared = (rows[1], k), (rows[0], k)
    left, w, wt = (declared, x), ((k, columns),) * 2, ((columns, k),) * 2
    per_column, per_row, per_line = ((columns,),) * 2, ((k, 1),) * 2, ((columns, 1),) * 2
    bias = ((columns,),) * 2

    def plain(p, x, w):
        return p("matmul", x, widened(p, w))

    def scaled(p, x, w, s):
        return p("matmul", x, widened(p, w, s))

    def zeroed(p, x, w, z, s):
        return p("matmul", x, widened(p, w, z, s))

    def turned_after(p, x, w, s):
        return p("matmul", x, turned(p, widened(p, w, s)))

    def turned_before(p, x, w, s, b):
        return p("gelu", p("add", p("matmul", x, widened(p, turned(p, w), s)), b), approximate="tanh")

    return [
        *(case(plain, left, w, dtypes=("f32", narrow)) for narrow in ("bf16", "fp8e4m3")),
        case(scaled, left, w, per_column, dtypes=("f32", "i8", "f32")),
        case(scaled, left, w, per_row, dtypes=("f32", "f16", "f32")),
        case(zeroed, left, w, per_column, per_column, dtypes=("f32", "u8", "f32", "f32")),
        case(turned_after, left, wt, per_line, dtypes=("f32", "i8", "f32")),
        case(turned_before, left, wt, per_column, bias, dtypes=("f32", "fp8e5m2", "f32", "f32")),
    ]


@pytest.mark.parametrize("rows", [0, 1, 3, 8, 17, 64])
@pytest.mark.spec("ops.all")
def test_narrow_weights(rows):
    """One library for any number of rows; which loops serve them is decided by the call."""
    cases = [one for i, shape in enumerate(SHAPES) for one in weight_forms((N, rows), *shape)[:: i + 1]]
    assert all(kernel_count(function) == 1 for function, _ in cases)
    compare(cases, length=300)


@pytest.mark.spec("ops.all")
def test_narrow_weights_by_rows_of_known_number():
    compare([*weight_forms((1, 1), 33, 40)[::3], *weight_forms((30, 30), 33, 40)[1::3]], length=40)


@pytest.mark.parametrize("rows", [1, 5, 70])
@pytest.mark.spec("ops.all")
def test_computed_rows(rows):
    x, w = ((N, 33), (rows, 33)), ((33, 40), (33, 40))
    turned_x, narrow = ((33, N), (33, rows)), ((40, 33), (40, 33))

    def gated(p, g, u, w):
        return p("matmul", p("mul", p("silu", g), u), w)

    def residual(p, x, w, r):
        return p("add", p("matmul", p("silu", x), w), r)

    def normed(p, x, w):
        return p("softmax", p("matmul", p("silu", x), w))

    def from_columns(p, x, w):
        return p("matmul", turned(p, p("silu", x)), w)

    def both(p, x, w, s):
        return p("matmul", p("silu", x), turned(p, widened(p, w, s)))

    out = ((N, 40), (rows, 40))
    kinds = [
        case(gated, x, x, w, dtypes=("f32", "f32", "f32")),
        case(gated, x, x, w, dtypes=("bf16", "bf16", "bf16")),
        case(residual, x, w, out),
        case(normed, x, w),
        case(from_columns, turned_x, w),
        case(both, x, narrow, ((40, 1), (40, 1)), dtypes=("f32", "i8", "f32")),
        case(gated, x, x, w, dtypes=("f64", "f64", "f64")),
    ]
    assert [kernel_count(function) for function, _ in kinds] == [1] * len(kinds)
    compare(kinds, length=40)


@pytest.mark.spec("ops.all")
def test_integers_and_products_in_narrow_types():
    """Operands that are computed in integers, or rounded to a small float by a cast of their own."""

    def integers(p, x, w):
        return p("matmul", x, p("add", p("cast", w, dtype="i32"), p("cast", w, dtype="i32")))

    def narrow(p, x, w, s):
        return p("matmul", x, widened(p, w, s, dtype="bf16"))

    def rounded(p, x, w):
        return p("matmul", x, p("cast", p("mul", w, w), dtype="bf16"))

    def wide(p, x, w):
        return p("matmul", p("cast", x, dtype="f64"), p("cast", w, dtype="f64"))

    cases = []
    for rows in (2, 30):
        x, w, s = ((rows, 33),) * 2, ((33, 40),) * 2, ((40,),) * 2
        cases += [
            case(integers, x, w, dtypes=("i32", "i8")),
            case(narrow, x, w, s, dtypes=("bf16", "i8", "bf16")),
            case(rounded, x, w, dtypes=("bf16", "f32")),
            case(wide, x, w, dtypes=("f32", "i8")),
        ]
    assert all(kernel_count(function) == 1 for function, _ in cases)
    compare(cases)


@pytest.mark.spec("ops.all")
def test_batches():
    """One operand for all batches, one each, rows of batches that follow each other and ones that do not, none."""

    def gated(p, x, w):
        return p("matmul", p("silu", x), w)

    def right(p, x, w):
        return p("matmul", x, widened(p, w))

    def apart(p, x, w):
        return p("matmul", p("transpose", x, perm=(1, 0, 2)), widened(p, w))

    def normed(p, x, w):
        return p("softmax", p("matmul", x, widened(p, w)))

    one = ((5, 3, 33), (33, 40), (2, 5, 3, 33), (2, 5, 33, 40), (5, 33, 40), (3, 33))
    rows, weight, many, weights, each, shared = ((shape, shape) for shape in one)
    kinds = [
        case(right, ((N, 3, 33), (5, 3, 33)), weight, dtypes=("f32", "bf16")),
        case(right, rows, each, dtypes=("f32", "bf16")),
        case(right, many, weights, dtypes=("f32", "bf16")),
        case(apart, ((3, 5, 33), (3, 5, 33)), weight, dtypes=("f32", "bf16")),
        case(gated, shared, each),
        case(gated, ((N, 20, 33), (5, 20, 33)), ((N, 33, 40), (5, 33, 40))),
        case(normed, ((N, 70, 33), (3, 70, 33)), ((N, 33, 90), (3, 33, 90)), dtypes=("f32", "bf16")),
        case(right, ((N, 3, 33), (0, 3, 33)), weight, dtypes=("f32", "bf16")),
        case(right, ((4, N), (4, 0)), ((N, 5), (0, 5)), dtypes=("f32", "bf16")),
        case(gated, ((20, N), (20, 0)), ((N, 5), (0, 5))),
        case(gated, ((4, 33), (4, 33)), ((33, N), (33, 0))),
    ]
    assert all(kernel_count(function) == 1 for function, _ in kinds)
    compare(kinds)


@pytest.mark.spec("explain.kernels")
def test_an_operand_of_some_batches_is_a_kernel_of_its_own():
    """Heads have weights of their own that all sequences share: they would be widened once per sequence."""

    def heads(p, x, w):
        return p("matmul", x, widened(p, w))

    shapes = ((N, 5, 3, 33), (7, 5, 3, 33)), ((5, 33, 40), (5, 33, 40))
    function, tensors = case(heads, *shapes, dtypes=("f32", "bf16"))
    widening, product = explain(function, target="cpu").kernels
    assert widening.ops == ("cast",) and product.ops == ("matmul",)
    ((reader, reason),) = widening.unfused
    assert reader == product.name
    assert reason.startswith("its right operand would be computed N times, once for every batch")
    compare([(function, tensors)])


def test_what_others_read_as_well_is_in_memory():
    def twice(p, x, w):
        wide = widened(p, w)
        return p("matmul", x, wide), p("reduce", wide, axes=(0,), kind="sum", keepdim=False)

    function, tensors = case(twice, ((4, 33), (4, 33)), ((33, 40), (33, 40)), dtypes=("f32", "bf16"))
    assert kernel_count(function) > 1
    compare([(function, tensors)])


@pytest.mark.spec("reductions.order")
def test_any_number_of_threads_gives_equal_bits():
    """Oracle: the bits of one thread; sizes at which several share the columns, the rows, and k."""

    def scaled(p, x, w, s):
        return p("matmul", p("silu", x), widened(p, w, s))

    def along(p, x, w):
        return p("softmax", p("matmul", x, turned(p, widened(p, w))))

    def activated(p, x, w):
        return p("matmul", p("silu", x), w)

    cases = []
    for rows, k, columns in ((1, 1030, 300), (5, 600, 520), (40, 520, 700), (300, 70, 600)):
        x, each = ((rows, k),) * 2, ((columns,),) * 2
        cases.append(case(scaled, x, ((k, columns),) * 2, each, dtypes=("f32", "i8", "f32")))
        cases.append(case(along, x, ((columns, k),) * 2, dtypes=("f32", "bf16")))
        cases.append(case(activated, x, ((k, columns),) * 2))
    program = together([function for function, _ in cases])
    tensors = [tensor for _, given in cases for tensor in given]
    compiled = jit(program, target="cpu", options=CompilerOptions(opt_level=1))
    had, found = torch.get_num_threads(), []
    try:
        for threads in (1, 2, 3, 7):
            torch.set_num_threads(threads)
            found.append(compiled(*tensors))
    finally:
        torch.set_num_threads(had)
    for other in found[1:]:
        assert all(torch.equal(one, two) for one, two in zip(found[0], other, strict=True))
    compare(cases, length=1030)
