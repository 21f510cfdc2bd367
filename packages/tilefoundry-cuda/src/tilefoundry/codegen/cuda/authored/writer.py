"""The writing of one kernel: its names, its values, and the statements so far."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any

from tilefoundry.codegen.cpu.views import View, contiguous_strides
from tilefoundry.codegen.cuda.authored.memory import Hazards
from tilefoundry.codegen.cuda.authored.refusal import NotFollowed, warn_placement
from tilefoundry.codegen.cuda.authored.scope import Scope
from tilefoundry.codegen.cuda.authored.space import MOST_REGISTERS, Held, Space, row_major
from tilefoundry.codegen.cuda.tiles import Fragment, Part, TileOnly, TileRegisters, TileRotate, TileShared
from tilefoundry.ir.core.expr import Bind, Call, Var
from tilefoundry.ir.passes import Names
from tilefoundry.ir.types import Dim, DimVar, DType, StorageKind, TensorType, bounds
from tilefoundry.ir.types.dim import product
from tilefoundry.ir.types.shard import (
    ComposedLayout,
    Layout,
    Mesh,
    ShardLayout,
    engine_strides,
    shared_strides,
)

__all__ = ["KernelWriter", "Lazy", "storage_of"]

MOST_SHARED = 216 * 1024
"""Bytes of shared memory that a block can have on the largest devices, less what reductions take."""


@dataclass(frozen=True, slots=True)
class Lazy:
    """A value without a place of its own: it is computed where it is read, for what is read."""

    bind: Bind

    @property
    def call(self) -> Call:
        """What computes it."""
        assert isinstance(self.bind.value, Call)
        return self.bind.value


@dataclass(slots=True)
class KernelWriter:
    """What translating a kernel's statements needs. Mutable; one per kernel.

    Attributes:
        name: of the kernel, for messages.
        names: gives names of the kernel.
        hazards: accesses to shared memory.
        values: HIR name -> where the value is.
        homes: HIR name of a result -> its output.
        windows: HIR name -> the one insert_slice that takes it, where it can be written in place.
        uses: HIR name -> how many statements read it.
        scopes: open scopes, the innermost last.
        taken: mesh axes that loops hand tiles to, as (mesh, axis).
        workspaces: buffers that the kernel needs beside its parameters.
        covered: results that have been written.
        indices: loop variable -> its dim.
        owned: buffers that the kernel may change.
        filled: values whose first contents nobody reads; changed: those of which windows are replaced.
        origins: registers -> the shared memory that they were read from.
        pointers: that the loop at hand needs declared before it.
        stale: values whose memory has been overwritten.
        lane, block: the running thread's and CTA's numbers.
        shared_bytes: declared so far.
    """

    name: str
    names: Names
    hazards: Hazards
    values: dict[str, Held | Lazy] = field(default_factory=dict)
    homes: dict[str, View] = field(default_factory=dict)
    windows: dict[str, Bind] = field(default_factory=dict)
    uses: dict[str, int] = field(default_factory=dict)
    scopes: list[Scope] = field(default_factory=list)
    taken: set[tuple[Mesh, int]] = field(default_factory=set)
    workspaces: list[Var] = field(default_factory=list)
    covered: set[str] = field(default_factory=set)
    indices: dict[str, DimVar] = field(default_factory=dict)
    owned: set[str] = field(default_factory=set)
    filled: set[str] = field(default_factory=set)
    changed: set[str] = field(default_factory=set)
    shared_names: set[str] = field(default_factory=set)
    stale: set[str] = field(default_factory=set)
    origins: dict[str, Held] = field(default_factory=dict)
    pointers: list[TileRotate] = field(default_factory=list)
    lane: Dim = 0
    block: Dim = 0
    out: list[Any] = field(default_factory=list)
    shared_bytes: int = 0
    count: int = 0

    def value(self, name: str, reader: str) -> Held | Lazy:
        """Where a value is.

        Raises NotFollowed for one that was overwritten in its place.
        """
        if name in self.stale:
            raise NotFollowed(
                f"{self.name}.{reader} reads {name} after a window of it was replaced in place; read it before, or "
                "copy it"
            )
        return self.values[name]

    def overwrite(self, held: Held) -> None:
        """From here on what the buffer held is gone."""
        self.stale |= {
            name
            for name, value in self.values.items()
            if isinstance(value, Held) and value.space == "gmem" and value.buffer == held.buffer
        }

    @contextmanager
    def nested(self) -> Iterator[list[Any]]:
        """Statements go to a list of their own."""
        outer, self.out = self.out, []
        try:
            yield self.out
        finally:
            self.out = outer

    def scope_of(self, layout: ShardLayout, name: str) -> Scope:
        """The scope that a layout's mesh belongs to.

        Raises NotFollowed where no scope over it is open.
        """
        for scope in reversed(self.scopes):
            if scope.mesh.layout == layout.mesh.layout and scope.mesh.names == layout.mesh.names:
                return scope
        open_ = ", ".join(str(scope.mesh) for scope in self.scopes) or "none"
        raise NotFollowed(
            f"{self.name}.{name} is distributed over {layout.mesh}, and no scope over it is open (open: {open_}); "
            "compute it inside of its scope"
        )

    def space_of(self, type_: TensorType, name: str) -> tuple[Space, ShardLayout | None, Scope | None]:
        """What an instance runs over for a value of this type."""
        layout = type_.layout
        if isinstance(layout, ShardLayout):
            if layout.is_dynamic:
                raise NotFollowed(f"{self.name}.{name} holds a Dynamic attribute; resolve it to S, B or P")
            scope = self.scope_of(layout, name)
            return Space.of(layout, scope), layout, scope
        return Space.whole(type_.shape), None, None

    def registers(self, name: str, type_: TensorType) -> Held:
        """Fresh registers for a value of this type."""
        space, layout, scope = self.space_of(type_, name)
        return self.registers_over(name, type_.dtype, type_.shape, space, layout, scope)

    def registers_over(
        self,
        name: str,
        dtype: DType,
        shape: tuple[Dim, ...],
        space: Space,
        layout: ShardLayout | None = None,
        scope: Scope | None = None,
    ) -> Held:
        """Fresh registers for what an instance holds of ``space``."""
        local = space.local
        size = product(local)
        if not isinstance(size, int) or size > MOST_REGISTERS:
            raise NotFollowed(
                f"{self.name}.{name}: an instance would hold {size} elements ({', '.join(map(str, local))}) in "
                f"registers, at most {MOST_REGISTERS} are sensible; distribute it over more instances, or go through "
                "it in tiles"
            )
        target = Var(TensorType((), dtype), self.numbered("r", name))
        fragment = None if layout is None or scope is None else fragment_of(layout, scope)
        self.out.append(TileRegisters(target, size, fragment))
        steps = row_major(local)
        strides = tuple(0 if p is not None else s for p, s in zip(space.places, steps, strict=True))
        return Held(target, "rmem", shape, space.extents, strides, 0, space.places, layout, scope)

    def shared(self, name: str, type_: TensorType) -> Held:
        """Fresh shared memory for what a CTA holds of a value of this type."""
        space, layout, scope = self.space_of(type_, name)
        return self.shared_over(name, type_.dtype, type_.shape, space, layout, scope)

    def shared_over(
        self,
        name: str,
        dtype: DType,
        shape: tuple[Dim, ...],
        space: Space,
        layout: ShardLayout | None = None,
        scope: Scope | None = None,
    ) -> Held:
        """Fresh shared memory: everything along thread axes, one CTA's part along cta axes."""
        if layout is not None and isinstance(layout.layout, ComposedLayout):
            warn_placement(
                f"{self.name}.{name}: the swizzle of its shared memory is dropped, elements lie in row-major order"
            )
        blocks = self.block_places(layout, scope, len(space.extents))
        extents = tuple(
            1 if place is not None else extent if isinstance(extent, int) else bounds(extent)[1]
            for extent, place in zip(space.extents, blocks, strict=True)
        )
        size = product(extents)
        steps = _given_strides(layout, blocks) or row_major(extents)
        if steps != row_major(extents):
            size = 1 + sum((n - 1) * s for n, s in zip(extents, steps, strict=True))
        assert isinstance(size, int)
        target = Var(TensorType((), dtype), self.numbered("s", name))
        stmt = TileShared(target, size)
        self.shared_bytes += stmt.bytes
        if self.shared_bytes > MOST_SHARED:
            raise NotFollowed(
                f"{self.name}.{name}: with it a block takes {self.shared_bytes} bytes of shared memory, at most "
                f"{MOST_SHARED} are there; use smaller tiles"
            )
        self.out.append(stmt)
        self.shared_names.add(target.name)
        strides = tuple(0 if place is not None else step for place, step in zip(blocks, steps, strict=True))
        return Held(target, "smem", shape, space.extents, strides, 0, blocks, layout, scope)

    def numbered(self, kind: str, name: str) -> str:
        """A name that is no buffer's, so that copies of a kernel are equal whatever their buffers are called."""
        self.count += 1
        return self.names.fresh(f"{kind}{self.count}_{name}")

    def twice(self, name: str) -> tuple[Var, Var]:
        """Make two of a workspace, which a loop writes in turn; the names of both, its own being a pointer."""
        at = next(i for i, space in enumerate(self.workspaces) if space.name == name)
        whole = self.workspaces[at]
        pair = tuple(replace(whole, name=f"{name}_{i}") for i in range(2))
        self.workspaces[at : at + 1] = pair
        return pair[0], pair[1]

    def block_places(
        self, layout: ShardLayout | None, scope: Scope | None, rank: int
    ) -> tuple[Dim | None, ...]:
        """Per canonical axis the coordinate of the CTA where a cta axis of several splits it."""
        if layout is None or scope is None:
            return (None,) * rank
        axes = scope.axes_of("cta")
        splits = layout.splits
        return tuple(
            scope.split_coordinate(splits[k]) if k in splits and splits[k] in axes else None
            for k in range(len(layout.shape))
        )

    def workspace(self, name: str, dtype: DType, shape: tuple[Dim, ...]) -> Held:
        """Global memory for the life of the kernel."""
        buffer = Var(TensorType((), dtype), self.numbered("w", name))
        self.workspaces.append(Var(TensorType((product(shape),), dtype), buffer.name))
        self.owned.add(buffer.name)
        return Held.viewed(View(buffer.name, dtype, shape, contiguous_strides(shape)))

    def only_one(self, layout: ShardLayout | None, scope: Scope | None, space: str) -> tuple[Dim, ...]:
        """Coordinates that must be 0, so that one of the instances that hold equal values writes them.

        Along axes that a loop hands tiles to, instances hold different values.
        """
        zeros: list[Dim] = []
        levels = ("cta", "thread") if space == "gmem" else ("thread",)
        for level in levels:
            if scope is None or not scope.axes_of(level):
                zeros.extend(self._absent(level))
                continue
            splits = {} if layout is None else layout.splits
            for axis in scope.axes_of(level):
                copies = axis not in splits.values() and scope.mesh.layout.shape[axis] != 1
                if copies and (scope.mesh, axis) not in self.taken:
                    zeros.append(scope.coordinates[axis])
        return tuple(zeros)

    def _absent(self, level: str) -> list[Dim]:
        """Coordinates of a level that the value's mesh does not mention: those of the scope around that has it."""
        for scope in reversed(self.scopes):
            axes = scope.axes_of(level)
            if any((scope.mesh, axis) in self.taken for axis in axes):
                return []
            if axes:
                return [scope.coordinates[axis] for axis in axes if scope.mesh.layout.shape[axis] != 1]
        return []

    def guarded(self, zeros: tuple[Dim, ...], stmt: Any) -> None:
        """``stmt``, done by one of several holders."""
        self.out.append(TileOnly(zeros, (stmt,)) if zeros else stmt)

    def own_part(self, held: Held, space: Space) -> Part:
        """What an instance running over ``space`` touches of a value with the same canonical axes."""
        offset = held.offset
        for axis, (place, stride) in enumerate(zip(space.places, held.strides, strict=True)):
            if place is not None and held.own[axis] is None:
                offset = offset + product((place, stride))
        strides = tuple(
            0 if place is not None else stride
            for place, stride in zip(space.places, held.strides, strict=True)
        )
        return Part(held.buffer, held.space, offset, space.local, strides, space.limits)

    def owner_of(self, held: Held, layout: ShardLayout | None, scope: Scope | None) -> Any:
        """Which CTA touches what of a value in global memory: equal ownerships need no grid barrier.

        None is an access that stays inside its CTA, a value equal to no other one that may meet any.
        """
        if held.space != "gmem" or self.hazards.blocks == 1:
            return None
        if not self._covers(layout, scope):
            return object()
        places = self.block_places(layout, scope, len(held.extents))
        placed = tuple((held.extents[k], held.strides[k], p) for k, p in enumerate(places) if p is not None)
        return (held.offset, placed)

    def _covers(self, layout: ShardLayout | None, scope: Scope | None) -> bool:
        """Whether every cta axis of several splits the value, so that no two CTAs touch one element."""
        if layout is None or scope is None:
            return False
        several = [axis for axis in scope.axes_of("cta") if scope.mesh.layout.shape[axis] != 1]
        return bool(several) and all(axis in layout.splits.values() for axis in several)


def fragment_of(layout: ShardLayout, scope: Scope) -> Fragment | None:
    """How threads share a value, over the part of the mesh that is static.

    A mesh whose number of CTAs only the launch decides is seen through its thread axes: along its cta axes an
    instance holds one place.
    """
    splits = layout.splits
    extents = tuple(n if isinstance(n, int) else bounds(n)[1] for n in layout.shape)
    local = tuple(1 if k in splits else n for k, n in enumerate(extents))
    steps = row_major(local)
    if scope.is_static:
        strides = tuple(0 if k in splits else steps[k] for k in range(len(extents)))
        return Fragment(ShardLayout(Layout(extents, strides), layout.attrs, layout.mesh), scope.value)
    threads = scope.axes_of("thread")
    if not threads:
        return None
    blocks = set(scope.axes_of("cta"))
    shape = tuple(1 if splits.get(k) in blocks else n for k, n in enumerate(extents))
    strides = tuple(0 if splits.get(k) in set(threads) else steps[k] for k in range(len(shape)))
    mesh = scope.mesh
    part = Mesh(
        (scope.levels[-1].level,),
        Layout(tuple(mesh.layout.shape[a] for a in threads), scope.levels[-1].strides),
        tuple(mesh.names[a] for a in threads) if mesh.names else (),
    )
    attrs = tuple(layout.attrs[a] for a in threads)
    return Fragment(ShardLayout(Layout(shape, strides), attrs, part), scope.value)


def _given_strides(layout: ShardLayout | None, blocks: tuple[Dim | None, ...]) -> tuple[int, ...] | None:
    """Strides that the program itself gives shared memory, such as padded rows; None for settled ones."""
    if layout is None or layout.strides is None or not isinstance(layout.layout, Layout):
        return None
    if layout.strides in (engine_strides(layout), shared_strides(layout)):
        return None
    static = all(isinstance(step, int) for step in layout.strides)
    if not static or any(p is not None and s for p, s in zip(blocks, layout.strides, strict=True)):
        return None
    return tuple(0 if p is not None else s for p, s in zip(blocks, layout.strides, strict=True))  # type: ignore[misc]  # ints


def storage_of(type_: TensorType) -> str:
    """The kernel's name of a type's storage; undecided with a distribution is registers."""
    if type_.storage is StorageKind.SMEM:
        return "smem"
    if type_.storage is StorageKind.RMEM:
        return "rmem"
    if type_.storage is StorageKind.GMEM:
        return "gmem"
    if type_.storage is StorageKind.UNDECIDED:
        return "none"
    raise NotFollowed(
        f"{type_} lies in {type_.storage}, which no hand-placed value can; use gmem, smem or rmem"
    )
