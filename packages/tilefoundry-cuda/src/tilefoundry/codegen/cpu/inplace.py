"""Find outputs that are an input with one window replaced, so that a caller may pass one tensor as both."""

from __future__ import annotations

from collections.abc import Sequence

from tilefoundry.codegen.cpu.schedule import KernelSpec
from tilefoundry.codegen.cpu.schedule.whole import inputs_of
from tilefoundry.ir.core.expr import Bind, Call, Var
from tilefoundry.ir.tir import Let, Load, TirStmt
from tilefoundry.ir.types import TensorType

__all__ = ["INPLACE", "inplace_pairs", "touched"]

INPLACE = "inplace"
"""Key of a lowered module's metadata: (output, input) pairs, as in ``EntryABI.inplace``."""

_WINDOW_OPS = frozenset({"insert_slice", "cache_update", "index_copy"})


def inplace_pairs(
    steps: Sequence[KernelSpec | TirStmt], inputs: Sequence[Var], outputs: Sequence[Var]
) -> tuple[tuple[int, int], ...]:
    """(index among ``outputs``, index among ``inputs``) of the host's ``steps``.

    A pair counts where one op makes the whole output from the whole input and a window, no other operand of that op
    lies in the input, and no step after it reads the input: then every read of the window precedes the write.
    """
    found = []
    for number, output in enumerate(outputs):
        makers = [i for i, step in enumerate(steps) if _writes(step, output.name)]
        source = _source(steps[makers[0]], output) if len(makers) == 1 else None
        given = next((i for i, p in enumerate(inputs) if p.name == source and not p.is_const), None)
        if given is None or inputs[given].type != output.type:
            continue
        if not any(inputs[given].name in touched(step) for step in steps[makers[0] + 1 :]):
            found.append((number, given))
    return tuple(found)


def touched(step: KernelSpec | TirStmt) -> list[str]:
    """Buffers that a step of the host reads or writes."""
    if isinstance(step, KernelSpec):
        return [view.buffer for view in (*step.inputs, *step.outputs)]
    if isinstance(step, Let) and isinstance(step.value, Load):
        return [step.value.buffer.name]
    return []


def _writes(step: KernelSpec | TirStmt, buffer: str) -> bool:
    return isinstance(step, KernelSpec) and any(view.buffer == buffer for view in step.outputs)


def _source(step: KernelSpec | TirStmt, output: Var) -> str | None:
    """The buffer that the window is put into, where ``step`` makes all of ``output`` from all of it."""
    assert isinstance(step, KernelSpec)
    first = step.function.stmts()[0]
    call = first.value if isinstance(first, Bind) else None
    if not isinstance(call, Call) or call.op.name not in _WINDOW_OPS:
        return None
    into, *others = inputs_of(call, step)
    made = step.outputs[0]
    assert isinstance(output.type, TensorType)
    whole = into.is_dense and made.is_dense and into.shape == made.shape
    if not whole or made.view_size != output.type.size or any(one.buffer == into.buffer for one in others):
        return None
    return into.buffer
