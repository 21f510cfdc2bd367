"""Layouts of results from the layouts of distributed operands, for the ops that keep elements in place.

An operand without layout is whole: every instance can read all of it. Each function takes (name, type) pairs
and raises ``TypeRuleError`` where instances would need what they do not hold; the message says which mesh axis
is in the way.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from tilefoundry.ir.errors import TypeRuleError
from tilefoundry.ir.types import Dim, TensorType
from tilefoundry.ir.types.shard import (
    Broadcast,
    Instances,
    Layout,
    ShardAttr,
    ShardLayout,
    axis_factors,
    engine_strides,
    shared_strides,
)
from tilefoundry.ir.types.shard.mesh import Mesh

__all__ = [
    "common_instances",
    "derived",
    "elementwise_layout",
    "factors_of",
    "fresh_layout",
    "refuse_partial",
    "require_whole",
]

Operands = Sequence[tuple[str, TensorType]]

# Ops f with f(sum of parts) = sum of f(parts): all operands partial alike, or one operand alone.
_ADDITIVE = frozenset({"add", "sub", "neg"})
_SCALING = frozenset({"mul", "div"})
_LINEAR_STATES = frozenset({"sum", "mean"})


def elementwise_layout(op: str, shape: tuple[Dim, ...], operands: Operands) -> Any | None:
    """The layout of an op that computes each element from the operands' elements at the same place."""
    instances = common_instances(op, operands)
    if instances is not None:
        return instances
    full = [(name, t) for name, t in operands if t.shape == shape and t.layout is not None]
    shards = [(name, t) for name, t in full if isinstance(t.layout, ShardLayout)]
    _require_alike(op, shards or full)
    _check_partials(op, shape, operands)
    layout = (shards or full)[0][1].layout if full else None
    for name, type_ in operands:
        if type_.shape != shape and isinstance(type_.layout, ShardLayout):
            _check_broadcast(op, name, type_, shape, layout)
    return layout


def fresh_layout(op: str, shape: tuple[Dim, ...], operands: Operands) -> Any | None:
    """The layout of an op that needs its operands whole: copies on every instance give copies."""
    instances = common_instances(op, operands)
    if instances is not None:
        return instances
    shards = [(name, t) for name, t in operands if isinstance(t.layout, ShardLayout)]
    for name, type_ in shards:
        refuse_partial(op, name, type_)
        require_whole(op, name, type_, range(type_.rank))
    if not shards:
        return None
    _require_one_mesh(op, shards)
    first: ShardLayout = shards[0][1].layout  # type: ignore[assignment]  # filtered above
    return derived(first, shape, [Broadcast()] * first.mesh.rank)


def common_instances(op: str, operands: Operands) -> Instances | None:
    """The ``Instances`` layout of the operands that are one instance's own, or None.

    Raises TypeRuleError where two meshes meet, or a distributed value meets one instance's part.
    """
    own = [(name, t) for name, t in operands if isinstance(t.layout, Instances)]
    if not own:
        return None
    first: Instances = own[0][1].layout  # type: ignore[assignment]  # filtered above
    for name, type_ in operands:
        if type_.layout is not None and type_.layout != first:
            raise TypeRuleError(
                f"tf.{op}: {own[0][0]} is what one instance holds, {name} is {type_}; use tf.local on it too"
            )
    return first


def require_whole(op: str, name: str, type_: TensorType, axes: Iterable[int]) -> None:
    """TypeRuleError where a mesh axis splits one of ``axes``, or holds partial values."""
    layout = type_.layout
    if not isinstance(layout, ShardLayout):
        return
    refuse_partial(op, name, type_)
    if not layout.splits:
        return
    factors = factors_of(op, name, type_)
    for axis in axes:
        for k in factors[axis]:
            if k in layout.splits:
                mesh_axis = layout.mesh.at(layout.splits[k]).name
                raise TypeRuleError(
                    f"tf.{op}: {name} is {type_}, whose axis {axis} is split over {mesh_axis}; "
                    "use tf.reshard to make that axis whole"
                )


def refuse_partial(op: str, name: str, type_: TensorType) -> None:
    """TypeRuleError where a mesh axis holds partial values of ``type_``."""
    if isinstance(type_.layout, ShardLayout) and type_.layout.partials:
        axis, reduction = next(iter(type_.layout.partials.items()))
        raise TypeRuleError(
            f"tf.{op}: {name} is {type_}, whose instances along {type_.layout.mesh.at(axis).name} hold partial "
            f"values ({reduction}); use tf.reshard to finish the reduction first"
        )


def factors_of(op: str, name: str, type_: TensorType) -> tuple[tuple[int, ...], ...]:
    """For each tensor axis, the canonical axes of its ``ShardLayout`` that make it up."""
    layout: ShardLayout = type_.layout  # type: ignore[assignment]  # callers checked
    factors = axis_factors(type_.shape, layout.shape)
    if factors is None:
        raise TypeRuleError(
            f"tf.{op}: {name} is {type_}, whose canonical axes cross the boundaries of its own axes; "
            "use tf.reshard with extents that factor each axis"
        )
    return factors


def derived(source: ShardLayout, shape: Sequence[Dim], attrs: Sequence[ShardAttr]) -> ShardLayout:
    """A layout over the mesh of ``source`` whose strides have the form that the source's have."""
    made = ShardLayout(Layout(tuple(shape)), tuple(attrs), source.mesh)
    if source.strides is None:
        return made
    return made.with_strides(engine_strides(made) if source.owns_engines else shared_strides(made))


def _require_one_mesh(op: str, shards: Operands) -> Mesh:
    meshes = {name: t.layout.mesh for name, t in shards}  # type: ignore[union-attr]  # callers filtered
    first = next(iter(meshes.values()))
    if any(mesh != first for mesh in meshes.values()):
        listed = ", ".join(f"{name} over {mesh}" for name, mesh in meshes.items())
        raise TypeRuleError(
            f"tf.{op}: operands are distributed over different meshes: {listed}; use tf.reshard"
        )
    return first


def _require_alike(op: str, operands: Operands) -> None:
    forms = {_distribution(t.layout): name for name, t in operands}
    if len(forms) > 1:
        listed = ", ".join(f"{name}: {t.layout}" for name, t in operands)
        raise TypeRuleError(
            f"tf.{op}: operands are laid out differently ({listed}); use tf.reshard on one of them"
        )


def _distribution(layout: Any) -> Any:
    """What must agree between operands: the strides of a distributed value need not."""
    return (layout.shape, layout.attrs, layout.mesh) if isinstance(layout, ShardLayout) else layout


def _check_partials(op: str, shape: tuple[Dim, ...], operands: Operands) -> None:
    partial = [(n, t) for n, t in operands if isinstance(t.layout, ShardLayout) and t.layout.partials]
    if not partial:
        return
    states = {s for _, t in partial for s in t.layout.partials.values()}  # type: ignore[union-attr]  # filtered
    whole = [t for _, t in operands if not (isinstance(t.layout, ShardLayout) and t.layout.partials)]
    additive = op in _ADDITIVE and not whole
    scaled = op in _SCALING and len(partial) == 1 and operands[0] == partial[0]
    scaled = scaled or (op == "mul" and len(partial) == 1)
    if not (states <= _LINEAR_STATES and (additive or scaled)):
        refuse_partial(op, *partial[0])


def _check_broadcast(op: str, name: str, type_: TensorType, shape: tuple[Dim, ...], layout: Any) -> None:
    """A stretched operand must be split exactly where the result is, on the axes that it does not stretch over."""
    held: ShardLayout = type_.layout  # type: ignore[assignment]  # callers checked
    if not held.splits:
        return
    factors = factors_of(op, name, type_)
    if isinstance(layout, ShardLayout) and layout.mesh == held.mesh:
        target = axis_factors(shape, layout.shape)
        shift = len(shape) - type_.rank
        if target is not None and all(
            _axis_form(held, factors[axis]) == _axis_form(layout, target[axis + shift])
            for axis in range(type_.rank)
            if any(k in held.splits for k in factors[axis])
        ):
            return
    require_whole(op, name, type_, range(type_.rank))


def _axis_form(layout: ShardLayout, factors: tuple[int, ...]) -> list[tuple[Dim, int | None]]:
    return [
        (layout.shape[k], layout.splits.get(k)) for k in factors if layout.shape[k] != 1 or k in layout.splits
    ]
