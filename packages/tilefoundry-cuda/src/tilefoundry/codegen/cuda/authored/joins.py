"""Reductions: what an instance folds, what threads of a block join, and what CTAs leave for each other."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from tilefoundry.codegen.cpu.views import View, contiguous_strides
from tilefoundry.codegen.cuda.authored.operands import as_held
from tilefoundry.codegen.cuda.authored.refusal import NotFollowed
from tilefoundry.codegen.cuda.authored.scope import Scope
from tilefoundry.codegen.cuda.authored.space import Held, Space, axis_groups_of, row_major
from tilefoundry.codegen.cuda.authored.writer import KernelWriter, fragment_of
from tilefoundry.codegen.cuda.tiles import Fragment, Part, TileCopy, TileMap, TilePad, TileReduce
from tilefoundry.ir.core.expr import Bind, Call
from tilefoundry.ir.types import Dim, DType, TensorType, bounds
from tilefoundry.ir.types.dim import product
from tilefoundry.ir.types.shard import Broadcast, Partial, ShardAttr, ShardLayout

__all__ = ["join_partials", "lower_reduce"]


def lower_reduce(to: KernelWriter, bind: Bind, call: Call) -> None:
    """``tf.reduce``: complete, whatever shares the reduced axes."""
    name = bind.target.name
    type_ = bind.target.type
    assert isinstance(type_, TensorType)
    held = as_held(to, call.args[0], name)
    kind, axes = call.attr("kind").value, call.attr("axes")
    groups = axis_groups_of(held.shape, held.extents, f"{to.name}.{name}")
    gone = tuple(k for axis in axes for k in groups[axis])
    if held.space != "rmem":
        held = _in_registers(to, held, name)
    result = _reduced(to, held, kind, gone, type_, name)
    to.values[name] = result


def _in_registers(to: KernelWriter, held: Held, name: str) -> Held:
    """What an instance holds of a value in memory, in its registers."""
    if held.layout is None and held.space == "gmem":
        raise NotFollowed(
            f"{to.name}.{name} reduces {held.buffer.name}, which lies whole in gmem; bring it to registers with "
            'tf.reshard(x, ..., "rmem") to say who reduces what'
        )
    space = (
        Space.whole(held.extents)
        if held.layout is None or held.scope is None
        else Space.of(held.layout, held.scope)
    )
    to.hazards.before_read(held, name, to.owner_of(held, held.layout, held.scope))
    copy = to.registers_over(f"{name}_held", held.dtype, held.shape, space, held.layout, held.scope)
    to.out.append(TileCopy(to.own_part(held, space), to.own_part(copy, space)))
    return copy


def _reduced(
    to: KernelWriter, held: Held, kind: str, gone: tuple[int, ...], type_: TensorType, name: str
) -> Held:
    space = _space(held)
    masked = [limit for limit in space.limits if limit.mode in gone]
    blocks = _shared_by_blocks(held, gone)
    wide = _wide(held.dtype)
    staged = bool(masked or blocks) and kind in ("mean", "sum")
    step = "sum" if kind == "mean" and staged else kind
    if masked:
        held = _padded(to, held, space, "sum" if kind == "mean" else kind, masked, name)
    dtype = wide if staged else type_.dtype
    result = _result(to, held, gone, type_, dtype, name)
    layout = held.layout
    joins = layout is not None and held.scope is not None and _thread_splits(held, gone)
    fragment = (
        fragment_of(layout, held.scope) if joins and layout is not None and held.scope is not None else None
    )
    source = to.own_part(held, space)
    target = _kept_part(to, result, space, gone)
    to.out.append(TileReduce(step, gone, source, _without_partials(fragment), target))
    if blocks:
        result = _over_blocks(to, result, held, blocks, step, name)
    if kind == "mean" and staged:
        count = product(held.extents[k] for k in gone)
        _divide(to, result, count, name)
    if result.dtype is not type_.dtype:
        result = _rounded(to, result, type_, name)
    return result


def _space(held: Held) -> Space:
    if held.layout is not None and held.scope is not None:
        return Space.of(held.layout, held.scope)
    return Space.whole(held.extents)


def _wide(dtype: DType) -> DType:
    if dtype.is_float:
        return DType.f64 if dtype is DType.f64 else DType.f32
    return dtype if dtype.is_bool else DType.i64


def _shared_by_blocks(held: Held, gone: Sequence[int]) -> dict[int, int]:
    """Reduced canonical axis -> the cta axis of several that splits it."""
    if held.layout is None or held.scope is None:
        return {}
    axes = held.scope.axes_of("cta")
    return {
        k: a
        for k, a in held.layout.splits.items()
        if k in gone and a in axes and held.scope.mesh.layout.shape[a] != 1
    }


def _thread_splits(held: Held, gone: Sequence[int]) -> bool:
    assert held.layout is not None and held.scope is not None
    axes = held.scope.axes_of("thread")
    return any(k in gone and a in axes for k, a in held.layout.splits.items())


def _padded(
    to: KernelWriter, held: Held, space: Space, kind: str, limits: Sequence[object], name: str
) -> Held:
    """A copy in which elements that are not there do not count."""
    copy = to.registers_over(f"{name}_padded", held.dtype, held.shape, space, held.layout, held.scope)
    whole = replace(to.own_part(copy, space), limits=())
    to.out.append(TileCopy(replace(to.own_part(held, space), limits=()), whole))
    to.out.append(TilePad(to.own_part(copy, space), kind))
    return copy


def _without_partials(fragment: Fragment | None) -> Fragment | None:
    """Partial values stay partial in a reduction over other axes."""
    if fragment is None or not fragment.layout.partials:
        return fragment
    attrs = tuple(Broadcast() if isinstance(attr, Partial) else attr for attr in fragment.layout.attrs)
    return replace(fragment, layout=replace(fragment.layout, attrs=attrs))


def _result(
    to: KernelWriter, held: Held, gone: Sequence[int], type_: TensorType, dtype: DType, name: str
) -> Held:
    """Registers of the result: what stays of the canonical axes, by the type's own layout where it has one."""
    space, layout, scope = to.space_of(type_, name)
    return to.registers_over(name, dtype, type_.shape, space, layout, scope)


def _kept_part(to: KernelWriter, result: Held, space: Space, gone: Sequence[int]) -> Part:
    """The result's registers in the order in which the source's kept axes come."""
    extents = tuple(1 if k in gone else n for k, n in enumerate(space.local)) or (1,)
    return Part(result.buffer, "rmem", 0, extents, row_major(extents))


def _over_blocks(
    to: KernelWriter, part: Held, source: Held, blocks: Mapping[int, int], op: str, name: str
) -> Held:
    """Join the parts that CTAs have: each leaves its own in global memory, and after a barrier all read every one.

    The order is that of the coordinates, so equal inputs give equal bits.
    """
    assert source.scope is not None
    return _exchanged(to, part, source.scope, tuple(blocks.values()), op, name)


def _exchanged(to: KernelWriter, part: Held, scope: Scope, axes: Sequence[int], op: str, name: str) -> Held:
    counts = tuple(scope.mesh.layout.shape[a] for a in axes)
    if not all(isinstance(n, int) for n in counts):
        raise NotFollowed(
            f"{to.name}.{name} joins values of ({', '.join(map(str, counts))}) CTAs, a number that only the launch "
            "decides; join over a static cta axis"
        )
    local = _space(part)
    kept = tuple(bounds(n)[1] if not isinstance(n, int) else n for n in part.extents)
    shape = (*counts, *kept)
    between = to.workspace(f"{name}_parts", part.dtype, shape)
    strides = contiguous_strides(kept)
    offset: Dim = 0
    for a, step in zip(axes, contiguous_strides(shape), strict=False):
        offset = offset + product((scope.coordinates[a], step))
    own = Held.viewed(View(between.buffer.name, part.dtype, part.extents, strides, offset))
    to.hazards.before_write(own, name, object())
    zeros = tuple(
        z
        for z in to.only_one(part.layout, part.scope, "gmem")
        if z not in {scope.coordinates[a] for a in axes}
    )
    to.guarded(zeros, TileCopy(to.own_part(part, local), to.own_part(own, local)))
    to.hazards.before_read(between, name, object())
    every = Space(counts + local.extents, (None,) * len(counts) + local.places)
    all_parts = to.registers_over(f"{name}_all", part.dtype, shape, every)
    seen = Held.viewed(between.view)
    to.out.append(TileCopy(to.own_part(seen, every), to.own_part(all_parts, every)))
    gone = tuple(range(len(counts)))
    result = to.registers_over(name, part.dtype, part.shape, local, part.layout, part.scope)
    to.out.append(
        TileReduce(op, gone, to.own_part(all_parts, every), None, _kept_part(to, result, every, gone))
    )
    return result


def _divide(to: KernelWriter, held: Held, count: Dim, name: str) -> None:
    part = to.own_part(held, _space(held))
    to.out.append(TileMap("divide", "", (part,), part, (count,)))


def _rounded(to: KernelWriter, held: Held, type_: TensorType, name: str) -> Held:
    space = _space(held)
    result = to.registers_over(name, type_.dtype, held.shape, space, held.layout, held.scope)
    to.out.append(TileMap("cast", "", (to.own_part(held, space),), to.own_part(result, space)))
    return result


def join_partials(to: KernelWriter, held: Held, gone: Mapping[int, str], name: str) -> Held:
    """The value whose parts instances along the mesh axes ``gone`` hold; every one of them gets it."""
    layout, scope = held.layout, held.scope
    assert layout is not None and scope is not None
    if len(set(gone.values())) > 1:
        raise NotFollowed(
            f"{to.name}.{name} joins partial values of several kinds at once; reshard one axis at a time"
        )
    if held.space != "rmem":
        held = _in_registers(to, held, name)
    op = next(iter(gone.values()))
    attrs: list[ShardAttr] = [Broadcast() if a in gone else attr for a, attr in enumerate(layout.attrs)]
    after = replace(layout, attrs=tuple(attrs))
    threads = [a for a in gone if a in scope.axes_of("thread")]
    blocks = [a for a in gone if a in scope.axes_of("cta") and scope.mesh.layout.shape[a] != 1]
    space = Space.of(layout, scope)
    if threads:
        fragment = fragment_of(_only_partial(layout, threads), scope)
        result = to.registers_over(name, held.dtype, held.shape, space, after, scope)
        to.out.append(
            TileReduce(op, (), to.own_part(held, space), fragment, _kept_part(to, result, space, ()))
        )
        held = result
    if blocks:
        held = _exchanged(to, replace(held, layout=after), scope, blocks, "sum" if op == "mean" else op, name)
        if op == "mean":
            _divide(to, held, product(scope.mesh.layout.shape[a] for a in blocks), name)
    return replace(held, layout=after)


def _only_partial(layout: ShardLayout, axes: Sequence[int]) -> ShardLayout:
    """The layout with partial values along ``axes`` alone."""
    attrs = tuple(
        Broadcast() if isinstance(attr, Partial) and a not in axes else attr
        for a, attr in enumerate(layout.attrs)
    )
    return replace(layout, attrs=attrs)
