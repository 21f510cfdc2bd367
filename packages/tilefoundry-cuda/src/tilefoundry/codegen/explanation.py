"""Say what a program is compiled to: its kernels, what each moves and computes, and what did not fuse."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

from tilefoundry.codegen.cpu.nest import ARRANGE, MEMORY_OPS, Nest, is_matmul
from tilefoundry.codegen.cpu.schedule.plan import sample
from tilefoundry.codegen.cpu.schedule.prologues import prologue_refusal as cpu_refusal
from tilefoundry.codegen.cpu.schedule.whole import WHOLE_OPS
from tilefoundry.codegen.cuda.schedule import prologue_refusal as cuda_refusal
from tilefoundry.codegen.cuda.schedule.whole import CUDA_WHOLE_OPS
from tilefoundry.codegen.cuda.spreads import flattened
from tilefoundry.codegen.launch_paths import launched
from tilefoundry.codegen.placing import placing_and_rest
from tilefoundry.ir.core.expr import Bind, Call, FunctionCall, MeshScope, Var
from tilefoundry.ir.core.module import Module
from tilefoundry.ir.hir.function import Function, Variant
from tilefoundry.ir.tir import SCALAR_OPS, Comment, Launch, PrimFunction, walk_tir
from tilefoundry.ir.types import Dim, TensorType, TupleType, Type, dim_vars, evaluate_dim
from tilefoundry.ir.types.dim import product
from tilefoundry.ir.types.shard import Mesh
from tilefoundry.runtime import KernelRecord
from tilefoundry.target import Target
from tilefoundry.verbs import as_module, resolved_target

__all__ = ["Explanation", "KernelFacts", "explain"]

_SCALAR_PER_BYTE = {"cpu": 8.0, "cuda": 14.0}
"""Scalar operations per byte above which a kernel counts as bound by arithmetic; round figures of present machines."""

_PRODUCTS_PER_BYTE = {"cpu": 8.0, "cuda": 200.0}
"""The same for kernels around a matmul, which matrix units compute where there are any."""


@dataclass(frozen=True, slots=True)
class KernelFacts:
    """One launch.

    Attributes:
        name: the kernel.
        ops: the HIR ops in it, in order.
        reads, writes: bytes; dims where the call decides.
        flops: scalar operations, two per multiply-add; costly functions count as several.
        unfused: (reader, reason) for every value that another kernel reads from memory.
        balance: operations per byte above which arithmetic is what bounds it.
        meshes: one per scope, with the extents of its axes; none on a CPU.
        launch: its path in the program and, on a GPU, its geometry; registers are known when it is compiled.
    """

    name: str
    ops: tuple[str, ...]
    reads: Dim
    writes: Dim
    flops: Dim
    unfused: tuple[tuple[str, str], ...]
    balance: float = 8.0
    meshes: tuple[Mesh, ...] = ()
    launch: KernelRecord | None = None

    def bound(self, extents: dict[str, int]) -> str:
        """``"memory"`` or ``"arithmetic"`` at these extents."""
        moved = evaluate_dim(self.reads, extents) + evaluate_dim(self.writes, extents)
        return "arithmetic" if evaluate_dim(self.flops, extents) > self.balance * moved else "memory"

    def bound_text(self) -> str:
        """The bound, at sample extents where only a call decides them."""
        moved, flops = sample(self.reads) + sample(self.writes), sample(self.flops)
        text = "arithmetic" if flops > self.balance * moved else "memory"
        open_ = sorted({var.name for dim in (self.reads, self.writes, self.flops) for var in dim_vars(dim)})
        return f"bound by {text}" + (f" at extents near 60 of {', '.join(open_)}" if open_ else "")


@dataclass(frozen=True, slots=True)
class Explanation:
    """The kernels of a program in launch order; printed as a table."""

    name: str
    target: str
    kernels: tuple[KernelFacts, ...]

    def __str__(self) -> str:
        count = f"{len(self.kernels)} kernel{'' if len(self.kernels) == 1 else 's'}"
        return "\n".join([f"{self.name} for {self.target}: {count}", *self._lines()])

    def _lines(self) -> Iterator[str]:
        for kernel in self.kernels:
            yield f"  {kernel.name}"
            yield f"    ops: {', '.join(kernel.ops)}"
            for mesh in kernel.meshes:
                yield f"    on {mesh}"
            yield f"    reads {kernel.reads} bytes, writes {kernel.writes}, computes {kernel.flops}"
            yield f"    {kernel.bound_text()}"
            if kernel.launch is not None:
                yield f"    launched as {kernel.launch}"
            for reader, reason in kernel.unfused:
                yield f"    apart from {reader}: {reason}"


def explain(mod: Any, *, target: Target | str | None = None) -> Explanation:
    """The kernels that ``mod`` is compiled to, variants one after the other; nothing is compiled.

    Args:
        mod: a Module with an entry, or a Function.
        target: as for ``lower``; by default the one that the module declares, else the CPU.

    Raises:
        LoweringError: what ``lower`` refuses, by name.
    """
    module = as_module(mod)
    resolved = resolved_target(module, target, "cpu")
    placing, rest = placing_and_rest(resolved)
    placed = placing.run(module)
    entry = placed.entry_function()
    own = frozenset(child.name for child in module.modules if child.topologies is not None)
    facts = _facts(entry, resolved.kind, own) if isinstance(entry, Function) else _authored(placed, module)
    launches = launched(rest.run(placed))
    kernels = tuple(replace(kernel, launch=launches.get(kernel.name)) for kernel in facts)
    return Explanation(f"{module.name}.{entry.name}", str(resolved), kernels)


def _facts(entry: Function | Variant, kind: str, own: frozenset[str]) -> Iterator[KernelFacts]:
    """``own``: kernels that the program itself has apart, as a placed one does."""
    function = entry.function if isinstance(entry, Variant) else entry
    for variant in function.variants:
        yield from _facts(variant, kind, own)
    calls = [s for s in function.stmts() if isinstance(s, Bind) and isinstance(s.value, FunctionCall)]
    for bind in calls:
        call = bind.value
        assert isinstance(call, FunctionCall)
        binds = _computed(call.callee)
        ops = tuple(b.value.op.name for b in binds if isinstance(b.value, Call))
        reads = sum((_bytes(arg.type) for arg in call.args), start=0)
        flops = sum((_flops(b) for b in binds), start=0)
        balance = (_PRODUCTS_PER_BYTE if "matmul" in ops else _SCALAR_PER_BYTE)[kind]
        unfused = tuple(_unfused(function, bind, calls, own, kind))
        scopes = call.callee.stmts() if isinstance(call.callee, Function) else ()
        meshes = tuple(s.mesh for s in scopes if isinstance(s, MeshScope))
        yield KernelFacts(call.callee.name, ops, reads, _bytes(call.type), flops, unfused, balance, meshes)


def _authored(placed: Module, module: Module) -> Iterator[KernelFacts]:
    """Kernels of a program that its author placed: what they move, and the lines that they were written from."""
    host = placed.entry_function()
    assert isinstance(host, PrimFunction)
    kernels = {f.name: f for f in placed.functions if isinstance(f, PrimFunction) and f is not host}
    outputs = {param.name for param in host.params[len(host.params) - host.output_count :]}
    source = module.entry_function()
    written = [s for s in source.stmts() if isinstance(s, Bind)] if isinstance(source, Function) else []
    flops = sum((_flops(b) for b in written if isinstance(b.value, Call) and _countable(b)), start=0)
    for launch in (stmt for stmt in walk_tir(host.body) if isinstance(stmt, Launch)):
        kernel = kernels[launch.callee]
        given = [arg for arg in launch.args if isinstance(arg, Var) and isinstance(arg.type, TensorType)]
        reads = sum((_bytes(arg.type) for arg in given if arg.name not in outputs), start=0)
        writes = sum((_bytes(arg.type) for arg in given if arg.name in outputs), start=0)
        lines = tuple(stmt.text for stmt in kernel.body if isinstance(stmt, Comment)) or (
            "placed by its author",
        )
        share = flops if len(kernels) == 1 else 0
        yield KernelFacts(kernel.name, lines, reads, writes, share, (), _SCALAR_PER_BYTE["cuda"])


def _computed(kernel: Function | PrimFunction) -> list[Bind]:
    """The ops that compute; moving a value between memories does not, and statements are not counted."""
    if isinstance(kernel, PrimFunction):
        return []
    found = flattened(kernel)
    kernel = kernel if found is None else found[1]
    return [stmt for stmt in kernel.stmts() if isinstance(stmt, Bind) and not _moves(stmt)]


def _moves(bind: Bind) -> bool:
    return isinstance(bind.value, Call) and bind.value.op.name in ("reshard", "local")


def _countable(bind: Bind) -> bool:
    return isinstance(bind.target.type, TensorType) and not _moves(bind)


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


def _unfused(
    entry: Function, bind: Bind, calls: list[Bind], own: frozenset[str], kind: str
) -> Iterator[tuple[str, str]]:
    given = _aliases(entry, bind.target.name)
    for other in calls:
        if other is bind or not any(isinstance(a, Var) and a.name in given for a in other.value.args):
            continue
        above, below = bind.value.callee, other.value.callee  # type: ignore[union-attr]  # FunctionCalls
        apart = {above.name, below.name} <= own
        yield (
            below.name,
            "the program has them as kernels of their own" if apart else _reason(above, below, kind),
        )


def _aliases(entry: Function, name: str) -> set[str]:
    """The value and every view of it."""
    found = {name}
    for stmt in entry.stmts():
        if isinstance(stmt, Bind) and isinstance(stmt.value, Call):
            source = stmt.value.args[0] if stmt.value.args else None
            if isinstance(source, Var) and source.name in found:
                found.add(stmt.target.name)
    return found


_WHOLE = frozenset(WHOLE_OPS) | frozenset(CUDA_WHOLE_OPS)


def _reason(above: Function | PrimFunction, below: Function | PrimFunction, kind: str) -> str:
    if isinstance(above, PrimFunction) or isinstance(below, PrimFunction):
        return "its statements are a kernel as they stand"
    upper, lower = _computed(above), _computed(below)
    for binds in (upper, lower):
        whole = next(
            (b.value.op.name for b in binds if isinstance(b.value, Call) and b.value.op.name in _WHOLE),
            None,
        )
        if whole:
            return f"tf.{whole} is a kernel of its own"
    reader = next(
        (b.value.op.name for b in lower if isinstance(b.value, Call) and b.value.op.name in MEMORY_OPS), None
    )
    if reader == "matmul":
        return _product_reason(upper, lower, kind)
    if reader:
        return f"tf.{reader} reads its operands from memory"
    one, two = Nest.of(upper, grow=True), Nest.of(lower, grow=True)
    if one is None or two is None:
        return "its ops share no loop nest"
    if one.matmul is not None and two.reduced:
        return "rows of a product are computed by several workers, and the reader needs whole ones"
    if (
        one.reduced
        and two.reduced
        and [one.extents[a] for a in one.reduced] != [two.extents[a] for a in two.reduced]
    ):
        return "they reduce different axes"
    return "its loops do not cover the same extents, or a third kernel lies between"


_REFUSALS: dict[str, Callable[[Nest], str | None]] = {
    "cpu": cpu_refusal,
    "cuda": cuda_refusal,
}


def _product_reason(upper: list[Bind], lower: list[Bind], kind: str) -> str:
    """Why the product in ``lower`` does not compute what it reads of ``upper``."""
    if any(map(is_matmul, upper)):
        return "each product is a kernel of its own"
    nest, made = Nest.of([*upper, *lower], grow=True), {bind.target.name for bind in upper}
    if nest is None and any(bind.value.op.name == "reduce" for bind in upper):  # type: ignore[union-attr]  # Calls
        return "a product computes elementwise what it reads, and these rows are joined first"
    chains = () if nest is None else tuple(p for p in nest.prologues if made & set(p[1].table))
    if nest is None or not chains:
        return "the product does not read it element by element as it is computed"
    return _REFUSALS[kind](replace(nest, prologues=chains)) or "others read it as well"


def dims_of(explanation: Explanation) -> tuple[str, ...]:
    """Names of the extents that the figures depend on."""
    dims = [d for k in explanation.kernels for d in (k.reads, k.writes, k.flops)]
    return tuple(dict.fromkeys(var.name for dim in dims for var in dim_vars(dim)))
