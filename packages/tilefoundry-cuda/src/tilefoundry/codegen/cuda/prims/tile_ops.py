"""Tile ops of statement-level kernels: on distributed buffers by their owners, on plain ones shared out."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from tilefoundry.codegen.cpu.views import View
from tilefoundry.codegen.cuda.authored.mma import lower_mma
from tilefoundry.codegen.cuda.authored.refusal import NotFollowed
from tilefoundry.codegen.cuda.authored.space import Held, Space, axis_groups_of, mapped_part, row_major
from tilefoundry.codegen.cuda.authored.writer import fragment_of
from tilefoundry.codegen.cuda.tiles import (
    Part,
    TileAsync,
    TileCopy,
    TileEach,
    TileFill,
    TileMap,
    TileReduce,
    TileText,
)
from tilefoundry.ir.core.expr import Constant, Expr, Var
from tilefoundry.ir.core.kinds import ReduceKind
from tilefoundry.ir.tir import (
    Accumulate,
    Accumulator,
    Apply,
    BufferView,
    Evaluate,
    For,
    IndexValue,
    Let,
    Load,
    Store,
    TirStmt,
    atom_named,
    compute_dtype,
)
from tilefoundry.ir.types import Dim, DimVar, DType, TensorType, scalar
from tilefoundry.ir.types.dim import product

if TYPE_CHECKING:
    from tilefoundry.codegen.cuda.prims.kernel import _Lowering

__all__ = ["TILE_RULES"]


def _held(to: _Lowering, view: Expr) -> Held:
    """A view's value: distributed buffers whole, plain ones as the window that the view is."""
    assert isinstance(view, BufferView) and isinstance(view.type, TensorType)
    held = to.to.values[view.buffer.name]
    assert isinstance(held, Held)
    if held.layout is not None:
        if view.type.shape != held.shape:
            raise NotFollowed(
                f"{to.function.name}: a window of {view.buffer.name}, which a mesh distributes; use all of it, or keep "
                "it in smem without a layout"
            )
        return held
    seen = View(view.buffer.name, held.dtype, view.type.shape, view.strides, view.offset)
    return replace(Held.viewed(seen), space=held.space)


def _distribution(operands: list[Held]) -> Held | None:
    """The operand that says which instance does what; None where none is distributed."""
    return next((held for held in reversed(operands) if held.layout is not None), None)


def _part(to: _Lowering, held: Held, leader: Held, space: Space, name: str) -> Part:
    """The elements of an operand that an instance meets."""
    if held.space == "own":
        raise NotFollowed(
            f"{to.function.name}: T.{name} mixes {held.buffer.name}, which every thread has for itself, with "
            "distributed buffers; give it a layout"
        )
    if held.layout is not None and held.layout.shape == leader.layout.shape and held.shape == leader.shape:  # type: ignore[union-attr]  # the leader has one
        return to.to.own_part(held, space)
    groups = axis_groups_of(leader.shape, space.extents, f"{to.function.name}: T.{name}")
    shift = len(leader.shape) - len(held.shape)
    axes = [None if n == 1 else groups[axis + shift] for axis, n in enumerate(held.shape)]
    return mapped_part(held, space, axes, f"{to.function.name}: T.{name}")


def _elementwise(to: _Lowering, stmt: Evaluate, make: Callable[..., Any], value: Callable[..., Expr]) -> None:
    """An op on elements at one place: by their owners, or shared out."""
    *sources, target = (_held(to, arg) for arg in stmt.args if isinstance(arg, BufferView))
    leader = _distribution([*sources, target])
    if leader is None:
        _each(to, stmt, sources, target, value)
        return
    space = to.space_of(leader)
    parts = [_part(to, held, leader, space, stmt.op) for held in (*sources, target)]
    one = () if target.space == "rmem" else to.to.only_one(leader.layout, leader.scope, target.space)
    to.to.guarded(one, make(*parts))


def _each(
    to: _Lowering, stmt: Evaluate, sources: list[Held], target: Held, value: Callable[..., Expr]
) -> None:
    """One element after the other, in turn over the threads that share the work."""
    places = [DimVar(to.to.names.fresh("at"), 0, 2**62) for _ in target.shape]
    loads = [_load(held, places, len(target.shape)) for held in sources]
    body = Store(target.buffer, _place(target, places), _stored(value(*loads), target.dtype))
    _shared_out(to, target.shape, places, (body,), target.space)


def _shared_out(
    to: _Lowering, shape: tuple[Dim, ...], places: list[DimVar], body: tuple[TirStmt, ...], space: str
) -> None:
    index = scalar(DType.i64)
    counter = Var(index, to.to.names.fresh("item"))
    named = tuple((Var(index, place.name), extent) for place, extent in zip(places, shape, strict=True))
    if space in ("own",) or to.frame.alone:
        first, step = 0, 1
    elif space == "smem":
        first, step = to.to.lane, to.to.hazards.threads
    else:
        first, step = to.turns()
    to.to.out.append(TileEach(counter, first, product(shape), step, named, body))


def _place(held: Held, places: list[DimVar]) -> Dim:
    shift = len(places) - len(held.shape)
    total = held.offset
    for axis, (extent, step) in enumerate(zip(held.shape, held.strides, strict=True)):
        if extent != 1:
            total = total + product((places[axis + shift], step))
    return total


def _load(held: Held, places: list[DimVar], rank: int) -> Expr:
    return Load.of(Var(TensorType((), held.dtype), held.buffer.name), _place(held, places))


def _stored(value: Expr, dtype: DType) -> Expr:
    assert isinstance(value.type, TensorType)
    if value.type.dtype is compute_dtype(dtype):
        return value
    return Apply(scalar(compute_dtype(dtype)), "cast", (value,), (("dtype", dtype),))


def _copy(to: _Lowering, stmt: Evaluate) -> None:
    _elementwise(to, stmt, lambda a, b: _moved(a, b), lambda a: a)


def _moved(source: Part, target: Part) -> Any:
    same = source.buffer.type == target.buffer.type
    return TileCopy(source, target) if same else TileMap("cast", "", (source,), target)


def _unary(to: _Lowering, stmt: Evaluate) -> None:
    kind = dict(stmt.attrs).get("kind", stmt.op)
    kind = getattr(kind, "value", kind)
    _elementwise(to, stmt, lambda a, b: TileMap("unary", kind, (a,), b), lambda a: Apply(a.type, kind, (a,)))


def _binary(to: _Lowering, stmt: Evaluate) -> None:
    kind = dict(stmt.attrs)["kind"]
    kind = getattr(kind, "value", kind)
    logical = kind.startswith("cmp_")

    def value(a: Expr, b: Expr) -> Expr:
        return Apply(scalar(DType.bool_) if logical else a.type, kind, (a, b))  # type: ignore[arg-type]  # a scalar

    _elementwise(to, stmt, lambda a, b, d: TileMap("binary", kind, (a, b), d), value)


def _clamp(to: _Lowering, stmt: Evaluate) -> None:
    attrs = dict(stmt.attrs)
    bounds = (attrs["min_val"], attrs["max_val"])
    pairs = tuple(zip(("min_val", "max_val"), bounds, strict=True))
    _elementwise(
        to,
        stmt,
        lambda a, b: TileMap("clamp", "", (a,), b, bounds),
        lambda a: Apply(a.type, "clamp", (a,), pairs),
    )


def _fill(to: _Lowering, stmt: Evaluate) -> None:
    value, view = stmt.args
    if isinstance(value, BufferView):
        value, view = view, value
    target = _held(to, view)
    if target.layout is None:
        _each(to, stmt, [], target, lambda: value)
        return
    if not isinstance(value, Constant):
        raise NotFollowed(f"{to.function.name}: T.fill of a distributed buffer takes a number")
    space = to.space_of(target)
    one = () if target.space == "rmem" else to.to.only_one(target.layout, target.scope, target.space)
    to.to.guarded(one, TileFill(to.to.own_part(target, space), value))


def _reduce(to: _Lowering, stmt: Evaluate) -> None:
    attrs = dict(stmt.attrs)
    axes, kind = attrs["axes"], getattr(attrs["kind"], "value", attrs["kind"])
    views = [arg for arg in stmt.args if isinstance(arg, BufferView)]
    source, target = _held(to, views[0]), _held(to, views[-1])
    if source.layout is None:
        _each_reduced(to, source, target, tuple(axes), ReduceKind(kind))
        return
    assert source.scope is not None
    groups = axis_groups_of(source.shape, source.extents, f"{to.function.name}: T.reduce")
    gone = tuple(k for axis in axes for k in groups[axis])
    space = to.space_of(source)
    blocks = source.scope.axes_of("cta")
    shared = {a for k, a in source.layout.splits.items() if k in gone}
    if any(a in blocks and source.scope.mesh.layout.shape[a] != 1 for a in shared):
        raise NotFollowed(
            f"{to.function.name}: T.reduce over an axis that CTAs share; reduce inside the CTA, leave the parts in "
            "gmem, T.sync over the cta mesh, and reduce them"
        )
    threads = any(a in source.scope.axes_of("thread") for a in shared)
    fragment = fragment_of(source.layout, source.scope) if threads else None
    kept = tuple(1 if k in gone else n for k, n in enumerate(space.local)) or (1,)
    if target.space == "rmem" and target.layout is not None:
        into = Part(target.buffer, "rmem", 0, kept, row_major(kept))
        to.to.out.append(TileReduce(kind, gone, to.to.own_part(source, space), fragment, into))
        return
    raise NotFollowed(
        f"{to.function.name}: T.reduce of a distributed buffer gives distributed registers; T.copy them on"
    )


def _each_reduced(to: _Lowering, source: Held, target: Held, axes: tuple[int, ...], kind: ReduceKind) -> None:
    """One result after the other, each joined by one thread in order."""
    index = scalar(DType.i64)
    places = [DimVar(to.to.names.fresh("at"), 0, 2**62) for _ in source.shape]
    kept = [axis for axis in range(len(source.shape)) if axis not in axes]
    wide = compute_dtype(source.dtype)
    total = Var(scalar(wide), to.to.names.fresh("total"))
    inner: tuple[TirStmt, ...] = (Accumulate(total, kind, _load(source, places, len(places))),)
    for axis in reversed(axes):
        inner = (For(Var(index, places[axis].name), 0, source.shape[axis], inner),)
    value: Expr = total
    if kind is ReduceKind.MEAN:
        count = Apply(
            scalar(wide), "cast", (IndexValue.of(product(source.shape[a] for a in axes)),), (("dtype", wide),)
        )
        value = Apply(scalar(wide), "div", (total, count))
    keeps = len(target.shape) == len(source.shape)
    mine = places if keeps else [places[axis] for axis in kept]
    store = Store(target.buffer, _place(target, mine), _stored(value, target.dtype))
    body = (Accumulator(total, kind), *inner, store)
    _shared_out(to, tuple(source.shape[a] for a in kept), [places[a] for a in kept], body, target.space)


def _count(extent: Dim, dtype: DType) -> Expr:
    """A number of elements as a float."""
    return Apply(scalar(dtype), "cast", (IndexValue.of(extent),), (("dtype", dtype),))


def _rms_norm(to: _Lowering, stmt: Evaluate) -> None:
    """Row by row: one thread sums the squares of a row, then writes it."""
    source, weight, target = (_held(to, arg) for arg in stmt.args)
    if any(held.layout is not None for held in (source, weight, target)):
        raise NotFollowed(
            f"{to.function.name}: T.rms_norm takes plain buffers; on distributed ones write T.unary square, T.reduce "
            "and T.binary"
        )
    index = scalar(DType.i64)
    wide = compute_dtype(source.dtype)
    places = [DimVar(to.to.names.fresh("at"), 0, 2**62) for _ in source.shape]
    last = places[-1]
    total = Var(scalar(wide), to.to.names.fresh("total"))
    scale = Var(scalar(wide), to.to.names.fresh("scale"))
    loaded = _load(source, places, len(places))
    squares = For(
        Var(index, last.name),
        0,
        source.shape[-1],
        (Accumulate(total, ReduceKind.SUM, Apply(loaded.type, "square", (loaded,))),),
    )
    count = Apply(scalar(wide), "cast", (IndexValue.of(source.shape[-1]),), (("dtype", wide),))
    mean = Apply(scalar(wide), "div", (total, count))
    eps = Constant(scalar(wide), float(dict(stmt.attrs)["eps"]))
    root = Apply(scalar(wide), "rsqrt", (Apply(scalar(wide), "add", (mean, eps)),))
    weighted = Apply(scalar(wide), "mul", (loaded, scale))
    product_ = Apply(scalar(wide), "mul", (weighted, _load(weight, [last], 1)))
    write = For(
        Var(index, last.name),
        0,
        source.shape[-1],
        (Store(target.buffer, _place(target, places), _stored(product_, target.dtype)),),
    )
    body = (Accumulator(total, ReduceKind.SUM), squares, Let(scale, root), write)
    _shared_out(to, source.shape[:-1], places[:-1], body, target.space)


def _copy_async(to: _Lowering, stmt: Evaluate) -> None:
    source, target = (_held(to, arg) for arg in stmt.args)
    leader = _distribution([source, target])
    if leader is None or target.space != "smem" or source.space != "gmem":
        raise NotFollowed(
            f"{to.function.name}: T.copy_async copies gmem to smem that a mesh distributes, so that each thread knows "
            'its part; allocate T.alloc_tensor(Tensor[shape, dtype, (n @ m.t, ...), "smem"])'
        )
    space = to.space_of(leader)
    parts = [_part(to, held, leader, space, "copy_async") for held in (source, target)]
    to.to.guarded(to.to.only_one(leader.layout, leader.scope, "smem"), TileAsync(*parts, commits=False))


def _commit(to: _Lowering, stmt: Evaluate) -> None:
    to.to.out.append(TileText("ops::cp_async_commit();"))


def _wait(to: _Lowering, stmt: Evaluate) -> None:
    to.to.out.append(TileText(f"ops::cp_async_wait<{dict(stmt.attrs)['pending']}>();"))


def _mma(to: _Lowering, stmt: Evaluate) -> None:
    *_, acc = stmt.args
    lower_mma(
        to.to, atom_named(dict(stmt.attrs)["atom"]), *(_held(to, arg) for arg in (acc, *stmt.args[:-1]))
    )


TILE_RULES: dict[str, Callable[[_Lowering, Evaluate], None]] = {
    "binary": _binary,
    "clamp": _clamp,
    "copy": _copy,
    "copy_async": _copy_async,
    "cp_async_commit": _commit,
    "cp_async_wait": _wait,
    "fill": _fill,
    "mma": _mma,
    "reduce": _reduce,
    "relu": _unary,
    "rms_norm": _rms_norm,
    "unary": _unary,
}
