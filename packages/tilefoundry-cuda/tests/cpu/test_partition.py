"""The order of groups. Oracle: positions in the program, and a depth that no interpreter's stack has."""

from __future__ import annotations

import sys

from tilefoundry import func
from tilefoundry.codegen.cpu.partition import Group, _Partition, any_nest, is_view, partition
from tilefoundry.dsl import Tensor, tf
from tilefoundry.ir.core.expr import Bind, Block, Call, Var
from tilefoundry.ir.types import DType, TensorType

TYPE = TensorType((4,), DType.from_name("f32"))


@func
def program(x: Tensor[(4, 8), "f32"]) -> Tensor[(4, 8), "f32"]:
    return tf.exp(x)


def bind(name: str, reads: str) -> Bind:
    (op,) = {stmt.value.op for stmt in program.body.stmts}
    return Bind(Var(TYPE, name), Call(TYPE, op, (Var(TYPE, reads),)))


def test_a_chain_deeper_than_the_stack_is_sorted():
    """Each group reads the one that the program has after it, as groups do whose last values come late."""
    count = 5 * sys.getrecursionlimit()
    binds = [bind(f"v{i}", f"v{i + 1}") for i in range(count)]
    split = _Partition(Block((), ()), is_view, any_nest)
    split.groups = [Group([one]) for one in binds]
    split.home = {one.target.name: group for one, group in zip(binds, split.groups, strict=True)}
    split.order = {one.target.name: i for i, one in enumerate(binds)}
    assert split._sorted() == split.groups[::-1]


def test_groups_come_after_what_they_read_and_else_in_program_order():
    @func
    def several(x: Tensor[(4, 8), "f32"], y: Tensor[(8, 4), "f32"]) -> Tensor[(4, 4), "f32"]:
        a = tf.matmul(x, y)
        b = tf.matmul(a, a)
        c = tf.matmul(tf.exp(x), y)
        return tf.matmul(b, c)

    groups = partition(several.body)
    place = {b.target.name: i for i, group in enumerate(groups) for b in group.binds}
    assert all(place[name] <= i for i, group in enumerate(groups) for name in group.uses() if name in place)
    lasts = [group.binds[-1].target.name for group in groups]
    order = [stmt.target.name for stmt in several.body.stmts]
    assert lasts == sorted(lasts, key=order.index)
