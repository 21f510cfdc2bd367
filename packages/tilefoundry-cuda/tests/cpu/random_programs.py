"""Random programs over one set of ops: broadcasts, reductions, views, products, gathers, calls, several outputs.

Values stay bounded, and nothing in them jumps (no rounding, no comparison of computed values), so that two right
computations differ by rounding alone.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, field

import torch

from tilefoundry.ir.core.expr import Bind, FunctionCall, Var
from tilefoundry.ir.errors import TypeRuleError
from tilefoundry.ir.hir.function import Function
from tilefoundry.ir.types import DimVar, evaluate_dim

from .harness import Program, constant, random_tensor

__all__ = ["random_program"]

BOUNDED = ("tanh", "sigmoid", "sin", "relu", "gelu", "neg", "abs", "silu")


@dataclass
class _Builder:
    choose: random.Random
    program: Program = field(default_factory=Program)
    values: list[Var] = field(default_factory=list)
    index: Var | None = None

    def pick(self, rank: int = 0) -> Var:
        """A value of at least ``rank`` axes, recent ones more often."""
        fitting = [value for value in self.values if len(shape(value)) >= rank]
        return self.choose.choice(fitting[-4:] if self.choose.random() < 0.7 else fitting)

    def axes(self, value: Var) -> tuple[int, ...]:
        rank = len(shape(value))
        return tuple(sorted(self.choose.sample(range(rank), self.choose.randint(1, rank))))


def shape(value: Var):
    return value.type.shape


def _unary(b: _Builder) -> Var:
    return b.program(b.choose.choice(BOUNDED), b.pick())


def _binary(b: _Builder) -> Var:
    op = b.choose.choice(("add", "sub", "mul", "minimum", "maximum"))
    if b.choose.random() < 0.2:
        return b.program(op, b.pick(), constant("f32", b.choose.choice((0.5, -1.25, 2.0))))
    return b.program("tanh", b.program(op, b.pick(), b.pick()))


def _reduce(b: _Builder) -> Var:
    value = b.pick(1)
    kind = b.choose.choice(("mean", "max", "min", "absmax", "sum"))
    reduced = b.program("reduce", value, axes=b.axes(value), keepdim=b.choose.random() < 0.6, kind=kind)
    return b.program("tanh", reduced) if kind == "sum" else reduced


def _row(b: _Builder) -> Var:
    value = b.pick(1)
    name = b.choose.choice(("softmax", "rms_norm", "layer_norm"))
    if name == "softmax":
        return b.program(name, value, axis=b.choose.randrange(len(shape(value))))
    return b.program(name, value, eps=0.5)


def _transpose(b: _Builder) -> Var:
    value = b.pick(2)
    perm = list(range(len(shape(value))))
    b.choose.shuffle(perm)
    return b.program("transpose", value, perm=tuple(perm))


def _reshape(b: _Builder) -> Var:
    value = b.pick(1)
    dims = list(shape(value))
    at = b.choose.randrange(len(dims))
    if b.choose.random() < 0.4:
        dims.insert(at, 1)
    elif len(dims) > 1 and at:
        dims[at - 1 : at + 1] = [dims[at - 1] * dims[at]]
    elif isinstance(dims[at], int) and dims[at] % 2 == 0:
        dims[at : at + 1] = [2, dims[at] // 2]
    return b.program("reshape", value, new_shape=tuple(dims))


def _slice(b: _Builder) -> Var:
    value = b.pick(1)
    sizes, starts = list(shape(value)), [0] * len(shape(value))
    at = b.choose.randrange(len(sizes))
    if isinstance(sizes[at], int) and sizes[at] > 2:
        starts[at], sizes[at] = 1, sizes[at] - 2
    return b.program("slice", value, starts=tuple(starts), sizes=tuple(sizes))


def _join(b: _Builder) -> Var:
    value = b.pick(1)
    other = b.program("neg", value)
    axis = b.choose.randrange(len(shape(value)))
    return b.program(b.choose.choice(("concat", "stack")), value, other, axis=axis)


def _matmul(b: _Builder) -> Var:
    value = b.pick(2)
    rank = len(shape(value))
    turned = b.program("transpose", b.program("softmax", value), perm=(*range(rank - 2), rank - 1, rank - 2))
    return b.program("tanh", b.program("matmul", value, turned))


def _computed_product(b: _Builder) -> Var:
    """A product of operands that are computed elementwise, one of them or both, before or after they are turned."""
    value = b.pick(2)
    rank = len(shape(value))
    perm = (*range(rank - 2), rank - 1, rank - 2)
    left, right = b.choose.choice(((True, False), (False, True), (True, True)))
    one = b.program("mul", b.program(b.choose.choice(BOUNDED), value), value) if left else value
    if b.choose.random() < 0.5:
        turned = b.program("transpose", b.program("tanh", value) if right else value, perm=perm)
    else:
        turned = b.program("transpose", value, perm=perm)
        turned = b.program("mul", b.program("sigmoid", turned), turned) if right else turned
    return b.program("tanh", b.program("mul", b.program("matmul", one, turned), constant("f32", 0.125)))


def _gather(b: _Builder) -> Var:
    value = b.pick(1)
    assert b.index is not None
    fitting = [axis for axis, dim in enumerate(shape(value)) if isinstance(dim, int) and dim >= 4]
    if not fitting:
        raise TypeRuleError("no axis is surely long enough")
    return b.program("index_select", value, b.index, dim=b.choose.choice(fitting))


def _where(b: _Builder) -> Var:
    value = b.pick()
    positive = b.program("cmp_gt", b.values[0], constant("f32", 0.0))
    return b.program("where", positive, value, b.pick())


def _repeat(b: _Builder) -> Var:
    value = b.pick(1)
    return b.program("repeat_interleave", value, repeats=2, axis=b.choose.randrange(len(shape(value))))


def _call(b: _Builder) -> Var:
    """A function of its own, called twice."""
    value = b.pick()
    if not all(isinstance(dim, (int, DimVar)) for dim in shape(value)):
        raise TypeRuleError("a callee's extents follow from its parameters one by one")
    inner = Program(f"helper{len(b.program.stmts)}")
    x = inner.param("x", shape(value))
    helper = inner.done(inner("tanh", inner("add", inner(b.choose.choice(BOUNDED), x), x)))
    for _ in range(2):
        call = FunctionCall(helper.result, helper, (helper.name,), (value,))
        value = Var(helper.result, f"v{len(b.program.stmts)}")
        b.program.stmts.append(Bind(value, call))
    return value


STEPS: tuple[tuple[Callable[[_Builder], Var], int], ...] = (
    (_unary, 4),
    (_binary, 6),
    (_reduce, 4),
    (_row, 3),
    (_transpose, 2),
    (_reshape, 2),
    (_slice, 1),
    (_join, 1),
    (_matmul, 2),
    (_computed_product, 2),
    (_gather, 1),
    (_where, 1),
    (_repeat, 1),
    (_call, 1),
)

_LARGEST = 4000


def random_program(seed: int, steps: int) -> tuple[Function, list[torch.Tensor]]:
    """The program of ``seed`` cut to ``steps`` steps, with its arguments; fewer steps give a prefix."""
    choose = random.Random(seed)
    dims = [DimVar("A", 1, 64), DimVar("B", 1, 64), 1, 4, 6]
    env = {"A": choose.choice((1, 2, 3, 7)), "B": choose.choice((1, 5, 8, 17))}
    b = _Builder(choose, Program(f"seed{seed}"))
    for name in "xyz":
        rank = choose.randint(1, 3)
        b.values.append(b.program.param(name, tuple(choose.choice(dims) for _ in range(rank))))
    # Both variables stand in a shape by themselves, so that a call binds them.
    b.values.append(b.program.param("w", (dims[0], dims[1])))
    b.index = b.program.param("i", (3,), "i64")
    makers = [maker for maker, weight in STEPS for _ in range(weight)]
    for _ in range(steps):
        _step(b, choose.choice(makers), env)
    extra = [value for value in b.values[4:-1] if choose.random() < 0.15]
    function = b.program.done(*dict.fromkeys([b.values[-1], *extra[:3]]))
    tensors = []
    for i, param in enumerate(function.params):
        sizes = tuple(evaluate_dim(dim, env) for dim in shape(param))
        tensors.append(random_tensor(sizes, param.type.dtype.name, seed * 7 + i))
    tensors[-1] = torch.tensor([2, 0, 3])
    return function, tensors


def _step(b: _Builder, maker: Callable[[_Builder], Var], env: dict[str, int]) -> None:
    """Try one step; where the operands do not fit, or the result is large, nothing is added."""
    before = len(b.program.stmts)
    try:
        made = maker(b)
    except (TypeRuleError, IndexError):
        del b.program.stmts[before:]
        return
    count = 1
    for dim in shape(made):
        count *= evaluate_dim(dim, env)
    if count > _LARGEST or len(shape(made)) > 5:
        del b.program.stmts[before:]
    else:
        b.values.append(made)
