"""Plan a function once: numbered slots for its values, and after each step the slots that nothing reads again.

Dropping a value at its last use keeps the memory of a run near the largest live set of the program.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Any, Union

from tilefoundry.ir.core.expr import Atom, Bind, Block, Call, Constant, For, FunctionCall, MeshScope, Stmt
from tilefoundry.ir.core.op import Op
from tilefoundry.ir.errors import EvaluationError
from tilefoundry.ir.hir.function import Function
from tilefoundry.ir.types import TensorType, TupleType, Type
from tilefoundry.ir.types.shard import Instances, Mesh

__all__ = ["CallStep", "LoopStep", "OpStep", "Plan", "Step", "plan_of"]

_FOLDING = ("local", "reshard")
"""Ops that handle the instance axes themselves."""


@dataclass(frozen=True, slots=True)
class OpStep:
    """``values[target] = op(values[args])``; ``dead`` slots are cleared afterwards.

    ``mesh`` is set where an operand is one instance's own: the op then runs once per instance.
    """

    name: str
    target: int
    op: Op
    args: tuple[int, ...]
    attrs: dict[str, Any]
    operand_types: tuple[Type, ...]
    result_type: Type
    mesh: Mesh | None = None
    dead: tuple[int, ...] = ()

    @property
    def reads(self) -> frozenset[int]:
        """Slots read."""
        return frozenset(self.args)

    @property
    def writes(self) -> tuple[int, ...]:
        """Slots written."""
        return (self.target,)


@dataclass(frozen=True, slots=True)
class CallStep:
    """``values[target] = callee(values[args])``."""

    name: str
    target: int
    call: FunctionCall
    args: tuple[int, ...]
    dead: tuple[int, ...] = ()

    @property
    def reads(self) -> frozenset[int]:
        """Slots read."""
        return frozenset(self.args)

    @property
    def writes(self) -> tuple[int, ...]:
        """Slots written."""
        return (self.target,)


@dataclass(frozen=True, slots=True)
class LoopStep:
    """A loop: carried values go from ``initial`` through ``inner`` and ``yields`` to ``results``."""

    name: str
    loop: For
    index: int
    initial: tuple[int, ...]
    inner: tuple[int, ...]
    body: tuple[Step, ...]
    yields: tuple[int, ...]
    results: tuple[int, ...]
    reads: frozenset[int]
    dead: tuple[int, ...] = ()

    @property
    def writes(self) -> tuple[int, ...]:
        """Slots written."""
        return self.results


Step = Union[OpStep, CallStep, LoopStep]


@dataclass(frozen=True, slots=True)
class Plan:
    """A function ready to run.

    Attributes:
        body: the body that was planned.
        size: number of slots.
        params: the slot of each parameter.
        constants: (slot, literal); they are never cleared.
        steps: what to do, in order.
        results: the slots returned.
    """

    body: Block
    size: int
    params: tuple[int, ...]
    constants: tuple[tuple[int, Constant], ...]
    steps: tuple[Step, ...]
    results: tuple[int, ...]


def plan_of(function: Function, body: Block) -> Plan:
    """The plan of ``function``, made on first use and kept with it as long as ``body`` is its body.

    Raises EvaluationError where the function returns what one instance holds.
    """
    plan = function.plan
    if plan is None or plan.body is not body:
        plan = _Planner().plan(function, body)
        function.plan = plan
    return plan


@dataclass(slots=True)
class _Planner:
    """Hands out slots while one function is planned."""

    names: dict[str, int] = field(default_factory=dict)
    literals: dict[Constant, int] = field(default_factory=dict)
    size: int = 0

    def plan(self, function: Function, body: Block) -> Plan:
        for atom in body.results:
            if _instances((atom.type,)) is not None:
                raise EvaluationError(
                    f"{function.name} returns {atom.type}, which every instance has its own of; "
                    "fold it into a global value with tf.reshard first"
                )
        params = tuple(self._define(param.name) for param in function.params)
        steps = self._steps(body.stmts)
        results = tuple(self._slot(atom) for atom in body.results)
        steps = self._with_deaths(steps, frozenset(params), frozenset(results))
        constants = tuple((slot, literal) for literal, slot in self.literals.items())
        return Plan(body, self.size, params, constants, steps, results)

    def _define(self, name: str) -> int:
        self.names[name] = self.size
        self.size += 1
        return self.size - 1

    def _slot(self, atom: Atom) -> int:
        if not isinstance(atom, Constant):
            return self.names[atom.name]
        if atom not in self.literals:
            self.literals[atom] = self.size
            self.size += 1
        return self.literals[atom]

    def _steps(self, stmts: Iterable[Stmt]) -> tuple[Step, ...]:
        steps: list[Step] = []
        for stmt in stmts:
            if isinstance(stmt, MeshScope):
                steps.extend(self._steps(stmt.stmts))
            else:
                steps.append(self._bind(stmt) if isinstance(stmt, Bind) else self._loop(stmt))
        return tuple(steps)

    def _bind(self, bind: Bind) -> Step:
        args = tuple(self._slot(arg) for arg in bind.value.args)
        target, name = self._define(bind.target.name), bind.target.name
        if isinstance(bind.value, FunctionCall):
            return CallStep(name, target, bind.value, args)
        call: Call = bind.value
        types = tuple(arg.type for arg in call.args)
        mesh = None if call.op.name in _FOLDING else _instances(types)
        return OpStep(name, target, call.op, args, dict(call.attrs), types, call.type, mesh)

    def _loop(self, loop: For) -> LoopStep:
        initial = tuple(self._slot(carry.initial) for carry in loop.carries)
        index = self._define(loop.index.name)
        inner = tuple(self._define(carry.inner.name) for carry in loop.carries)
        steps = self._steps(loop.body.stmts)
        yields = tuple(self._slot(atom) for atom in loop.body.results)
        own = frozenset((index, *inner))
        defined = own.union(*(step.writes for step in steps))
        reads = frozenset(initial).union(yields, *(step.reads for step in steps)) - defined
        body = self._with_deaths(steps, own, frozenset(yields))
        results = tuple(self._define(carry.result.name) for carry in loop.carries)
        return LoopStep(loop.index.name, loop, index, initial, inner, body, yields, results, reads)

    def _with_deaths(
        self, steps: tuple[Step, ...], entering: frozenset[int], leaving: frozenset[int]
    ) -> tuple[Step, ...]:
        """Steps that clear what no later step of theirs reads; slots of outer blocks are left alone."""
        own = entering.union(*(step.writes for step in steps))
        live = set(leaving)
        out: list[Step] = []
        for step in reversed(steps):
            touched = step.reads.union(step.writes) & own
            out.append(replace(step, dead=tuple(sorted(touched - live))))
            live |= step.reads
        return tuple(reversed(out))


def _instances(types: Iterable[Type]) -> Mesh | None:
    """The mesh whose instances own one of the values, or None."""
    for type_ in types:
        if isinstance(type_, TensorType) and isinstance(type_.layout, Instances):
            return type_.layout.mesh
        found = _instances(type_.elements) if isinstance(type_, TupleType) else None
        if found is not None:
            return found
    return None
