"""Operators, literals, static Python values and tuples. Oracle: the same formula on torch tensors."""

# ruff: noqa: B905, SIM201
# The programs in this file are DSL source, written as a user writes them.
from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from tilefoundry.dsl import DimVar, ReduceKind, Tensor, func, tf
from tilefoundry.evaluator import evaluate
from tilefoundry.ir.core.expr import Call, Constant
from tilefoundry.ir.errors import DslError
from tilefoundry.ir.types import DType, TensorType

N = DimVar("N", 1, 100)
SCALE = 0.5


def test_arithmetic_operators():
    @func
    def f(a: Tensor[(3, N), "f32"], b: Tensor[(N,), "f32"]) -> Tensor[(3, N), "f32"]:
        c = (a + b) * (a - b) / (b + 2.0) - -a
        d = c // b % 3.0
        return d + a**2

    a, b = torch.randn(3, 5), torch.rand(5) + 0.5
    c = (a + b) * (a - b) / (b + 2.0) - -a
    expected = torch.remainder(torch.floor(c / b), 3.0) + a**2
    torch.testing.assert_close(evaluate(f, a, b), expected)


def test_matmul_operator():
    @func
    def f(a: Tensor[(3, N), "f32"], b: Tensor[(N, 2), "f32"]) -> Tensor[(3, 2), "f32"]:
        return a @ b

    a, b = torch.randn(3, 5), torch.randn(5, 2)
    torch.testing.assert_close(evaluate(f, a, b), a @ b)


def test_comparisons_and_logic():
    @func
    def f(a: Tensor[(N,), "f32"], b: Tensor[(N,), "f32"]) -> Tensor[(N,), "bool"]:
        return (a < b) & (a >= 0.0) | ~(a != b) | (a == 1.0)

    a, b = torch.tensor([0.0, 1.0, -1.0, 3.0]), torch.tensor([0.5, 0.5, -1.0, 1.0])
    assert evaluate(f, a, b).tolist() == ((a < b) & (a >= 0) | ~(a != b) | (a == 1)).tolist()


def test_augmented_assignment():
    @func
    def f(a: Tensor[(N,), "f32"]) -> Tensor[(N,), "f32"]:
        a += 1.0
        a *= a
        return a

    a = torch.randn(4)
    torch.testing.assert_close(evaluate(f, a), (a + 1) * (a + 1))


@pytest.mark.spec("dsl.literals")
@pytest.mark.parametrize("dtype", ["f32", "f16", "bf16", "f64"])
def test_floats_take_the_float_dtype_beside_them(dtype):
    @func
    def f(a: Tensor[(N,), dtype]) -> Tensor[(N,), dtype]:
        return 1.0 - a

    (bind,) = f.stmts()
    assert bind.value.args[0] == Constant(TensorType((), dtype), 1.0)


@pytest.mark.spec("dsl.literals")
@pytest.mark.parametrize("dtype", ["i8", "u8", "i32", "i64"])
def test_ints_take_the_integer_dtype_beside_them(dtype):
    @func
    def f(a: Tensor[(N,), dtype]) -> Tensor[(N,), dtype]:
        return a + 3

    (bind,) = f.stmts()
    assert bind.value.args[1] == Constant(TensorType((), dtype), 3)


def test_a_literal_looks_past_co_operands_of_other_kinds():
    @func
    def f(c: Tensor[(N,), "bool"], a: Tensor[(N,), "bf16"]) -> Tensor[(N,), "bf16"]:
        return tf.where(c, a, 0.0)

    (bind,) = f.stmts()
    assert bind.value.args[2].type.dtype is DType.bf16


@pytest.mark.spec("dsl.literals")
@pytest.mark.parametrize(
    ("dtype", "expression", "message"),
    [
        ("f32", "a + 1", "the int 1 does not mix with f32; write 1.0"),
        ("i32", "a + 1.0", "the float 1.0 does not mix with i32; write 1 or cast"),
        ("i32", "a + 1.5", "the float 1.5 does not mix with i32; cast"),
        ("bool", "a & 1", "the int 1 does not mix with bool"),
        ("f32", "a + True", "the bool True does not mix with f32"),
        ("u8", "a + 256", r"256 does not fit u8 \(valid: 0..255\)"),
        ("u8", "a + -1", "-1 does not fit u8"),
        ("f32", 'a + "1"', r"\+ takes tensors and numbers, got '1'"),
        ("f32", "a + None", r"\+ takes tensors and numbers, got None"),
        ("f32", "a + (a, a)", r"\+ takes tensors and numbers"),
        ("f32", "a + N", "the extent N is no tensor"),
        ("f32", "a ** 3", "only x \\*\\* 2"),
        ("f32", "a ^ a", r"\^ is not defined on tensors"),
        ("f32", "a << 2", "<< is not defined on tensors"),
        ("f32", "+a", r"\+ is not defined on tensors; leave the unary \+ out"),
        ("bool", "not a", "not is not defined on tensors; write ~x"),
        ("bool", "a and a", "write a & b"),
        ("bool", "a or a", r"write a \| b"),
        ("f32", "a is a", "is is not defined on tensors; write =="),
        ("f32", "0.0 < a < 1.0", "comparisons of tensors do not chain"),
        ("f32", "a if a else a", "a tensor cannot choose a branch; write tf.where"),
        ("f32", "a.shape", "a tensor has no attributes here"),
        ("f32", "(lambda b: b)(a)", "a lambda is not part of the DSL"),
        ("f32", 'f"{a}"', "an f-string is not part of the DSL"),
        ("f32", "{1: a}", "a dict is not part of the DSL"),
        ("f32", "(b := a)", "an assignment expression is not part of the DSL"),
        ("f32", "1j * a", "no complex"),
        ("f32", "q + a", "q is not defined here; a body sees only what is defined above it"),
        ("f32", "len(a)", "len is Python code and cannot take tensors"),
        ("f32", "print([a])", "print is Python code and cannot take tensors"),
        ("f32", "a(a)", "cannot be called"),
        ("f32", "math.pi(a)", "3.14.* cannot be called"),
        ("f32", "math.tau2 * a", r"math has no 'tau2'; did you mean tau"),
        ("f32", "a * (1 // 0)", "ZeroDivisionError"),
        ("f32", "a * 9.0 ** 9 ** 9", "too large to compute"),
        ("f32", '("a" * 10**12, a)[1]', "too many to make"),
        ("f32", "tf.adds(a, a)", r"tilefoundry.dsl.tf has no 'adds'; did you mean .*add"),
        ("f32", "tf.add(a)", r"tf.add\(lhs, rhs\): the operand 'rhs' is missing"),
        ("f32", "tf.add(a, a, a)", "1 arguments too many"),
        ("f32", "tf.add(a, lhs=a)", "lhs is given by position and by keyword"),
        ("f32", "tf.softmax(a, axis=a)", "axis must be known while the program is read"),
        ("f32", "tf.softmax(a, axes=0)", "has no attribute 'axes'"),
        ("f32", "tf.softmax(a, **{})", r"\*\* is not part of the DSL|a dict is not part"),
        ("f32", "tf.add(1.0, 2.0)", "the number 1.0 has no tensor beside it"),
        ("f32", 'tf.zeros(Tensor[(K,), "f32"])', "no parameter's shape gives the extent K"),
    ],
)
def test_refused_expressions(run, dtype, expression, message):
    with pytest.raises(DslError, match=message):
        run(
            f"""
            import math
            N = DimVar("N", 1, 100)
            K = DimVar("K", 1, 100)
            @func
            def f(a: Tensor[(N,), "{dtype}"]):
                return {expression}
            """
        )


def test_python_values_are_computed_while_reading():
    heads = {"count": 4}

    @func
    def f(a: Tensor[(N, 8), "f32"]) -> Tensor[(N, 4, 2), "f32"]:
        width = 8 // heads["count"]
        scale = 1.0 / math.sqrt(width) if width > 1 else 1.0
        shape = (N, *[heads["count"], width])
        return tf.reshape(a * scale, shape) * (SCALE if "count" in heads and not width == 3 else 9.0)

    a = torch.randn(3, 8)
    torch.testing.assert_close(evaluate(f, a), a.reshape(3, 4, 2) / math.sqrt(2) * 0.5)


def test_arithmetic_on_extents():
    @func
    def f(a: Tensor[(N, 2), "f32"]) -> Tensor[(N * 2,), "f32"]:
        n = N + N
        return tf.reshape(a, (n - 2 * N + n,))

    assert f.result.shape == (2 * N,)


def test_extents_compare_where_their_ranges_settle_it():
    @func
    def f(a: Tensor[(N,), "f32"]) -> Tensor[(N,), "f32"]:
        return a + 1.0 if N < 200 and N + 1 > N else a

    assert evaluate(f, torch.zeros(2)).tolist() == [1.0, 1.0]


def test_an_extent_cannot_choose_a_branch_it_does_not_settle(run):
    with pytest.raises(DslError, match=r"N > 3 is not known while the program is read"):
        run(
            """
            N = DimVar("N", 1, 100)
            @func
            def f(a: Tensor[(N,), "f32"]):
                if N > 3:
                    a = a + 1.0
                return a
            """
        )


@pytest.mark.spec("dsl.unrolling")
def test_a_list_comprehension_unrolls():
    @func
    def f(a: Tensor[(N, 6), "f32"]) -> Tensor[(N, 6), "f32"]:
        parts = [a[:, 2 * i : 2 * i + 2] * float(k) for i, k in enumerate((3, 1, 2)) if k > 0]
        return tf.concat(*parts, axis=1)

    a = torch.randn(2, 6)
    torch.testing.assert_close(evaluate(f, a), a * torch.tensor([3.0, 3, 1, 1, 2, 2]))


def test_a_list_of_tensors_passes_through_python_containers():
    @func
    def f(a: Tensor[(N, 4), "f32"]) -> Tensor[(N, 2, 2), "f32"]:
        halves = tf.split(a, 1, 2)
        pairs = [x + y for x, y in zip(halves, reversed(list(halves)))]
        assert_two = len(pairs)
        return tf.stack(pairs, axis=assert_two - 1)

    a = torch.randn(3, 4)
    s = a[:, :2] + a[:, 2:]
    torch.testing.assert_close(evaluate(f, a), torch.stack([s, s], dim=1))


def test_operands_by_keyword_and_attributes_by_position():
    @func
    def f(a: Tensor[(N, 4), "f32"]) -> Tensor[(N, 1), "f32"]:
        return tf.reduce(tf.sub(rhs=a, lhs=1.0), (-1,), True, "sum")

    a = torch.randn(3, 4)
    torch.testing.assert_close(evaluate(f, a), (1 - a).sum(1, keepdim=True))


@pytest.mark.spec("dsl.annotations")
def test_dtypes_may_be_names_or_objects():
    @func
    def f(a: Tensor[(N,), "f32"]) -> Tensor[(N,), "i32"]:
        return tf.cast(tf.cast(a, DType.f64), "i32")

    assert evaluate(f, torch.tensor([1.75, -2.5])).tolist() == [1, -2]


def test_star_import_of_the_ops(run):
    f = run(
        """
        from tilefoundry.dsl.tf import *
        @func
        def f(a: Tensor[(4,), "f32"]):
            return exp(neg(a))
        """
    )["f"]
    a = torch.randn(4)
    torch.testing.assert_close(evaluate(f, a), torch.exp(-a))


def test_a_condition_known_while_reading_selects_statements():
    def build(gated: bool):
        @func
        def f(a: Tensor[(N,), "f32"]) -> Tensor[(N,), "f32"]:
            if gated:
                a = a * a
            else:
                a = a + 1.0
            return a

        return f

    assert evaluate(build(True), torch.tensor([3.0])).item() == 9
    assert evaluate(build(False), torch.tensor([3.0])).item() == 4


def test_every_value_has_its_own_name_and_assigned_names_are_kept():
    @func
    def f(t0: Tensor[(N,), "f32"]) -> Tensor[(N,), "f32"]:
        x = t0 * t0 + 1.0
        x = x + x
        N = x * 2.0  # a value may be called like an extent
        return N

    names = [stmt.target.name for stmt in f.stmts()]
    assert names == ["t1", "x", "x_1", "N_1"]
    assert all(isinstance(stmt.value, Call) for stmt in f.stmts())


@pytest.mark.parametrize(
    ("statement", "message"),
    [
        ("a + 1.0", "the value of this statement is not used"),
        ("a[0] = 1.0", "only names are assigned to.*tf.insert_slice"),
        ("a.x = 1.0", "only names are assigned to"),
        ("a[0] += 1.0", "only names are assigned to"),
        ("b, c = a", "a tensor does not fall into parts"),
        ("b, c = (a, a, a)", "2 names cannot take 3 values"),
        ("b, *c = (a, a, a)", "a starred target is not part of the DSL"),
        ("while True: pass", "a while loop is not part of the DSL"),
        ("import os", "an import is not part of the DSL"),
        ("def g(): pass", "a nested def is not part of the DSL"),
        ("assert True", "assert is not part of the DSL"),
        ("del a", "del is not part of the DSL"),
        ("b: int", "an annotated assignment needs one name and a value"),
        ("b: int = a", "a local value is declared as Tensor"),
        ('b: Tensor[(3,), "f32"] = a', r"b is f32\[4\], declared f32\[3\]"),
        ("return a\n                a = a", "nothing can follow return"),
        ("if a[0] > 0.0:\n                    a = -a", "a tensor cannot choose a branch"),
    ],
)
def test_refused_statements(run, statement, message):
    with pytest.raises(DslError, match=message):
        run(
            f"""
            @func
            def f(a: Tensor[(4,), "f32"]):
                {statement}
                return a
            """
        )


def test_an_annotated_assignment_checks_its_type(run):
    run(
        """
        @func
        def f(a: Tensor[(4,), "f32"]):
            b: Tensor[(4,), "bool"] = a > 0.0
            return b
        """
    )


def test_ops_and_annotations_have_no_meaning_outside():
    with pytest.raises(TypeError, match=r"tf.add has a meaning inside a @func only"):
        tf.add(1, 2)
    with pytest.raises(TypeError, match="Tensor is an annotation"):
        Tensor()


def test_numpy_scalars_are_numbers():
    scale, row = np.float32(0.5), np.int64(1)

    @func
    def f(
        a: Tensor[(3, N), "f32"], k: Tensor[(N,), "i32"]
    ) -> tuple[Tensor[(N,), "f32"], Tensor[(N,), "i32"]]:
        return a[row] * scale, k + row

    a, k = torch.randn(3, 4), torch.arange(4, dtype=torch.int32)
    x, y = evaluate(f, a, k)
    assert torch.equal(x, a[1] * 0.5) and torch.equal(y, k + 1)


def test_kinds_may_be_members_or_names():
    @func
    def f(a: Tensor[(3, N), "f32"]) -> Tensor[(3, 1), "f32"]:
        return tf.reduce(a, axes=(1,), kind=ReduceKind.SUM) - tf.reduce(a, axes=1, kind="sum")

    assert evaluate(f, torch.rand(3, 4)).abs().max() == 0


def test_ints_stand_for_positions_and_lengths():
    @func
    def f(
        cache: Tensor[(1, 4, 1, 2), "f32"], new: Tensor[(1, 2, 1, 2), "f32"]
    ) -> Tensor[(1, 4, 1, 2), "f32"]:
        return tf.cache_update(cache, 1, 2, new)

    cache, new = torch.zeros(1, 4, 1, 2), torch.ones(1, 2, 1, 2)
    assert evaluate(f, cache, new).flatten().tolist() == [0, 0, 1, 1, 1, 1, 0, 0]


@pytest.mark.parametrize(
    ("call", "wanted"),
    [
        ("tf.arange(4)", [0, 1, 2, 3]),
        ("tf.arange(1, 4)", [1, 2, 3]),
        ("tf.arange(1, 8, 3)", [1, 4, 7]),
        ("tf.arange(1, 8, 3, 'i64')", [1, 4, 7]),
        ("tf.arange(2, N)", [2, 3, 4]),
        ("tf.arange(4, start=2)", [2, 3]),
        ("tf.arange(end=4, step=2)", [0, 2]),
    ],
)
def test_arange_counts_as_range_does(run, call, wanted):
    f = run(f"N = DimVar('N', 3, 9)\n@func\ndef f(x: Tensor[(N,), 'f32']):\n    return {call}\n")["f"]
    assert evaluate(f, torch.zeros(5)).tolist() == wanted
