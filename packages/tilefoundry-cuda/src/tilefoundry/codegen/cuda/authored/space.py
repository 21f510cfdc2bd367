"""Iteration spaces and values: what an instance runs over, and where a value's elements lie."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass, replace

from tilefoundry.codegen.cpu.views import View
from tilefoundry.codegen.cuda.authored.refusal import NotFollowed
from tilefoundry.codegen.cuda.authored.scope import Scope
from tilefoundry.codegen.cuda.tiles import Limit, Part
from tilefoundry.ir.core.expr import Var
from tilefoundry.ir.types import Dim, DType, TensorType, bounds
from tilefoundry.ir.types.dim import product
from tilefoundry.ir.types.shard import ShardLayout, axis_factors

__all__ = ["MOST_REGISTERS", "Held", "Space", "axis_groups_of", "mapped_part", "row_major"]

MOST_REGISTERS = 4096
"""Elements of one value that an instance may hold; beyond, registers spill without end."""


@dataclass(frozen=True, slots=True)
class Space:
    """What one instance runs over.

    Attributes:
        extents: the canonical shape.
        places: per axis, the instance's coordinate where a mesh splits it, else None.
    """

    extents: tuple[Dim, ...]
    places: tuple[Dim | None, ...]

    @staticmethod
    def of(layout: ShardLayout, scope: Scope) -> Space:
        """The space of a distributed value."""
        splits = layout.splits
        places = [
            scope.split_coordinate(splits[k]) if k in splits else None for k in range(len(layout.shape))
        ]
        return Space(layout.shape, tuple(places))

    @staticmethod
    def whole(shape: Sequence[Dim]) -> Space:
        """The space of a value that every instance holds whole."""
        return Space(tuple(shape), (None,) * len(shape))

    @property
    def local(self) -> tuple[int, ...]:
        """Static extents of what an instance holds: the greatest that there can be."""
        return tuple(
            1 if place is not None else bounds(extent)[1]
            for extent, place in zip(self.extents, self.places, strict=True)
        )

    @property
    def limits(self) -> tuple[Limit, ...]:
        """Axes along which an instance may hold fewer elements."""
        return tuple(
            Limit(k, extent)
            for k, (extent, place) in enumerate(zip(self.extents, self.places, strict=True))
            if place is None and not isinstance(extent, int)
        )

    def joined(self, other: Space) -> Space:
        """This space and then the axes of ``other``."""
        return Space(self.extents + other.extents, self.places + other.places)


@dataclass(frozen=True, slots=True)
class Held:
    """A value and where it lies.

    Attributes:
        buffer: name and element type.
        space: ``gmem``, ``smem`` or ``rmem``.
        shape: the value's own shape.
        extents: its canonical axes.
        strides: step of each canonical axis; 0 where the storage is the instance's own along it.
        offset: of the first element.
        own: per canonical axis, the coordinate whose instance alone can reach that part, or None.
        layout, scope: how it is distributed, where a mesh does.
    """

    buffer: Var
    space: str
    shape: tuple[Dim, ...]
    extents: tuple[Dim, ...]
    strides: tuple[Dim, ...]
    offset: Dim = 0
    own: tuple[Dim | None, ...] = ()
    layout: ShardLayout | None = None
    scope: Scope | None = None

    @staticmethod
    def viewed(view: View, layout: ShardLayout | None = None, scope: Scope | None = None) -> Held:
        """A value in global memory."""
        buffer = Var(TensorType((), view.dtype), view.buffer)
        own = (None,) * len(view.shape)
        return Held(buffer, "gmem", view.shape, view.shape, view.strides, view.offset, own, layout, scope)

    @property
    def dtype(self) -> DType:
        """Element type."""
        return self.buffer.type.dtype  # type: ignore[attr-defined]  # a tensor

    @property
    def view(self) -> View:
        """A value in global memory as a view."""
        return View(self.buffer.name, self.dtype, self.extents, self.strides, self.offset)

    def under(self, extents: tuple[Dim, ...], name: str) -> Held:
        """The same elements with other canonical axes.

        Raises NotFollowed where the storage does not allow it.
        """
        if extents == self.extents:
            return self
        same = 0
        while same < min(len(extents), len(self.extents)) and extents[same] == self.extents[same]:
            same += 1
        rest = View(self.buffer.name, self.dtype, self.extents[same:], self.strides[same:])
        apart = any(place is not None for place in self.own[same:])
        found = None if apart else rest.reshape(extents[same:])
        if found is None:
            raise NotFollowed(
                f"{name}: {self.buffer.name} lies with strides ({', '.join(map(str, self.strides))}) over "
                f"({', '.join(map(str, self.extents))}), which cannot be seen as ({', '.join(map(str, extents))}); "
                "give both distributions the same factors, or copy it to dense memory first"
            )
        return replace(
            self,
            extents=extents,
            strides=(*self.strides[:same], *found.strides),
            own=(*self.own[:same], *(None,) * (len(extents) - same)),
        )


def axis_groups_of(shape: Sequence[Dim], extents: Sequence[Dim], name: str) -> tuple[tuple[int, ...], ...]:
    """For each axis of ``shape`` the canonical axes that make it up.

    Raises NotFollowed where a canonical axis spans several.
    """
    groups = axis_factors(shape, extents)
    if groups is None:
        raise NotFollowed(
            f"{name}: the canonical axes ({', '.join(map(str, extents))}) cross the boundaries of the axes "
            f"({', '.join(map(str, shape))}); use tf.reshard with extents that factor each axis"
        )
    return groups


def mapped_part(held: Held, space: Space, axes: Sequence[tuple[int, ...] | None], name: str) -> Part:
    """The elements of ``held`` that an instance meets while it runs over ``space``.

    Args:
        axes: for each axis of the value, the axes of ``space`` that run along it; None where it has one element.

    Raises NotFollowed where an instance would need what it does not hold.
    """
    strides: list[Dim] = [0] * len(space.extents)
    offset = held.offset
    groups = axis_groups_of(held.shape, held.extents, name)
    for group, targets in zip(groups, axes, strict=True):
        if targets is None or product(held.extents[k] for k in group) == 1:
            continue
        for axis, stride in zip(targets, _steps(held, group, space, targets, name), strict=True):
            place = space.places[axis]
            if place is not None:
                offset = offset + product((place, stride))
            else:
                strides[axis] = stride
    return Part(held.buffer, held.space, offset, space.local, tuple(strides), space.limits)


def _steps(
    held: Held, group: tuple[int, ...], space: Space, targets: tuple[int, ...], name: str
) -> tuple[Dim, ...]:
    """Stride of each of ``targets`` through the storage of one axis of ``held``."""
    mine = [k for k in group if held.extents[k] != 1]
    theirs = [axis for axis in targets if space.extents[axis] != 1]
    steps: dict[int, Dim] = dict.fromkeys(targets, 0)
    # Factors that agree from the left go one by one; what is left of the axis is one run on either side.
    while mine and theirs and held.extents[mine[0]] == space.extents[theirs[0]]:
        k, axis = mine.pop(0), theirs.pop(0)
        if held.own[k] is not None and held.own[k] != space.places[axis]:
            raise _unreachable(held, name)
        steps[axis] = held.strides[k]
    if any(held.own[k] is not None for k in mine):
        raise _unreachable(held, name)
    step = _merged(held, mine, name)
    for axis in reversed(theirs):
        steps[axis] = step
        step = product((step, space.extents[axis]))
    return tuple(steps[axis] for axis in targets)


def _merged(held: Held, axes: Sequence[int], name: str) -> Dim:
    """The stride of one axis that ``axes`` together are."""
    for outer, inner in itertools.pairwise(axes):
        if held.strides[outer] != product((held.strides[inner], held.extents[inner])):
            raise NotFollowed(
                f"{name}: {held.buffer.name} lies with gaps between its factors; use tf.reshard to lay it out "
                "like the value that it meets"
            )
    return held.strides[axes[-1]] if axes else 0


def _unreachable(held: Held, name: str) -> NotFollowed:
    return NotFollowed(
        f"{name}: an instance needs elements of {held.buffer.name} that another instance holds; use tf.reshard "
        "to bring them over"
    )


def row_major(extents: Sequence[int]) -> tuple[int, ...]:
    """Strides of a dense block, the last axis fastest."""
    strides, step = [], 1
    for extent in reversed(extents):
        strides.append(step)
        step *= extent
    return tuple(reversed(strides))
