"""Layouts of distributed values under reductions, which are complete, and matrix products, which leave partial sums."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tilefoundry.ir.core.kinds import ReduceKind
from tilefoundry.ir.errors import TypeRuleError
from tilefoundry.ir.hir.shard_rules import common_instances, derived, factors_of, refuse_partial
from tilefoundry.ir.types import Dim, TensorType
from tilefoundry.ir.types.shard import Broadcast, Partial, ShardAttr, ShardLayout, Split

__all__ = ["matmul_layout", "reduced_layout"]


def reduced_layout(
    op: str, x: TensorType, axes: Sequence[int], keepdim: bool, kind: ReduceKind
) -> Any | None:
    """The layout of ``x`` reduced over ``axes``.

    The reduction is complete: instances along a mesh axis that splits a reduced axis combine their parts and
    all hold the result.
    """
    layout = x.layout
    if not isinstance(layout, ShardLayout):
        return common_instances(op, (("x", x),))
    if any(reduction != kind.value for reduction in layout.partials.values()):
        refuse_partial(op, "x", x)
    shape: list[Dim] = []
    place: dict[int, int] = {}
    for axis, factors in enumerate(factors_of(op, "x", x)):
        if axis in axes:
            shape += [1] if keepdim else []
            continue
        for k in factors:
            place[k] = len(shape)
            shape.append(layout.shape[k])
    attrs = [_after_reduction(attr, place) for attr in layout.attrs]
    return derived(layout, shape, attrs)


def _after_reduction(attr: ShardAttr, place: dict[int, int]) -> ShardAttr:
    if not isinstance(attr, Split):
        return attr
    return Split(place[attr.axis]) if attr.axis in place else Broadcast()


def matmul_layout(op: str, lhs: TensorType, rhs: TensorType, shape: tuple[Dim, ...]) -> Any | None:
    """The layout of ``lhs @ rhs`` of ``shape``: rows follow ``lhs``, columns ``rhs``, batch axes either.

    A mesh axis that splits the contracted axis leaves partial sums. Raises TypeRuleError where one mesh axis
    would do two things.
    """
    operands = (("lhs", lhs), ("rhs", rhs))
    shards = [(name, t) for name, t in operands if isinstance(t.layout, ShardLayout)]
    if not shards:
        return common_instances(op, operands)
    common_instances(op, operands)
    source: ShardLayout = shards[0][1].layout  # type: ignore[assignment]  # filtered above
    if any(t.layout.mesh != source.mesh for _, t in shards):  # type: ignore[union-attr]  # filtered above
        raise TypeRuleError(f"tf.{op}: lhs {lhs} and rhs {rhs} are distributed over different meshes")
    parts = [_Part(op, name, t, len(shape)) for name, t in operands]
    canonical: list[Dim] = []
    places: list[dict[int, int]] = [{}, {}]
    for axis in range(len(shape)):
        _place_axis(axis, len(shape), parts, places, canonical, shape)
    attrs = [_product_attr(op, axis, source, parts, places) for axis in range(source.mesh.rank)]
    return derived(source, canonical, attrs)


class _Part:
    """One operand: its layout, or None where it is whole, and its canonical axes by the result's axes."""

    def __init__(self, op: str, name: str, type_: TensorType, rank: int) -> None:
        self.type = type_
        self.name = name
        self.layout = type_.layout if isinstance(type_.layout, ShardLayout) else None
        factors = factors_of(op, name, type_) if self.layout is not None else ((),) * type_.rank
        self.axes = ((),) * (rank - type_.rank) + factors
        self.contracted = set(self.axes[-1 if name == "lhs" else -2])


def _place_axis(
    axis: int,
    rank: int,
    parts: list[_Part],
    places: list[dict[int, int]],
    canonical: list[Dim],
    shape: tuple[Dim, ...],
) -> None:
    """Append the canonical axes of one result axis, and note where each operand's went."""
    owners = [0] if axis == rank - 2 else [1] if axis == rank - 1 else [0, 1]
    start = len(canonical)
    for i in owners:
        part = parts[i]
        if part.layout is None or not _splits_any(part, axis):
            continue
        extents = [part.layout.shape[k] for k in part.axes[axis]]
        if len(canonical) == start:
            canonical += extents
        if canonical[start:] == extents:
            places[i].update({k: start + n for n, k in enumerate(part.axes[axis])})
    if len(canonical) == start:
        canonical.append(shape[axis])


def _splits_any(part: _Part, axis: int) -> bool:
    return part.layout is not None and any(k in part.layout.splits for k in part.axes[axis])


def _product_attr(
    op: str, axis: int, source: ShardLayout, parts: list[_Part], places: list[dict[int, int]]
) -> ShardAttr:
    found: list[ShardAttr] = []
    for part, place in zip(parts, places, strict=True):
        attr = part.layout.attrs[axis] if part.layout is not None else Broadcast()
        if isinstance(attr, Split) and attr.axis in part.contracted:
            found.append(Partial("sum"))
        elif isinstance(attr, Split) and attr.axis in place:
            found.append(Split(place[attr.axis]))
        elif isinstance(attr, Partial) and attr.reduction not in ("sum", "mean"):
            refuse_partial(op, part.name, part.type)
        elif not isinstance(attr, Broadcast):
            found.append(attr)
    name = source.mesh.at(axis).name
    if len(found) == 2 and (found[0] != found[1] or not _contracts_alike(axis, parts, found[0])):
        raise TypeRuleError(
            f"tf.{op}: {name} would do two things, {found[0]} for lhs {parts[0].type} and {found[1]} for rhs "
            f"{parts[1].type}; use tf.reshard on one of them"
        )
    return found[0] if found else Broadcast()


def _contracts_alike(axis: int, parts: list[_Part], attr: ShardAttr) -> bool:
    """Two partial sums agree only where both operands split the contracted axis in the same place."""
    if not isinstance(attr, Partial):
        return True
    forms = []
    for part in parts:
        held = part.layout.attrs[axis] if part.layout is not None else None
        if part.layout is None or not isinstance(held, Split):
            return False
        keys = sorted(part.contracted)
        forms.append(([part.layout.shape[k] for k in keys], keys.index(held.axis)))
    return forms[0] == forms[1]
