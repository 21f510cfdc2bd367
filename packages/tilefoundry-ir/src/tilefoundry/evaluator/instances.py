"""Run an op once per instance of a mesh.

A value that every instance has its own of carries one leading axis per mesh axis; its type does not.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import product
from typing import Any

from tilefoundry.evaluator.context import EvalContext
from tilefoundry.evaluator.plan import OpStep
from tilefoundry.ir.hir.byteview import moved
from tilefoundry.ir.types import TensorType, Type
from tilefoundry.ir.types.shard import Instances

# torch is imported where it is first needed: importing the evaluator must not load it.

__all__ = ["per_instance"]


def per_instance(step: OpStep, ctx: EvalContext, values: tuple[Any, ...], attrs: Mapping[str, Any]) -> Any:
    """The op of ``step`` on each instance's operands, under the leading axes of its mesh."""
    assert step.mesh is not None
    mesh = tuple(ctx.dim(dim) for dim in step.mesh.shape)
    results = [
        step.op.evaluate(ctx, _at(step.operand_types, values, place), attrs)
        for place in product(*map(range, mesh))
    ]
    return _gathered(results, mesh)


def _at(types: Sequence[Type], values: Sequence[Any], place: tuple[int, ...]) -> tuple[Any, ...]:
    return tuple(_own(type_, value, place) for type_, value in zip(types, values, strict=True))


def _own(type_: Type, value: Any, place: tuple[int, ...]) -> Any:
    if not isinstance(type_, TensorType):
        return _at(type_.elements, value, place)
    return value[place] if isinstance(type_.layout, Instances) else value


def _gathered(results: list[Any], mesh: tuple[int, ...]) -> Any:
    import torch

    if isinstance(results[0], tuple):
        return tuple(_gathered(list(parts), mesh) for parts in zip(*results, strict=True))
    return moved(lambda *parts: torch.stack(parts).reshape(*mesh, *parts[0].shape), *results)
