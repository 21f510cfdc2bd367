"""Text of parts of buffers: layouts, tensors in their memory spaces, loops over their modes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from tilefoundry.codegen.cpu.emit.scalars import literal
from tilefoundry.codegen.cuda.tiles import Fragment, Part, element
from tilefoundry.ir.types import Dim, DimVar, DType
from tilefoundry.ir.types.dim import product
from tilefoundry.ir.types.shard import Mesh, Partial, Split

if TYPE_CHECKING:
    from tilefoundry.codegen.cuda.source.statements import DeviceEmitter

__all__ = [
    "address",
    "at_index",
    "base",
    "dot",
    "inside",
    "layout_text",
    "mesh_text",
    "number_text",
    "row_major_text",
    "shard_text",
    "unrolled",
    "view_text",
]


def _static(name: str, values: Iterable[Any]) -> str:
    return f"cute::{name}<{', '.join(f'cute::Int<{value}>' for value in values)}>"


def layout_text(shape: Iterable[Any], strides: Iterable[Any]) -> str:
    return f"cute::Layout<{_static('Shape', shape)}, {_static('Stride', strides)}>"


def row_major_text(shape: tuple[Any, ...]) -> str:
    strides, step = [], 1
    for extent in reversed(shape):
        strides.append(step)
        step *= extent
    return layout_text(shape or (1,), tuple(reversed(strides)) or (1,))


def mesh_text(mesh: Mesh) -> str:
    levels = ", ".join(f"TopologyScope::{name}" for name in mesh.level_names)
    return f"make_mesh<{levels}>({layout_text(mesh.layout.shape, mesh.layout.settled)}{{}})"


def address(name: str) -> str:
    return f"{name}_at_"


def shard_text(layout: str, fragment: Fragment) -> str:
    """A shard layout; the mesh is written out, since it may be a part of the scope's."""
    attrs = ", ".join(_attr(attr) for attr in fragment.layout.attrs)
    return f"make_shard_layout({layout}{{}}, cute::tuple<{attrs}>{{}}, {mesh_text(fragment.layout.mesh)})"


def _attr(attr: Any) -> str:
    if isinstance(attr, Split):
        return f"shard::S<{attr.axis}>"
    return f"shard::P<ops::{attr.reduction}_op>" if isinstance(attr, Partial) else "shard::B"


def base(to: DeviceEmitter, part: Part) -> str:
    name = to.name(part.buffer)
    return address(name) if part.space == "rmem" else name


def view_text(to: DeviceEmitter, part: Part) -> str:
    """A part as a CuTe tensor in its memory space."""
    pointer = base(to, part)
    if part.offset != 0:
        pointer += f" + ({to.dim(part.offset)})"
    layout = _part_layout(to, part)
    if part.space == "gmem":
        return f"as_gmem({pointer}, {layout})"
    if part.space == "smem":
        pointer = f"cute::make_smem_ptr({pointer})"
    return f"cute::make_tensor({pointer}, {layout})"


def _part_layout(to: DeviceEmitter, part: Part) -> str:
    shape, strides = part.shape or (1,), part.strides or (0,)
    if all(isinstance(step, int) for step in strides):
        return layout_text(shape, strides) + "{}"
    steps = ", ".join(
        f"cute::Int<{step}>{{}}" if isinstance(step, int) else f"index_t({to.dim(step)})" for step in strides
    )
    return f"cute::make_layout({_static('Shape', shape)}{{}}, cute::make_stride({steps}))"


@contextmanager
def inside(
    to: DeviceEmitter, parts: list[Part], otherwise: Callable[[list[Part]], None] | None = None
) -> Iterator[list[Part]]:
    """Loops over the axes along which elements may be missing; the body sees the rest of the parts."""
    limits = {limit.mode: limit.bound for part in parts for limit in part.limits}
    with ExitStack() as stack:
        checks = []
        for mode, bound in limits.items():
            index = element(mode)
            to.out.line("CUTE_UNROLL")
            head = f"for (int {to.dim(index)} = 0; {to.dim(index)} < {parts[0].shape[mode]}; ++{to.dim(index)}) {{"
            stack.enter_context(to.out.block(head))
            checks.append(f"{to.dim(index)} < {to.dim(bound)}")
            parts = [at_index(part, mode, index) for part in parts]
        parts = [replace(part, limits=()) for part in parts]
        if not checks:
            yield parts
            return
        with to.out.block(f"if ({' && '.join(checks)}) {{"):
            yield parts
        if otherwise is not None:
            with to.out.block("else {"):
                otherwise(parts)


def at_index(part: Part, mode: int, index: DimVar) -> Part:
    """The part at one index of a mode."""
    shape = tuple(1 if m == mode else n for m, n in enumerate(part.shape))
    return replace(part, offset=part.offset + product((index, part.strides[mode])), shape=shape)


def number_text(value: Any, dtype: DType) -> str:
    return literal(value, dtype).replace("std::numeric_limits", "stdx::numeric_limits")


@contextmanager
def unrolled(to: DeviceEmitter, shape: tuple[int, ...], first: int) -> Iterator[None]:
    """Unrolled loops over the modes of a part, numbered from ``first``."""
    with ExitStack() as stack:
        for mode, extent in enumerate(shape, first):
            index = to.dim(element(mode))
            to.out.line("CUTE_UNROLL")
            stack.enter_context(to.out.block(f"for (int {index} = 0; {index} < {extent}; ++{index}) {{"))
        yield


def dot(strides: Iterable[Dim], first: int) -> Dim:
    total: Dim = 0
    for mode, step in enumerate(strides, first):
        total = total + product((element(mode), step))
    return total
