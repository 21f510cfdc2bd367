"""reshard and local: move a value to another distribution, and look at what one instance holds.

The evaluator holds global values, so a reshard of one is the identity, and a partial value is the reduced
one. ``local`` gives a tensor with one leading axis per mesh axis: what each instance holds; every op on it
runs per instance, and a reshard folds it back into a global value.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from tilefoundry.ir.core.kinds import ReduceKind, kind_from_name
from tilefoundry.ir.core.op import Attr, Op
from tilefoundry.ir.errors import EvaluationError, TypeRuleError
from tilefoundry.ir.hir import reduction
from tilefoundry.ir.hir.rules import require_tensor
from tilefoundry.ir.types import Dim, StorageKind, TensorType, Type
from tilefoundry.ir.types.dim import lanes, product
from tilefoundry.ir.types.shard import (
    AnyLayout,
    Instances,
    Layout,
    ShardLayout,
    layout_from_sugar,
    settle_plain,
    settle_strides,
)

__all__ = ["OPS"]

_REDUCE = reduction.OPS[0]


def _storage(value: Any) -> StorageKind | None:
    return None if value is None else StorageKind.from_name(value)


def _normalize_reshard(types: tuple[Type, ...], attrs: Mapping[str, Any]) -> dict[str, Any]:
    x = require_tensor("reshard", "x", types[0])
    storage = x.storage if attrs["storage"] is None else attrs["storage"]
    if attrs["layout"] is None:
        comma = "," if x.rank == 1 else ""
        change = f" from {x.storage} to {storage}" if storage is not x.storage else ""
        raise TypeRuleError(
            f"tf.reshard: x is {x}; moving it{change} needs layout=, such as ({_extents(x)}{comma})"
        )
    try:
        layout = layout_from_sugar(_global_shape(x, attrs["layout"]), attrs["layout"])
    except (TypeError, ValueError) as error:
        raise TypeRuleError(f"tf.reshard: {error}") from None
    return {"layout": _settled(layout, x, storage), "storage": storage}


def _extents(x: TensorType) -> str:
    return ", ".join(map(str, x.shape))


def _global_shape(x: TensorType, written: Any) -> Sequence[Dim]:
    """The shape that the layout must cover: the tensor's, or its own where ``x`` is one instance's part."""
    if not isinstance(x.layout, Instances):
        return x.shape
    layout = layout_from_sugar((_size(written),), written)
    return () if layout is None else layout.shape


def _size(written: Any) -> Dim:
    if hasattr(written, "shape"):
        return product(written.shape)
    entries = written[0] if len(written) == 2 and isinstance(written[1], (set, frozenset)) else written
    return product(getattr(entry, "extent", entry) for entry in entries)


def _settled(layout: AnyLayout | None, x: TensorType, storage: StorageKind) -> AnyLayout | None:
    if isinstance(layout, ShardLayout):
        return settle_strides(layout, x.layout, x.storage, storage)
    return settle_plain(layout) if isinstance(layout, Layout) else layout


def _type_reshard(types: tuple[Type, ...], attrs: Mapping[str, Any]) -> Type:
    x = require_tensor("reshard", "x", types[0])
    layout, storage = attrs["layout"], attrs["storage"]
    if isinstance(x.layout, Instances):
        _check_fold(x, x.layout, layout)
        return TensorType(layout.shape, x.dtype, layout, storage)
    if isinstance(layout, ShardLayout):
        _check_target(x, layout)
    return TensorType(x.shape, x.dtype, layout, storage)


def _check_target(x: TensorType, layout: ShardLayout) -> None:
    if layout.is_dynamic:
        raise TypeRuleError(f"tf.reshard: {layout} holds a Dynamic attribute; resolve it to S, B or P first")
    held = x.layout.partials if isinstance(x.layout, ShardLayout) and x.layout.mesh == layout.mesh else {}
    for axis, kind in layout.partials.items():
        if held.get(axis) != kind:
            name = layout.mesh.at(axis).name
            raise TypeRuleError(
                f"tf.reshard: x is {x}, which holds no partial {kind} over {name}; partial values come "
                "from reducing a split axis, so split or copy x instead"
            )


def _check_fold(x: TensorType, instances: Instances, layout: Any) -> None:
    if not isinstance(layout, ShardLayout) or layout.mesh != instances.mesh:
        raise TypeRuleError(
            f"tf.reshard: x is {x}; folding it back needs a layout over the same mesh, got {layout}"
        )
    if layout.local_shape != x.shape:
        local = ", ".join(map(str, layout.local_shape))
        raise TypeRuleError(
            f"tf.reshard: one instance holds ({_extents(x)}), but under {layout} it holds ({local}); make them equal"
        )


def _evaluate_reshard(ctx: Any, values: tuple[Any, ...], attrs: Mapping[str, Any]) -> Any:
    (x,) = values
    source = ctx.operand_types[0].layout
    return _fold(ctx, x, attrs["layout"]) if isinstance(source, Instances) else x


def _type_local(types: tuple[Type, ...], attrs: Mapping[str, Any]) -> Type:
    x = require_tensor("local", "x", types[0])
    layout = x.layout
    if not isinstance(layout, ShardLayout):
        raise TypeRuleError(f"tf.local: x is {x}, which no mesh distributes; use tf.reshard first")
    if layout.partials or layout.is_dynamic:
        raise TypeRuleError(
            f"tf.local: x is {x}, whose partial or dynamic values have no parts yet; use tf.reshard to split or copy it"
        )
    cut = [axis for axis, extent in enumerate(x.shape) if lanes(extent) != extent]
    if cut and product(layout.shape) != x.size:
        raise TypeRuleError(
            f"tf.local: x is {x}, whose axis {cut[0]} the edge may cut: instances outside hold nothing; compute on x "
            "itself, or choose a step that divides the extent"
        )
    return TensorType(layout.local_shape, x.dtype, Instances(layout.mesh), x.storage)


def _evaluate_local(ctx: Any, values: tuple[Any, ...], attrs: Mapping[str, Any]) -> Any:
    (x,) = values
    layout: ShardLayout = ctx.operand_types[0].layout
    canonical = x.reshape(tuple(ctx.dim(dim) for dim in layout.shape))
    mesh = tuple(ctx.dim(dim) for dim in layout.mesh.shape)
    # Split axes go to the front in the order of the mesh axes; an extent of 1 stays in their place.
    splits = layout.splits
    front = sorted(splits, key=lambda k: splits[k])
    rest = [k for k in range(canonical.dim()) if k not in splits]
    view = canonical.permute(*front, *rest)
    for axis in range(len(mesh)):
        if axis not in splits.values():
            view = view.unsqueeze(axis)
    for k in sorted(splits):
        view = view.unsqueeze(len(mesh) + k)
    return view.expand(*mesh, *view.shape[len(mesh) :])


def _fold(ctx: Any, x: Any, layout: ShardLayout) -> Any:
    for axis in reversed(range(layout.mesh.rank)):
        attr = layout.attrs[axis]
        if axis in layout.splits.values():
            continue
        if axis in layout.partials:
            kind = kind_from_name(ReduceKind, layout.partials[axis])
            x = _REDUCE.evaluate(ctx, (x,), {"kind": kind, "axes": (axis,), "keepdim": False})
        else:
            x = _copy(x, axis, str(attr), layout)
    splits = layout.splits
    front = sorted(splits, key=lambda k: splits[k])
    for k in sorted(splits, reverse=True):
        x = x.squeeze(len(front) + k)
    order = [front.index(k) if k in splits else 0 for k in range(len(layout.shape))]
    rest = iter(range(len(front), x.dim()))
    return x.permute(*(at if k in splits else next(rest) for k, at in enumerate(order)))


def _copy(x: Any, axis: int, attr: str, layout: ShardLayout) -> Any:
    first = x.select(axis, 0)
    rest = x.movedim(axis, 0)[1:]
    if not all(bool(((one == first) | ((one != one) & (first != first))).all()) for one in rest):
        raise EvaluationError(
            f"tf.reshard: {layout} says {attr} over {layout.mesh.at(axis).name}, "
            "but the instances hold different values"
        )
    return first


OPS = (
    Op(
        "reshard",
        ("x",),
        _type_reshard,
        _evaluate_reshard,
        (Attr("layout", None), Attr("storage", None, _storage)),
        normalize=_normalize_reshard,
        doc="x under another layout and in another storage; its value stays",
    ),
    Op(
        "local",
        ("x",),
        _type_local,
        _evaluate_local,
        doc="what the running instance holds of x: extent 1 along split canonical axes, all of the others",
    ),
)
