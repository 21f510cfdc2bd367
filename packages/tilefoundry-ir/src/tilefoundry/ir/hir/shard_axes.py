"""Layouts of distributed values under ops that work along some axes and leave the others as they are."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tilefoundry.ir.errors import TypeRuleError
from tilefoundry.ir.hir.shard_rules import common_instances, derived, factors_of, require_whole
from tilefoundry.ir.types import Dim, TensorType
from tilefoundry.ir.types.shard import ShardAttr, ShardLayout, Split

__all__ = ["carried_layout"]

Operands = Sequence[tuple[str, TensorType]]
Form = list[tuple[Dim, "int | None"]]


def carried_layout(
    op: str, shape: tuple[Dim, ...], operands: Operands, sources: Sequence[int | None]
) -> Any | None:
    """The layout of a result whose axis ``r`` is axis ``sources[r]`` of every operand, or is made anew (None).

    A mesh axis may split carried axes alone. Raises TypeRuleError where it splits another one, holds partial
    values, or splits the operands in different ways.
    """
    instances = common_instances(op, operands)
    shards = [(name, t) for name, t in operands if isinstance(t.layout, ShardLayout)]
    if instances is not None or not shards:
        return instances
    for name, type_ in shards:
        require_whole(op, name, type_, [axis for axis in range(type_.rank) if axis not in sources])
    first: ShardLayout = shards[0][1].layout  # type: ignore[assignment]  # filtered above
    _require_alike(op, shards, sources)
    factors = factors_of(op, *shards[0])
    canonical: list[Dim] = []
    place: dict[int, int] = {}
    for extent, source in zip(shape, sources, strict=True):
        if source is None:
            canonical.append(extent)
            continue
        for k in factors[source]:
            place[k] = len(canonical)
            canonical.append(first.shape[k])
    attrs: list[ShardAttr] = [Split(place[a.axis]) if isinstance(a, Split) else a for a in first.attrs]
    return derived(first, canonical, attrs)


def _require_alike(op: str, shards: Operands, sources: Sequence[int | None]) -> None:
    forms = [_forms(op, name, type_, sources) for name, type_ in shards]
    if any(form != forms[0] for form in forms):
        listed = ", ".join(f"{name}: {t.layout}" for name, t in shards)
        raise TypeRuleError(
            f"tf.{op}: operands are laid out differently ({listed}); use tf.reshard on one of them"
        )


def _forms(op: str, name: str, type_: TensorType, sources: Sequence[int | None]) -> tuple[Any, list[Form]]:
    layout: ShardLayout = type_.layout  # type: ignore[assignment]  # callers filtered
    factors = factors_of(op, name, type_)
    carried = [source for source in sources if source is not None]
    return layout.mesh, [[(layout.shape[k], layout.splits.get(k)) for k in factors[axis]] for axis in carried]
