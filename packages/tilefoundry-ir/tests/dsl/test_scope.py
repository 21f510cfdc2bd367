"""Names resolve through class bodies, the enclosing function, its closure, globals and builtins, innermost first."""

# ruff: noqa: C416
# The programs in this file are DSL source, written as a user writes them.
from __future__ import annotations

import pytest

from tilefoundry.dsl import DimVar, Tensor, func, module
from tilefoundry.ir.core.expr import Constant
from tilefoundry.ir.errors import DslError

WIDTH = 3
N = DimVar("N", 1, 100)


def constant_of(function) -> object:
    (bind,) = function.stmts()
    (found,) = [atom.value for atom in bind.value.args if isinstance(atom, Constant)]
    return found


def test_globals_and_builtins():
    @func
    def f(x: Tensor[(WIDTH,), "f32"]) -> Tensor[(WIDTH,), "f32"]:
        return x * float(WIDTH)

    assert constant_of(f) == 3.0


def test_the_enclosing_function_hides_globals():
    WIDTH = 5

    @func
    def f(x: Tensor[(WIDTH,), "f32"]) -> Tensor[(WIDTH,), "f32"]:
        return x * float(WIDTH)

    assert constant_of(f) == 5.0 and f.result.shape == (5,)


def test_a_closure_two_functions_out():
    def outer(scale):
        def inner():
            @func
            def f(x: Tensor[(4,), "f32"]) -> Tensor[(4,), "f32"]:
                return x * scale

            return f

        return inner

    assert constant_of(outer(7.0)()) == 7.0


@pytest.mark.spec("dsl.scopes")
def test_class_bodies_come_before_the_function_around_them_and_inner_before_outer():
    scale = 1.0

    class Plain:
        scale = 2.0

        @func
        def f(x: Tensor[(4,), "f32"]) -> Tensor[(4,), "f32"]:
            return x * scale

        class Inner:
            @func
            def g(x: Tensor[(4,), "f32"]) -> Tensor[(4,), "f32"]:
                return x * scale

        class Other:
            scale = 3.0

            @func
            def h(x: Tensor[(4,), "f32"]) -> Tensor[(4,), "f32"]:
                return x * scale

    assert scale == 1.0
    assert constant_of(Plain.f) == 2.0
    assert constant_of(Plain.Inner.g) == 2.0
    assert constant_of(Plain.Other.h) == 3.0


def test_a_nested_module_sees_functions_of_the_class_around_it():
    @module
    class Outer:
        @func
        def twice(x: Tensor[(4,), "f32"]) -> Tensor[(4,), "f32"]:
            return x + x

        @module
        class inner:
            @func
            def g(x: Tensor[(4,), "f32"]) -> Tensor[(4,), "f32"]:
                return twice(x)

    (bind,) = Outer.child("inner").lookup("g").stmts()
    assert bind.value.callee.name == "twice"


@pytest.mark.spec("dsl.scopes")
def test_locals_hide_everything():
    @func
    def f(WIDTH: Tensor[(4,), "f32"]) -> Tensor[(4,), "f32"]:
        float = 2.0
        return WIDTH * float

    assert constant_of(f) == 2.0


def test_a_decorator_around_func_finds_the_defining_frame():
    def wrapped(function):
        return func(function)

    scale = 9.0

    @wrapped
    def f(x: Tensor[(4,), "f32"]) -> Tensor[(4,), "f32"]:
        return x * scale

    assert constant_of(f) == 9.0


def test_a_cell_that_is_filled_later_is_not_defined_yet():
    with pytest.raises(DslError, match="later is not defined here"):

        @func
        def f(x: Tensor[(4,), "f32"]) -> Tensor[(4,), "f32"]:
            return x * later

        later = 3.0


def test_comprehension_variables_stay_inside():
    @func
    def f(x: Tensor[(4,), "f32"]) -> Tensor[(4,), "f32"]:
        scale = 2.0
        parts = [scale for scale in (5.0, 6.0)]
        return x * (scale + parts[1])

    assert constant_of(f) == 8.0
