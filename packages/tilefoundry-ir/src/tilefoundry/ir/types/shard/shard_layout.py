"""A tensor distributed over a mesh."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from tilefoundry.ir.types.dim import Dim
from tilefoundry.ir.types.shard.attrs import Broadcast, Dynamic, Partial, ShardAttr, Split
from tilefoundry.ir.types.shard.layout import ComposedLayout, Layout
from tilefoundry.ir.types.shard.mesh import Mesh
from tilefoundry.ir.types.shard.picture import draw_shard

__all__ = ["ShardLayout"]


@dataclass(frozen=True, slots=True)
class ShardLayout:
    """Canonical global shape, what each mesh axis does to it, and the mesh.

    ``layout.shape`` is global, never that of one instance; its rank may differ from the tensor's, its size is
    the tensor's. Where ``attrs[m]`` is ``S(k)``, instance i of mesh axis m holds index i of axis k, so the
    extent of k equals the mesh axis'. ``layout.strides`` step over the storage that one instance's engine
    addresses: 0 on a split axis says that every instance has an engine of its own, a positive stride that
    all share one and instance i starts ``i * stride`` in; None that they are not settled yet.

    Raises:
        TypeError: parts of other classes.
        ValueError: a wrong number of attributes, a split outside the shape, two mesh axes splitting one axis,
            an extent that is not the mesh axis'.
    """

    layout: Layout | ComposedLayout
    attrs: tuple[ShardAttr, ...]
    mesh: Mesh

    def __post_init__(self) -> None:
        if not isinstance(self.layout, (Layout, ComposedLayout)):
            raise TypeError(f"ShardLayout: layout is a Layout, got {self.layout!r}")
        if not isinstance(self.mesh, Mesh):
            raise TypeError(f"ShardLayout: mesh is a Mesh, got {self.mesh!r}")
        object.__setattr__(self, "attrs", tuple(_attr(attr) for attr in self.attrs))
        if len(self.attrs) != self.mesh.rank:
            raise ValueError(
                f"ShardLayout: a mesh of {self.mesh.rank} axes needs {self.mesh.rank} attributes, "
                f"got {len(self.attrs)}: ({', '.join(map(str, self.attrs))})"
            )
        _check_splits(self)

    @property
    def shape(self) -> tuple[Dim, ...]:
        """The canonical global shape."""
        return self.layout.shape

    @property
    def strides(self) -> tuple[Dim, ...] | None:
        """Storage strides, or None where they are not settled."""
        return self.layout.strides

    @property
    def splits(self) -> dict[int, int]:
        """Canonical axis -> the mesh axis that splits it."""
        return {attr.axis: axis for axis, attr in enumerate(self.attrs) if isinstance(attr, Split)}

    @property
    def partials(self) -> dict[int, str]:
        """Mesh axis -> the reduction whose partial values it holds."""
        return {axis: attr.reduction for axis, attr in enumerate(self.attrs) if isinstance(attr, Partial)}

    @property
    def is_dynamic(self) -> bool:
        """True where an attribute is known only at run time."""
        return any(isinstance(attr, Dynamic) for attr in self.attrs)

    @property
    def local_shape(self) -> tuple[Dim, ...]:
        """What one instance holds: 1 along split axes, the global extent elsewhere."""
        return tuple(1 if axis in self.splits else extent for axis, extent in enumerate(self.shape))

    @property
    def owns_engines(self) -> bool:
        """True where every instance addresses storage of its own: the strides are settled, split ones 0."""
        strides = self.strides
        return strides is not None and all(strides[axis] == 0 for axis in self.splits)

    def offset(self, coordinate: Sequence[int]) -> Dim:
        """Where the part of the instance at this mesh coordinate starts, in elements of its engine.

        Raises ValueError where the strides are not settled, or an attribute is known only at run time.
        """
        strides = self.strides
        if strides is None or self.is_dynamic:
            raise ValueError(f"{self}: strides or attributes are not settled yet; type a reshard first")
        total: Dim = 0
        for axis, mesh_axis in self.splits.items():
            total = total + strides[axis] * coordinate[mesh_axis]
        return total

    def with_strides(self, strides: tuple[Dim, ...] | None) -> ShardLayout:
        """The same distribution over other strides."""
        if isinstance(self.layout, ComposedLayout):
            inner = replace(self.layout.inner, strides=strides)
            return replace(self, layout=replace(self.layout, inner=inner))
        return replace(self, layout=Layout(self.shape, strides))

    def dims(self) -> Iterator[Dim]:
        """Every dim of the layout and of the mesh."""
        yield from self.layout.dims()
        yield from self.mesh.layout.shape

    def _repr_svg_(self) -> str:
        return draw_shard(self.shape, self.splits, f"{self} over {self.mesh}")

    def __str__(self) -> str:
        names = [self.mesh.at(axis).name for axis in range(self.mesh.rank)]
        splits = self.splits
        parts = [
            f"{extent}@{names[splits[axis]]}" if axis in splits else str(extent)
            for axis, extent in enumerate(self.shape)
        ]
        text = f"({', '.join(parts)}{',' if len(parts) == 1 else ''})"
        held = [f'{names[axis]}@P("{reduction}")' for axis, reduction in self.partials.items()]
        held += [f"{names[a]}@Dynamic" for a, attr in enumerate(self.attrs) if isinstance(attr, Dynamic)]
        text += f" {{{', '.join(held)}}}" if held else ""
        return text if self.strides is None else f"{text}:({', '.join(map(str, self.strides))})"


def _attr(given: Any) -> ShardAttr:
    value = given() if given in (Broadcast, Partial, Dynamic) else given
    if not isinstance(value, ShardAttr):
        raise TypeError(
            f"ShardLayout: an attribute is S(axis), B(), P(reduction) or Dynamic(), got {given!r}"
        )
    return value


def _check_splits(shard: ShardLayout) -> None:
    seen: dict[int, int] = {}
    for axis, attr in enumerate(shard.attrs):
        if not isinstance(attr, Split):
            continue
        k, name = attr.axis, shard.mesh.at(axis).name
        if k >= len(shard.shape):
            raise ValueError(f"ShardLayout: {attr} on {name} is outside the canonical shape {shard.layout}")
        if k in seen:
            other = shard.mesh.at(seen[k]).name
            raise ValueError(
                f"ShardLayout: the mesh axes {other} and {name} both split canonical axis {k}; "
                "factor it into one axis each"
            )
        seen[k] = axis
        if shard.shape[k] != shard.mesh.shape[axis]:
            raise ValueError(
                f"ShardLayout: {attr} on {name} needs the extent {shard.mesh.shape[axis]} there, the "
                f"canonical shape {shard.layout} has {shard.shape[k]}; factor it into (mesh extent, rest)"
            )
