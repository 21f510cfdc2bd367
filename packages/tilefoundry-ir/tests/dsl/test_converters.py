"""@f.converter: registration, checks. Oracle: the converter evaluated on raw tensors."""

# Long lines are one case each.
from __future__ import annotations

import pytest
import torch

from tilefoundry.dsl import ConstTensor, DimVar, Tensor, func, module, tf
from tilefoundry.evaluator import evaluate
from tilefoundry.ir.errors import DslError

N = DimVar("N", 1, 100)


@pytest.mark.spec("dsl.converters")
def test_a_converter_is_a_function_from_raw_names_kept_on_its_function():
    @module
    class M:
        @func
        def f(x: Tensor[(N, 4), "f32"], w: ConstTensor[(4, 2), "f32"]) -> Tensor[(N, 2), "f32"]:
            return x @ w

        @f.converter("w")
        def anything(q_weight: Tensor[(2, 4), "bf16"], scale: Tensor[(2,), "f32"]) -> Tensor[(4, 2), "f32"]:
            return tf.transpose(tf.cast(q_weight, "f32"), (1, 0)) * scale

    converter = M.lookup("f").converters["w"]
    assert [p.name for p in converter.params] == ["q_weight", "scale"]
    assert [f.name for f in M.functions] == ["f"] and not M.methods
    q, s = torch.randn(2, 4).bfloat16(), torch.randn(2)
    torch.testing.assert_close(evaluate(converter, q, s), q.float().T * s)


def test_the_name_of_a_converter_is_a_label():
    @module
    class M:
        @func
        def f(x: Tensor[(4,), "f32"], a: ConstTensor[(4,), "f32"], b: ConstTensor[(4,), "f32"]):
            return x * a + b

        @f.converter("a")
        def _(raw: Tensor[(4,), "f32"]):
            return raw

        @f.converter("b")
        def _(raw: Tensor[(4,), "f32"]):
            return -raw

        @func
        def g(x: Tensor[(4,), "f32"], c: ConstTensor[(4,), "f32"]):
            return x + c

        @g.converter("c")
        def g(raw: Tensor[(4,), "f32"]):
            return raw

    assert list(M.lookup("f").converters) == ["a", "b"]
    assert list(M.lookup("g").converters) == ["c"]


def test_converters_survive_renaming():
    @module
    class M:
        @func
        def f(x: Tensor[(4,), "f32"], w: ConstTensor[(4,), "f32"]):
            return x * w

        @f.converter("w")
        def w(raw: Tensor[(4,), "f32"]):
            return raw + 1.0

    assert list(M.renamed("other").lookup("f").converters) == ["w"]


@pytest.mark.spec("dsl.converters")
@pytest.mark.parametrize(
    ("converter", "message"),
    [
        (
            '@f.converter("v")\ndef c(r: Tensor[(4,), "f32"]): return r',
            "f has no weight 'v' to convert; its weights: w",
        ),
        ('@f.converter("x")\ndef c(r: Tensor[(4,), "f32"]): return r', "f has no weight 'x' to convert"),
        (
            '@f.converter("w")\ndef c(r: Tensor[(5,), "f32"]): return r',
            r"returns f32\[5\], the weight is declared f32\[4\]",
        ),
        (
            '@f.converter("w")\ndef c(r: Tensor[(4,), "f16"]): return r',
            r"returns f16\[4\], the weight is declared f32\[4\]",
        ),
        (
            '@f.converter("w")\ndef c(r: ConstTensor[(4,), "f32"]): return r',
            "declare it Tensor, not ConstTensor",
        ),
        (
            '@f.converter("w")\ndef c(r: Tensor[(4,), "f32"]): return r\n'
            '@f.converter("w")\ndef d(r: Tensor[(4,), "f32"]): return r',
            "the weight 'w' already has a converter",
        ),
        ('@f.converter("w")\ndef c(r: Tensor[(4,), "f32"]) -> Tensor[(4,), "f32"]: pass', "needs a body"),
    ],
)
def test_refused_converters(run, converter, message):
    with pytest.raises(DslError, match=message):
        run(
            f"""\
@func
def f(x: Tensor[(4,), "f32"], w: ConstTensor[(4,), "f32"]):
    return x * w
{converter}
"""
        )


@pytest.mark.spec("dsl.one-converter")
def test_a_second_converter_on_another_function_of_the_module_is_refused(run):
    with pytest.raises(DslError, match="the weight 'w' already has a converter, on f") as caught:
        run(
            """
            @module
            class M:
                @func
                def f(x: Tensor[(4,), "f32"], w: ConstTensor[(4,), "f32"]):
                    return x * w
                @f.converter("w")
                def a(r: Tensor[(4,), "f32"]):
                    return r
                @func
                def g(x: Tensor[(4,), "f32"], w: ConstTensor[(4,), "f32"]):
                    return x + w
                @g.converter("w")
                def b(r: Tensor[(4,), "f32"]):
                    return r
            """
        )
    assert caught.value.lineno == 16


def test_a_sealed_function_takes_no_converter():
    @module
    class M:
        @func
        def f(x: Tensor[(4,), "f32"], w: ConstTensor[(4,), "f32"]):
            return x * w

    with pytest.raises(DslError, match="f belongs to a Module and is sealed"):

        @M.lookup("f").converter("w")
        def c(r: Tensor[(4,), "f32"]):
            return r


def test_a_label_is_not_called():
    @func
    def f(x: Tensor[(4,), "f32"], w: ConstTensor[(4,), "f32"]):
        return x * w

    @f.converter("w")
    def c(r: Tensor[(4,), "f32"]):
        return r

    with pytest.raises(TypeError, match=r"this is the converter of f\.w"):
        c(torch.zeros(4))
