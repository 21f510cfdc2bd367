"""CUDA text of hand-placed kernels: shard tensors, parts of buffers, and one ``ops::`` call per op on them."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from tilefoundry.codegen.cpu.emit.scalars import dtype_name
from tilefoundry.codegen.cuda.source.parts import (
    address,
    base,
    dot,
    inside,
    layout_text,
    mesh_text,
    number_text,
    row_major_text,
    shard_text,
    unrolled,
    view_text,
)
from tilefoundry.codegen.cuda.tiles import (
    MeshValue,
    Part,
    TileAsync,
    TileCopy,
    TileEach,
    TileFill,
    TileLoop,
    TileMap,
    TileOnly,
    TileRegisters,
    TileRotate,
    TileShared,
    TileSync,
    TileText,
    dtype_of,
)
from tilefoundry.codegen.identifiers import mangle
from tilefoundry.ir.core.expr import Constant
from tilefoundry.ir.types import Dim, DType
from tilefoundry.ir.types.dim import product
from tilefoundry.ir.types.shard import LevelAxes

if TYPE_CHECKING:
    from tilefoundry.codegen.cuda.source.statements import DeviceEmitter

__all__ = ["TILE_WRITERS"]


def write_mesh(to: DeviceEmitter, stmt: MeshValue) -> None:
    """The mesh as a value, and where the running instance is on it."""
    if stmt.mesh is not None:
        to.out.line(f"[[maybe_unused]] auto const {mangle(stmt.name)} = {mesh_text(stmt.mesh)};")
    names = dict(stmt.coordinates)
    for part in stmt.levels:
        for axis, extent, step in zip(part.axes, part.shape, part.strides, strict=True):
            text = "0" if extent == 1 else _coordinate(to, part, extent, step)
            to.out.line(f"[[maybe_unused]] const index_t {to.name(names[axis])} = {text};")


def _coordinate(to: DeviceEmitter, part: LevelAxes, extent: Dim, step: Dim) -> str:
    text = f"program_id<TopologyScope::{part.level.name}>()"
    if step != 1:
        text += f" / ({to.dim(step)})"
    slowest = product((extent, step)) == product(part.shape)
    return text if slowest else f"{text} % ({to.dim(extent)})"


def write_registers(to: DeviceEmitter, stmt: TileRegisters) -> None:
    """Registers; a distributed value is a shard tensor around them."""
    name, kind = to.name(stmt.target), dtype_name(dtype_of(stmt.target))
    registers = f"make_registers<{kind}>(cute::Int<{max(stmt.size, 1)}>{{}})"
    if stmt.fragment is None:
        to.out.line(f"auto {name} = {registers};")
        to.out.line(f"{kind}* const {address(name)} = {name}.data();")
        return
    layout = stmt.fragment.layout
    to.out.line(f"using {name}_layout_ = {layout_text(layout.shape, layout.strides or ())};")
    shard = shard_text(f"{name}_layout_", stmt.fragment)
    to.out.line(f"auto {name} = make_shard_tensor({registers}, {row_major_text(layout.shape)}{{}}, {shard});")
    to.out.line(f"{kind}* const {address(name)} = {name}.data();")


def write_shared(to: DeviceEmitter, stmt: TileShared) -> None:
    """Shared memory, aligned for the widest access."""
    kind, name = dtype_name(dtype_of(stmt.target)), to.name(stmt.target)
    if stmt.offset is not None:
        to.out.line(f"{kind}* const {name} = reinterpret_cast<{kind}*>(shared_ + {stmt.offset});")
        return
    to.out.line(f"alignas(16) __shared__ unsigned char {name}_bytes_[{stmt.size} * sizeof({kind})];")
    to.out.line(f"{kind}* const {name} = reinterpret_cast<{kind}*>({name}_bytes_);")


def write_copy(to: DeviceEmitter, stmt: TileCopy) -> None:
    """``copy`` between two parts; registers get 0 for elements that are not there."""

    def zero(parts: list[Part]) -> None:
        to.out.line(f"auto none_ = {view_text(to, parts[1])};")
        to.out.line(f"ops::fill(none_, {dtype_name(dtype_of(stmt.target.buffer))}(0));")

    missing = zero if stmt.target.space == "rmem" else None
    with to.out.block("{"), inside(to, [stmt.source, stmt.target], missing) as (source, target):
        to.out.line(f"auto const from_ = {view_text(to, source)};")
        to.out.line(f"auto into_ = {view_text(to, target)};")
        to.out.line("copy(from_, into_);")


def write_async(to: DeviceEmitter, stmt: TileAsync) -> None:
    """``ops::copy_async`` and its commit."""
    with to.out.block("{"):
        to.out.line(f"auto const from_ = {view_text(to, stmt.source)};")
        to.out.line(f"auto into_ = {view_text(to, stmt.target)};")
        to.out.line("ops::copy_async(from_, into_);")
        if stmt.commits:
            to.out.line("ops::cp_async_commit();")


def write_text(to: DeviceEmitter, stmt: TileText) -> None:
    """The line, names of the program in braces."""
    to.out.line(re.sub(r"\{(\w+)\}", lambda m: mangle(m[1]), stmt.text))


def write_fill(to: DeviceEmitter, stmt: TileFill) -> None:
    """``ops::fill``, or a loop where elements depend on their index."""
    kind = dtype_name(dtype_of(stmt.target.buffer))
    if isinstance(stmt.value, Constant):
        with to.out.block("{"), inside(to, [stmt.target]) as (target,):
            to.out.line(f"auto into_ = {view_text(to, target)};")
            to.out.line(f"ops::fill(into_, {number_text(stmt.value.value, dtype_of(stmt.value))});")
        return
    with unrolled(to, stmt.target.shape, 0):
        place = stmt.target.offset + dot(stmt.target.strides, 0)
        to.out.line(
            f"{base(to, stmt.target)}[{to.dim(place)}] = convert<{kind}>(index_t({to.dim(stmt.value)}));"
        )


def write_map(to: DeviceEmitter, stmt: TileMap) -> None:
    """One call of the family's entry."""
    with to.out.block("{"):
        operands = [_operand(to, operand, i) for i, operand in enumerate(stmt.operands)]
        to.out.line(f"auto into_ = {view_text(to, stmt.target)};")
        dtype = dtype_of(stmt.target.buffer)
        if stmt.family == "divide":
            kind = dtype_name(dtype)
            to.out.line(f"const {kind} count_ = convert<{kind}>({to.dim(stmt.extra[0])});")
            count = "cute::make_tensor(&count_, cute::make_layout(cute::_1{}))"
            to.out.line(f"ops::binary(ops::div_op{{}}, {operands[0]}, {count}, into_);")
            return
        if stmt.tag == "div" and to.narrow and _is_row_value(stmt.operands[1]):
            _divided_by_one(to, stmt, operands)
            return
        args = [*([_tag(to, stmt)] if stmt.tag else []), *operands, "into_"]
        args += [number_text(value, dtype) for value in stmt.extra]
        to.out.line(f"ops::{stmt.family}({', '.join(args)});")


_FAST = frozenset(["exp", "sigmoid", "silu", "gelu_tanh"])


def _tag(to: DeviceEmitter, stmt: TileMap) -> str:
    """The functor; a short form where nothing but 16-bit values is stored."""
    operand = stmt.operands[0]
    fast = to.narrow and stmt.family == "unary" and stmt.tag in _FAST
    if fast and isinstance(operand, Part) and dtype_of(operand.buffer) is DType.f32:
        return f"ops::approximate<ops::{stmt.tag}_op>{{}}"
    return f"ops::{stmt.tag}_op{{}}"


def _is_row_value(operand: Part | Constant) -> bool:
    """Whether all elements meet the same f32 value."""
    return (
        isinstance(operand, Part)
        and dtype_of(operand.buffer) is DType.f32
        and all(step == 0 or n == 1 for step, n in zip(operand.strides, operand.shape, strict=True))
        and product(operand.shape) != 1
    )


def _divided_by_one(to: DeviceEmitter, stmt: TileMap, operands: list[str]) -> None:
    """Divide by one value: by its reciprocal where that is a normal number, as it nearly always is."""
    divisor = stmt.operands[1]
    assert isinstance(divisor, Part)
    to.out.line(
        f"const f32 divisor_ = {base(to, divisor)}[{to.dim(divisor.offset)}], inverse_ = 1.0f / divisor_;"
    )
    to.out.line("const f32 size_ = ops::abs_op{}(divisor_);")
    with to.out.block("if (size_ > 1.0e-37f && size_ < 1.0e37f) {"):
        inverse = "cute::make_tensor(&inverse_, cute::make_layout(cute::_1{}))"
        to.out.line(f"ops::binary(ops::mul_op{{}}, {operands[0]}, {inverse}, into_);")
    with to.out.block("else {"):
        to.out.line(f"ops::binary(ops::div_op{{}}, {operands[0]}, {operands[1]}, into_);")


def _operand(to: DeviceEmitter, operand: Part | Constant, i: int) -> str:
    if isinstance(operand, Part):
        to.out.line(f"auto const operand{i}_ = {view_text(to, operand)};")
        return f"operand{i}_"
    dtype = dtype_of(operand)
    kind = dtype_name(dtype)
    to.out.line(f"const {kind} literal{i}_ = convert<{kind}>({number_text(operand.value, dtype)});")
    return f"cute::make_tensor(&literal{i}_, cute::make_layout(cute::_1{{}}))"


def write_sync(to: DeviceEmitter, stmt: TileSync) -> None:
    """One call of the barrier's entry."""
    kind = f"ops::SyncKind::{stmt.kind}"
    if stmt.barrier is not None:
        to.out.line(f"ops::sync<{kind}>(reinterpret_cast<unsigned*>({to.name(stmt.barrier)}));")
    elif stmt.kind in ("cta", "warp"):
        to.out.line(f"ops::sync<{kind}>();")
    else:
        to.out.line(f"ops::sync<{kind}, {stmt.base}, {stmt.count}, {stmt.mask}u, {stmt.number}>();")


def write_loop(to: DeviceEmitter, stmt: TileLoop) -> None:
    """A counted loop."""
    index = to.name(stmt.index)
    start, stop, step = (to.dim(dim) for dim in (stmt.start, stmt.stop, stmt.step))
    head = f"for (index_t {index} = {start}; {index} < {stop}; {index} += {step}) {{"
    with to.out.block(head):
        if stmt.window is not None:
            window, length = stmt.window
            rest = f"{to.dim(stmt.stop)} - {index}"
            step = to.dim(length)
            to.out.line(f"const index_t {to.name(window)} = {rest} < {step} ? {rest} : {step};")
        to.stmts(stmt.body)


def write_each(to: DeviceEmitter, stmt: TileEach) -> None:
    """A loop over items that are counted through, and their coordinates."""
    counter = to.name(stmt.counter)
    first, count, step = (to.dim(dim) for dim in (stmt.first, stmt.count, stmt.step))
    with to.out.block(f"for (index_t {counter} = {first}; {counter} < {count}; {counter} += {step}) {{"):
        below: Dim = 1
        for place, extent in reversed(stmt.places):
            rest = counter if below == 1 else f"{counter} / ({to.dim(below)})"
            to.out.line(f"[[maybe_unused]] const index_t {to.name(place)} = {rest} % ({to.dim(extent)});")
            below = product((below, extent))
        to.stmts(stmt.body)


def write_rotate(to: DeviceEmitter, stmt: TileRotate) -> None:
    """Declare a pointer, or move two on at the end of a turn."""
    pointer, source = to.name(stmt.pointer), to.name(stmt.source)
    if stmt.pair is None:
        kind = dtype_name(dtype_of(stmt.pointer))
        to.out.line(
            f"{'' if stmt.writes else 'const '}{kind}* {pointer} = {source} + ({to.dim(stmt.offset)});"
        )
        return
    first, second = (to.name(space) for space in stmt.pair)
    to.out.line(f"{pointer} = {source};")
    to.out.line(f"{source} = {source} == {first} ? {second} : {first};")


def write_only(to: DeviceEmitter, stmt: TileOnly) -> None:
    """One of several holders acts."""
    with to.out.block(f"if ({' && '.join(f'{to.dim(dim)} == 0' for dim in stmt.zeros)}) {{"):
        to.stmts(stmt.body)


TILE_WRITERS: dict[type, Callable[[Any, Any], None]] = {
    MeshValue: write_mesh,
    TileAsync: write_async,
    TileCopy: write_copy,
    TileEach: write_each,
    TileFill: write_fill,
    TileLoop: write_loop,
    TileMap: write_map,
    TileOnly: write_only,
    TileRegisters: write_registers,
    TileRotate: write_rotate,
    TileShared: write_shared,
    TileSync: write_sync,
    TileText: write_text,
}
"""Statement -> what writes it."""
