"""Attention as one kernel: clusters of blocks take the queries that share keys, a few at a time; many go by tiles."""

from __future__ import annotations

from tilefoundry.codegen.cpu.schedule.contraction import view_expr
from tilefoundry.codegen.cpu.schedule.kernel import KernelSpec
from tilefoundry.codegen.cpu.schedule.whole import inputs_of
from tilefoundry.codegen.cpu.views import View
from tilefoundry.codegen.cuda.attention_forms import THREADS, TOGETHER, AttentionForm
from tilefoundry.codegen.cuda.schedule.instances import Instances, Placement
from tilefoundry.codegen.cuda.schedule.tiled_attention import is_tiled, tiled_instances, tiled_statements
from tilefoundry.ir.core.expr import Call, Expr
from tilefoundry.ir.passes import Names
from tilefoundry.ir.tir import Evaluate, TirStmt, Verbatim
from tilefoundry.ir.types import Dim, ceildiv
from tilefoundry.ir.types.dim import product

__all__ = ["attention_instances", "attention_statements", "check_attention"]


def attention_instances(call: Call, spec: KernelSpec) -> Instances:
    """A cluster for every few queries of every group of heads, or a block for every tile of many."""
    if is_tiled(call):
        return tiled_instances(call)
    form = _form(call)
    batch, shared = inputs_of(call, spec)[1].shape[:2]
    groups = product((batch, shared, ceildiv(form.queries, form.rows), TOGETHER))
    return Instances(max(groups, TOGETHER) if isinstance(groups, int) else groups, (THREADS,), ("block", "t"))


def check_attention(call: Call, spec: KernelSpec, placement: Placement) -> None:
    """Refuse a mesh that the kernel cannot take.

    Raises:
        NotFollowed: blocks that clusters do not divide, or more threads than sums have room for.
    """
    wanted = attention_instances(call, spec)
    if is_tiled(call):
        if placement.thread_count != wanted.threads[0]:
            placement.refuse(f"its tiles are computed by blocks of {wanted.threads[0]} threads", wanted)
        return
    if isinstance(placement.blocks, int) and placement.blocks % TOGETHER:
        placement.refuse(f"its blocks work in groups of {TOGETHER}", wanted)
    if placement.thread_count > THREADS:
        placement.refuse(f"a block has more than {THREADS} threads", wanted)


def attention_statements(call: Call, spec: KernelSpec, names: Names) -> tuple[TirStmt, ...]:
    """The one call of the runtime."""
    if is_tiled(call):
        return tiled_statements(call, spec, names)
    q, k, v, *lengths = inputs_of(call, spec)
    length: Expr = view_expr(_per_batch(lengths[0], k.shape[0])) if lengths else Verbatim.of("ops::AllKeys{}")
    views = (*map(view_expr, (q, k, v)), length, view_expr(spec.outputs[0]))
    return (Evaluate("attention", (*views, Verbatim.of(_form(call).cxx()))),)


def _per_batch(length: View, batch: Dim) -> View:
    """One length for every row of the batch; a single one repeats."""
    step: Dim = length.strides[0] if length.shape and length.shape[0] != 1 else 0
    return View(length.buffer, length.dtype, (batch,), (step,), length.offset)


def _form(call: Call) -> AttentionForm:
    form = AttentionForm.of(call)
    assert form is not None, "other attentions are spelled out before they are placed"
    return form
