"""What a signature declares, and what it may not."""

# ruff: noqa: RUF059
# The programs in this file are DSL source, written as a user writes them.
from __future__ import annotations

import pytest

from tilefoundry.dsl import ConstTensor, DimVar, Tensor, func, tf
from tilefoundry.ir.core.expr import Var
from tilefoundry.ir.errors import DslError
from tilefoundry.ir.hir.function import Function
from tilefoundry.ir.types import DType, StorageKind, TensorType, TupleType

N = DimVar("N", 1, 100)


@pytest.mark.spec("dsl.decorators")
@pytest.mark.spec("types.const-is-a-parameter")
def test_func_gives_a_function_with_typed_params():
    @func
    def f(x: Tensor[(4, N), "f32"], w: ConstTensor[(N,), DType.from_name("f32")]) -> Tensor[(4, N), "f32"]:
        return x * w

    assert isinstance(f, Function)
    assert f.params == (
        Var(TensorType((4, N), DType.from_name("f32")), "x"),
        Var(TensorType((N,), DType.from_name("f32")), "w", is_const=True),
    )
    assert f.result == TensorType((4, N), DType.from_name("f32"))


@pytest.mark.spec("dsl.annotations")
def test_third_slot_is_the_layout_and_fourth_the_storage():
    @func
    def f(x: Tensor[(4, 8), "f32", None, "smem"]) -> Tensor[(4, 8), "f32"]:
        return x

    assert f.params[0].type.storage is StorageKind.SMEM


def test_quoted_annotations_are_read():
    @func
    def f(x: 'Tensor[(N,), "f32"]') -> 'Tensor[(N,), "f32"]':
        return x + 1.0

    assert f.params[0].type.shape == (N,)


@pytest.mark.spec("dsl.two-outputs")
def test_two_outputs():
    @func
    def f(x: Tensor[(N,), "f32"]) -> tuple[Tensor[(N,), "f32"], Tensor[(N,), "bool"]]:
        return x + 1.0, x > 0.0

    @func
    def g(x: Tensor[(N,), "f32"]) -> Tensor[(N,), "f32"]:
        a, b = f(x)
        c, _ = f(a)
        return c

    assert f.result == TupleType((TensorType((N,), "f32"), TensorType((N,), "bool")))
    assert len(f.body.results) == 2
    assert [b.target.name for b in g.stmts()[1:3]] == ["a", "b"]


def test_a_result_that_is_not_declared_is_inferred():
    @func
    def f(x: Tensor[(N,), "f32"]):
        return x < 1.0

    assert f.result == TensorType((N,), "bool")


@pytest.mark.spec("types.one-range")
@pytest.mark.parametrize(
    ("signature", "message"),
    [
        ("(x)", "x has no type"),
        ("(x: 3)", "got 3"),
        ('(x: Tensor[(N,), "f33"])', "unknown dtype 'f33'; the dtypes are f32"),
        ('(x: Tensor["f32"])', "takes a shape, a dtype"),
        ('(x: Tensor[4, "f32"])', "a shape is a tuple"),
        ('(x: Tensor[(-4,), "f32"])', "cannot be negative"),
        ('(x: Tensor[(4.0,), "f32"])', "an extent is an int"),
        ('(x: Tensor[(4,), "f32", None, "lmem"])', "unknown storage 'lmem'; the storage kinds are host"),
        ('(x: Tensor[(4,), "f32"] = 3)', "there are no defaults"),
        ('(*x: Tensor[(4,), "f32"])', r"there are no \*"),
        ('(*, x: Tensor[(4,), "f32"])', r"there are no \*"),
        ('(x: Tensor[(N,), "f32"], y: Tensor[(DimVar("N", 1, 7),), "f32"])', "one name has one range"),
    ],
)
def test_refused_signatures(run, signature, message):
    with pytest.raises(DslError, match=message):
        run(
            f"""
            N = DimVar("N", 1, 100)
            @func
            def f{signature}:
                return x
            """
        )


@pytest.mark.parametrize(
    ("returns", "body", "message"),
    [
        ('Tensor[(5,), "f32"]', "return x", r"the result is f32\[4\], declared f32\[5\]"),
        ('Tensor[(4,), "i32"]', "return x", r"declared i32\[4\]"),
        ('Tensor[(4,), "f32"]', "return x, x", "returns a tuple"),
        ('tuple[Tensor[(4,), "f32"], Tensor[(4,), "f32"]]', "return x", "this returns one value"),
        ('tuple[Tensor[(4,), "f32"], Tensor[(4,), "f32"]]', "return x, x, x", "this returns 3 values"),
        ('Tensor[(4,), "f32"]', "return", "a function returns a value"),
        ('Tensor[(4,), "f32"]', "y = x", "f returns nothing"),
        ('Tensor[(4,), "f32"]', "return [x]", "return one tensor or a tuple"),
        ('Tensor[(4,), "f32"]', "return 4", "the result must be a tensor"),
        ('Tensor[(DimVar("K", 1, 9),), "f32"]', "return x", "no parameter's shape gives the extent K"),
        ('ConstTensor[(4,), "f32"]', "return x", "a result is declared as Tensor"),
    ],
)
def test_the_result_is_checked(run, returns, body, message):
    with pytest.raises(DslError, match=message):
        run(
            f"""
            @func
            def f(x: Tensor[(4,), "f32"]) -> {returns}:
                {body}
            """
        )


def test_results_are_compared_in_normal_form():
    @func
    def f(x: Tensor[(N, 2), "f32"]) -> Tensor[(N + N,), "f32"]:
        return tf.reshape(x, (2 * N,))

    assert f.result.shape == (2 * N,)


def test_a_lone_text_in_the_third_slot_is_a_storage(run):
    names = run("A, B = Tensor[(4,), 'f32', 'smem'], Tensor[(4,), 'f32', None, 'smem']")
    assert names["A"].resolve() == names["B"].resolve()
    with pytest.raises(ValueError, match="unknown storage 'shared'"):
        run("A = Tensor[(4,), 'f32', 'shared']")["A"].resolve()
