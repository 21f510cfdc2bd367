"""@f.specialize: variants partition one DimVar's range. Oracle: which variant the value selects."""

from __future__ import annotations

import pytest
import torch

from tilefoundry.dsl import DimVar, DimVarRangePat, Tensor, func, module
from tilefoundry.evaluator import evaluate
from tilefoundry.ir.errors import DslError

S = DimVar("S", 1, 9)


@pytest.mark.spec("dsl.specialise")
def test_variants_are_selected_by_the_extent():
    @module(entry="f")
    class M:
        @func
        def f(x: Tensor[(S,), "f32"]) -> Tensor[(S,), "f32"]:
            pass

        @f.specialize(DimVarRangePat("S", 4, 9))
        def long(x: Tensor[(S,), "f32"]) -> Tensor[(S,), "f32"]:
            return x + 2.0

        @f.specialize(DimVarRangePat("S", 1, 4))
        def f(x: Tensor[(S,), "f32"]) -> Tensor[(S,), "f32"]:
            return x + 1.0

    f = M.lookup("f")
    assert f.body is None and len(f.variants) == 2
    assert [f.name for f in M.functions] == ["f"]
    assert [evaluate(f, torch.zeros(n))[0].item() for n in (1, 3, 4, 8)] == [1, 1, 2, 2]


def test_a_call_of_a_specialised_function():
    @module
    class M:
        @func
        def f(x: Tensor[(S,), "f32"]) -> Tensor[(S,), "f32"]:
            """Its docstring does not count as a body."""

        @f.specialize(DimVarRangePat("S", 1, 9))
        def _(x: Tensor[(S,), "f32"]) -> Tensor[(S,), "f32"]:
            return x + 1.0

        @func
        def g(x: Tensor[(S,), "f32"]) -> Tensor[(S,), "f32"]:
            return f(f(x))

    assert evaluate(M.lookup("g"), torch.zeros(2)).tolist() == [2, 2]


VARIANT = '@f.specialize({pattern})\n    def _(x: Tensor[(S,), "f32"]) -> Tensor[(S,), "f32"]:\n        return x\n    '


@pytest.mark.spec("dsl.specialise")
@pytest.mark.parametrize(
    ("patterns", "message"),
    [
        (['DimVarRangePat("S", 1, 4)', 'DimVarRangePat("S", 3, 9)'], r"\[3, 9\) of S overlaps \[1, 4\)"),
        (['DimVarRangePat("S", 1, 4)', 'DimVarRangePat("S", 5, 9)'], r"no variant of f covers S in \[4, 5\)"),
        (['DimVarRangePat("S", 2, 9)'], r"no variant of f covers S in \[1, 2\)"),
        (['DimVarRangePat("S", 1, 8)'], r"no variant of f covers S in \[8, 9\)"),
        (['DimVarRangePat("S", 1, 10)'], r"leaves the range \[1, 9\) of S"),
        (['DimVarRangePat("T", 1, 9)'], "f has no DimVar 'T'; it has S"),
        (["3"], "takes a DimVarRangePat, got 3"),
        ([], "f has no body and no variant"),
    ],
)
def test_variants_must_partition_the_range(run, patterns, message):
    variants = "".join(VARIANT.format(pattern=pattern) for pattern in patterns)
    with pytest.raises(DslError, match=message):
        run(
            f"""\
S = DimVar("S", 1, 9)
@module
class M:
    @func
    def f(x: Tensor[(S,), "f32"]) -> Tensor[(S,), "f32"]:
        pass
    {variants}
"""
        )


@pytest.mark.parametrize(
    ("base", "variant", "message"),
    [
        (
            "return x",
            'x: Tensor[(S,), "f32"]) -> Tensor[(S,), "f32"]:\n    return x',
            "f has a body of its own",
        ),
        (
            "pass",
            'y: Tensor[(S,), "f32"]) -> Tensor[(S,), "f32"]:\n    return y',
            "has its parameters and result",
        ),
        (
            "pass",
            'x: Tensor[(S,), "f32"]) -> Tensor[(S,), "bool"]:\n    return x > 0.0',
            "has its parameters and",
        ),
        ("pass", 'x: Tensor[(S,), "f32"]) -> Tensor[(S,), "f32"]:\n    pass', "a variant of f needs a body"),
    ],
)
def test_a_variant_has_the_base_s_signature(run, base, variant, message):
    with pytest.raises(DslError, match=message):
        run(
            f"""\
S = DimVar("S", 1, 9)
@func
def f(x: Tensor[(S,), "f32"]) -> Tensor[(S,), "f32"]:
    {base}
@f.specialize(DimVarRangePat("S", 1, 9))
def _({variant}
"""
        )


@pytest.mark.spec("dsl.specialise")
def test_one_axis_per_function(run):
    with pytest.raises(DslError, match="f is specialised over S; one axis per function"):
        run(
            """
            S = DimVar("S", 1, 9)
            K = DimVar("K", 1, 9)
            @func
            def f(x: Tensor[(S, K), "f32"]) -> Tensor[(S, K), "f32"]:
                pass
            @f.specialize(DimVarRangePat("S", 1, 4))
            def _(x: Tensor[(S, K), "f32"]) -> Tensor[(S, K), "f32"]:
                return x
            @f.specialize(DimVarRangePat("K", 1, 9))
            def _(x: Tensor[(S, K), "f32"]) -> Tensor[(S, K), "f32"]:
                return x
            """
        )


@pytest.mark.parametrize("bound", [1.5, True, "1", None])
def test_the_bounds_of_a_pattern_are_integers(bound):
    for pattern in ((bound, 9), (1, bound)):
        with pytest.raises(TypeError, match="the pattern over S takes integers as its bounds, got"):
            DimVarRangePat("S", *pattern)
