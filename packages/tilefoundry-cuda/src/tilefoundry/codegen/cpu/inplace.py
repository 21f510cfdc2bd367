"""Find outputs that are an input with one window replaced, so that a caller may pass one tensor as both."""

from __future__ import annotations

from collections.abc import Sequence

from tilefoundry.codegen.cpu.host_steps import LoopSteps, Step, kernels_of
from tilefoundry.codegen.cpu.schedule import KernelSpec
from tilefoundry.codegen.cpu.schedule.whole import inputs_of
from tilefoundry.codegen.cpu.statement_kernels import StatementSpec
from tilefoundry.ir.core.expr import Bind, Call, Var
from tilefoundry.ir.tir import Let, Load
from tilefoundry.ir.types import TensorType

__all__ = ["INPLACE", "inplace_pairs", "touched"]

INPLACE = "inplace"
"""Key of a lowered module's metadata: (output, input) pairs, as in ``EntryABI.inplace``."""

_WINDOW_OPS = frozenset({"insert_slice", "cache_update", "index_copy"})


def inplace_pairs(
    steps: Sequence[Step], inputs: Sequence[Var], outputs: Sequence[Var]
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


def touched(step: Step) -> list[str]:
    """Buffers that a step of the host reads or writes."""
    if isinstance(step, LoopSteps):
        return list(dict.fromkeys(buffer for inner in kernels_of(step) for buffer in touched(inner)))
    if isinstance(step, (KernelSpec, StatementSpec)):
        return [view.buffer for view in (*step.inputs, *step.outputs)]
    if isinstance(step, Let) and isinstance(step.value, Load):
        return [step.value.buffer.name]
    return []


def _writes(step: Step, buffer: str) -> bool:
    return any(
        isinstance(inner, (KernelSpec, StatementSpec))
        and any(view.buffer == buffer for view in inner.outputs)
        for inner in kernels_of(step)
    )


def _source(step: Step, output: Var) -> str | None:
    """The buffer that the window is put into, where ``step`` makes all of ``output`` from all of it."""
    if not isinstance(step, KernelSpec):
        return None  # a loop puts windows in one by one
    # The kernel may be placed: its work then lies in the scope of its mesh.
    first = next((stmt for stmt in step.function.stmts() if isinstance(stmt, Bind)), None)
    call = first.value if first is not None else None
    if not isinstance(call, Call) or call.op.name not in _WINDOW_OPS:
        return None
    into, *others = inputs_of(call, step)
    made = step.outputs[0]
    assert isinstance(output.type, TensorType)
    whole = into.is_dense and made.is_dense and into.shape == made.shape
    if not whole or made.view_size != output.type.size or any(one.buffer == into.buffer for one in others):
        return None
    return into.buffer
