"""Say what a program is compiled to: its kernels, what each moves and computes, and what did not fuse."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from tilefoundry.codegen.cpu.backend import CpuBackend
from tilefoundry.codegen.cpu.nest import ARRANGE, MEMORY_OPS, Nest
from tilefoundry.codegen.cpu.place import Place
from tilefoundry.codegen.cpu.schedule.whole import WHOLE_OPS
from tilefoundry.ir.core.expr import Bind, Call, FunctionCall, Var
from tilefoundry.ir.core.module import Module
from tilefoundry.ir.errors import UnsupportedError
from tilefoundry.ir.hir.function import Function
from tilefoundry.ir.passes import Pipeline
from tilefoundry.ir.tir import SCALAR_OPS
from tilefoundry.ir.types import Dim, TensorType, TupleType, Type, dim_vars, evaluate_dim
from tilefoundry.ir.types.dim import product
from tilefoundry.target import CompilerOptions, CpuTarget, Target
from tilefoundry.verbs import as_module, resolved_target

__all__ = ["Explanation", "KernelFacts", "explain"]

_FLOPS_PER_BYTE = 8.0
"""Scalar operations per byte above which a kernel counts as bound by arithmetic; a round figure for CPUs."""


@dataclass(frozen=True, slots=True)
class KernelFacts:
    """One launch.

    Attributes:
        name: the kernel.
        ops: the HIR ops in it, in order.
        reads, writes: bytes; dims where the call decides.
        flops: scalar operations, two per multiply-add; costly functions count as several.
        unfused: (reader, reason) for every value that another kernel reads from memory.
    """

    name: str
    ops: tuple[str, ...]
    reads: Dim
    writes: Dim
    flops: Dim
    unfused: tuple[tuple[str, str], ...]

    def bound(self, extents: dict[str, int]) -> str:
        """``"memory"`` or ``"arithmetic"`` at these extents."""
        moved = evaluate_dim(self.reads, extents) + evaluate_dim(self.writes, extents)
        return "arithmetic" if evaluate_dim(self.flops, extents) > _FLOPS_PER_BYTE * moved else "memory"


@dataclass(frozen=True, slots=True)
class Explanation:
    """The kernels of a program in launch order; printed as a table."""

    name: str
    target: str
    kernels: tuple[KernelFacts, ...]

    def __str__(self) -> str:
        return "\n".join([f"{self.name} for {self.target}: {len(self.kernels)} kernels", *self._lines()])

    def _lines(self) -> Iterator[str]:
        for kernel in self.kernels:
            yield f"  {kernel.name}"
            yield f"    ops: {', '.join(kernel.ops)}"
            yield f"    reads {kernel.reads} bytes, writes {kernel.writes}, computes {kernel.flops}"
            for reader, reason in kernel.unfused:
                yield f"    apart from {reader}: {reason}"


def explain(mod: Any, *, target: Target | str | None = "cpu") -> Explanation:
    """The kernels that ``mod`` is compiled to; nothing is compiled.

    Args:
        mod: a Module with an entry, or a Function.
        target: as for ``lower``.

    Raises:
        UnsupportedError: a target other than a CPU.
    """
    module = as_module(mod)
    resolved = resolved_target(module, target, "cpu")
    if not isinstance(resolved, CpuTarget):
        raise UnsupportedError(f"explain speaks of the cpu target only for now, got {resolved}")
    passes = CpuBackend().pipeline(resolved, CompilerOptions())
    until = next(i for i, one in enumerate(passes) if isinstance(one, Place)) + 1
    placed = Pipeline(passes[:until]).run(module)
    entry = placed.entry_function()
    assert isinstance(entry, Function)
    return Explanation(f"{module.name}.{entry.name}", str(resolved), tuple(_facts(placed, entry)))


def _facts(placed: Module, entry: Function) -> Iterator[KernelFacts]:
    calls = [s for s in entry.stmts() if isinstance(s, Bind) and isinstance(s.value, FunctionCall)]
    for bind in calls:
        call = bind.value
        assert isinstance(call, FunctionCall)
        binds = [s for s in call.callee.stmts() if isinstance(s, Bind)]
        reads = sum((_bytes(arg.type) for arg in call.args), start=0)
        flops = sum((_flops(b) for b in binds), start=0)
        yield KernelFacts(
            call.callee.name,
            tuple(b.value.op.name for b in binds if isinstance(b.value, Call)),
            reads,
            _bytes(call.type),
            flops,
            tuple(_unfused(entry, bind, calls)),
        )


def _bytes(type_: Type) -> Dim:
    if isinstance(type_, TupleType):
        return sum((_bytes(element) for element in type_.elements), start=0)
    return product((type_.size, type_.dtype.itemsize))


def _flops(bind: Bind) -> Dim:
    call = bind.value
    assert isinstance(call, Call)
    name = call.op.name
    result = call.type.elements[0] if isinstance(call.type, TupleType) else call.type
    assert isinstance(result, TensorType)
    if name == "matmul":
        inner = call.args[0].type
        assert isinstance(inner, TensorType)
        return product((2, result.size, inner.shape[-1]))
    if name == "reduce":
        source = call.args[0].type
        assert isinstance(source, TensorType)
        return source.size
    return (
        0 if name in ARRANGE else product((result.size, SCALAR_OPS[name].cost if name in SCALAR_OPS else 1))
    )


def _unfused(entry: Function, bind: Bind, calls: list[Bind]) -> Iterator[tuple[str, str]]:
    given = _aliases(entry, bind.target.name)
    for other in calls:
        if other is bind or not any(isinstance(a, Var) and a.name in given for a in other.value.args):
            continue
        yield other.value.callee.name, _reason(bind.value.callee, other.value.callee)  # type: ignore[union-attr]  # FunctionCalls


def _aliases(entry: Function, name: str) -> set[str]:
    """The value and every view of it."""
    found = {name}
    for stmt in entry.stmts():
        if isinstance(stmt, Bind) and isinstance(stmt.value, Call):
            source = stmt.value.args[0] if stmt.value.args else None
            if isinstance(source, Var) and source.name in found:
                found.add(stmt.target.name)
    return found


def _reason(above: Function, below: Function) -> str:
    upper = [s for s in above.stmts() if isinstance(s, Bind)]
    lower = [s for s in below.stmts() if isinstance(s, Bind)]
    for binds in (upper, lower):
        whole = next(
            (b.value.op.name for b in binds if isinstance(b.value, Call) and b.value.op.name in WHOLE_OPS),
            None,
        )
        if whole:
            return f"tf.{whole} is a kernel of its own"
    reader = next(
        (b.value.op.name for b in lower if isinstance(b.value, Call) and b.value.op.name in MEMORY_OPS), None
    )
    if reader:
        return f"tf.{reader} reads its operands from memory"
    one, two = Nest.of(upper, grow=True), Nest.of(lower, grow=True)
    assert one is not None and two is not None
    if (
        one.reduced
        and two.reduced
        and [one.extents[a] for a in one.reduced] != [two.extents[a] for a in two.reduced]
    ):
        return "they reduce different axes"
    return "its loops do not cover the same extents, or a third kernel lies between"


def dims_of(explanation: Explanation) -> tuple[str, ...]:
    """Names of the extents that the figures depend on."""
    dims = [d for k in explanation.kernels for d in (k.reads, k.writes, k.flops)]
    return tuple(dict.fromkeys(var.name for dim in dims for var in dim_vars(dim)))
