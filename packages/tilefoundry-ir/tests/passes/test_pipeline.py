"""Pipelines verify before and after each pass. Oracle: passes of the test that break a program on purpose."""

from __future__ import annotations

from dataclasses import FrozenInstanceError, dataclass, fields, replace

import pytest

from tilefoundry.dsl import DimVar, Tensor, func, module, tf
from tilefoundry.ir.core.expr import Bind, Block, Constant, Var
from tilefoundry.ir.core.module import Module
from tilefoundry.ir.errors import VerificationError
from tilefoundry.ir.hir.function import Function
from tilefoundry.ir.passes import (
    BindShapes,
    Canonicalise,
    InlineCalls,
    Pass,
    Pipeline,
    RemoveDeadCode,
    UnrollLoops,
    verify_module,
    with_body,
)
from tilefoundry.ir.types import DType, TensorType

N = DimVar("N", 1, 100)


@module(entry="f")
class M:
    @func
    def f(x: Tensor[(N, 4), "f32"]) -> Tensor[(N, 4), "f32"]:
        y = tf.exp(x)
        return y + x


def entry_with(body: Block) -> Module:
    return Module("M", (with_body(M.lookup("f"), body),), "f")


@dataclass(frozen=True, slots=True)
class Drop:
    """Drops the first statement, as no pass may."""

    def run(self, module: Module) -> Module:
        body = module.lookup("f").body
        return entry_with(Block(body.stmts[1:], body.results))


@pytest.mark.spec("passes.frozen")
@pytest.mark.parametrize(
    "one", [InlineCalls(), Canonicalise(), RemoveDeadCode(), UnrollLoops(), BindShapes((("N", 3),))]
)
def test_every_pass_is_a_frozen_record_with_one_verb(one):
    assert isinstance(one, Pass)
    assert type(one).__doc__
    name = fields(one)[0].name if fields(one) else "anything"
    with pytest.raises((FrozenInstanceError, AttributeError, TypeError)):
        setattr(one, name, 1)
    before = M.lookup("f").body
    verify_module(one.run(M))
    assert M.lookup("f").body is before


@pytest.mark.spec("passes.verified")
def test_a_fault_is_reported_beside_the_pass_that_made_it():
    with pytest.raises(
        VerificationError, match=r"after Drop: M\.f: t0 uses y, which nothing before it binds"
    ):
        Pipeline((Canonicalise(), Drop(), RemoveDeadCode())).run(M)
    broken = Drop().run(M)
    with pytest.raises(VerificationError, match=r"^M\.f: t0 uses y") as failure:
        Pipeline((RemoveDeadCode(),)).run(broken)
    assert "after" not in str(failure.value)


@pytest.mark.spec("passes.verified")
def test_passes_run_in_order_and_are_shown_one_by_one():
    seen = []
    whole = Pipeline((InlineCalls(), RemoveDeadCode())).run(M, lambda one, made: seen.append((one, made)))
    assert [one for one, _ in seen] == [InlineCalls(), RemoveDeadCode()]
    assert seen[-1][1] is whole


def binds() -> tuple[Bind, Bind]:
    first, second = M.lookup("f").body.stmts
    return first, second


def renamed(bind: Bind, name: str) -> Bind:
    return replace(bind, target=Var(bind.target.type, name))


X = M.lookup("f").params[0]
WRONG = TensorType((N, 5), DType.from_name("f32"))


@pytest.mark.spec("passes.invariants")
@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda a, b: Block((a, a, b), (b.target,)), "y is bound twice"),
        (lambda a, b: Block((renamed(a, "x"), b), (b.target,)), "x is bound twice"),
        (lambda a, b: Block((b, a), (b.target,)), "t0 uses y, which nothing before it binds"),
        (lambda a, b: Block((a, b), (b.target, X)), "returns 2 values, declared are 1"),
        (lambda a, b: Block((a, b), (Var(b.target.type, "z"),)), "a result uses z, which nothing before"),
        (
            lambda a, b: Block((a, b), (Var(WRONG, "y"),)),
            r"a result uses y as f32\[N, 5\], it is bound as f32\[N, 4\]",
        ),
        (
            lambda a, b: Block((replace(a, target=Var(WRONG, "y")), b), (b.target,)),
            r"y has the type f32\[N, 5\], its value has f32\[N, 4\]",
        ),
        (
            lambda a, b: Block((replace(a, value=replace(a.value, type=WRONG)), b), (b.target,)),
            r"y = tf\.exp is recorded as f32\[N, 5\], its rule gives f32\[N, 4\]",
        ),
        (
            lambda a, b: Block((replace(a, value=replace(a.value, args=())), b), (b.target,)),
            r"y: tf\.exp\(x\) takes 1 tensor operands, got 0",
        ),
        (
            lambda a, b: Block((replace(a, value=replace(a.value, attrs=(("axis", 1),))), b), (b.target,)),
            r"y = tf\.exp carries the attributes axis, its schema has none",
        ),
    ],
)
def test_broken_bodies_are_refused(make, message):
    with pytest.raises(VerificationError, match=rf"^M\.f: .*{message}"):
        verify_module(entry_with(make(*binds())))


@pytest.mark.spec("passes.invariants")
def test_a_result_of_another_type_and_a_base_without_bodies_are_refused():
    f = M.lookup("f")
    wrong = Function("f", f.params, WRONG, f.body)
    with pytest.raises(VerificationError, match=r"M\.f: result 0 is f32\[N, 4\], declared is f32\[N, 5\]"):
        verify_module(Module("M", (wrong,)))
    with pytest.raises(VerificationError, match=r"M\.f: no body and no variant"):
        verify_module(Module("M", (Function("f", f.params, f.result, None),)))
    nested = Module("Outer", modules=(Module("inner", (wrong,)),))
    with pytest.raises(VerificationError, match=r"^inner\.f: result 0"):
        verify_module(nested)


@pytest.mark.spec("passes.invariants")
def test_loops_yield_what_they_carry():
    @func
    def g(x: Tensor[(4,), "f32"]) -> Tensor[(4,), "f32"]:
        for _ in range(3):
            x = x * 2.0
        return x

    (loop,) = g.body.stmts
    none = replace(loop, body=Block(loop.body.stmts, ()))
    literal = Constant(TensorType((), DType.from_name("f32")), 1.0)
    other = replace(loop, body=Block(loop.body.stmts, (literal,)))
    for broken, message in (
        (none, "yields 0 of 1 values"),
        (other, r"carries .* as f32\[4\], its body yields f32\[\]"),
    ):
        with pytest.raises(VerificationError, match=message):
            verify_module(Module("M", (with_body(g, Block((broken,), g.body.results)),)))
