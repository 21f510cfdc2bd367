"""Layouts of ``tf.reshard`` as an author writes them: ``(N @ m.b, 2, 256 @ m.t, 8)``."""

from __future__ import annotations

from collections.abc import Sequence

from tilefoundry.inspection.names import Header
from tilefoundry.inspection.values import dim_text
from tilefoundry.ir.core.expr import Call
from tilefoundry.ir.types import Dim
from tilefoundry.ir.types.shard import Broadcast, Layout, ShardLayout, Split

__all__ = ["reshard_layout"]


def reshard_layout(call: Call, header: Header) -> str | None:
    """The written form of the layout that a ``tf.reshard`` gives.

    None where reading it back would give another layout: strides of the author's own, partial values, a mesh whose
    scope is not at hand or whose axes have no names.
    """
    layout = dict(call.attrs)["layout"]
    if isinstance(layout, Layout):
        return _entries(layout.shape, {}, header) if _gives(call, Layout(layout.shape)) else None
    if not isinstance(layout, ShardLayout) or not isinstance(layout.layout, Layout):
        return None
    scope = header.scope_of(layout.mesh)
    plain = all(isinstance(attr, (Split, Broadcast)) for attr in layout.attrs)
    if scope is None or not layout.mesh.names or not plain or not layout.splits:
        return None
    written = ShardLayout(Layout(layout.shape), layout.attrs, layout.mesh)
    if not _gives(call, written):
        return None
    axes = {axis: f"{scope}.{layout.mesh.names[at]}" for axis, at in layout.splits.items()}
    return _entries(layout.shape, axes, header)


def _gives(call: Call, written: Layout | ShardLayout) -> bool:
    """Whether the reshard with ``written`` in place of its layout is the same."""
    return call.op.call(call.args, {**dict(call.attrs), "layout": written}).attrs == call.attrs


def _entries(shape: Sequence[Dim], axes: dict[int, str], header: Header) -> str:
    entries = []
    for axis, extent in enumerate(shape):
        text = dim_text(extent, header)
        if axis in axes:
            text = f"{text if text.isalnum() else f'({text})'} @ {axes[axis]}"
        entries.append(text)
    return f"({entries[0]},)" if len(entries) == 1 else f"({', '.join(entries)})"
