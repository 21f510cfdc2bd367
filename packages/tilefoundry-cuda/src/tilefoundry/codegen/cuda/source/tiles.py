"""CUDA text of hand-placed kernels: shard tensors, parts of buffers, and one ``ops::`` call per op on them."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from tilefoundry.codegen.cpu.emit.scalars import dtype_name, literal
from tilefoundry.codegen.cuda.tiles import (
    Fragment,
    MeshValue,
    Part,
    TileAsync,
    TileContract,
    TileCopy,
    TileEach,
    TileFill,
    TileGather,
    TileLoop,
    TileMap,
    TileMma,
    TileOnly,
    TilePad,
    TileReduce,
    TileRegisters,
    TileRotate,
    TileShared,
    TileSync,
    TileText,
    dtype_of,
    element,
)
from tilefoundry.codegen.identifiers import mangle
from tilefoundry.ir.core.expr import Constant
from tilefoundry.ir.types import Dim, DimVar, DType
from tilefoundry.ir.types.dim import product
from tilefoundry.ir.types.shard import LevelAxes, Mesh, Partial, Split

if TYPE_CHECKING:
    from tilefoundry.codegen.cuda.source.statements import DeviceEmitter

__all__ = ["TILE_WRITERS"]


def _static(name: str, values: Iterable[Any]) -> str:
    return f"cute::{name}<{', '.join(f'cute::Int<{value}>' for value in values)}>"


def _layout(shape: Iterable[Any], strides: Iterable[Any]) -> str:
    return f"cute::Layout<{_static('Shape', shape)}, {_static('Stride', strides)}>"


def _row_major(shape: tuple[Any, ...]) -> str:
    strides, step = [], 1
    for extent in reversed(shape):
        strides.append(step)
        step *= extent
    return _layout(shape or (1,), tuple(reversed(strides)) or (1,))


def _mesh_text(mesh: Mesh) -> str:
    levels = ", ".join(f"TopologyScope::{name}" for name in mesh.level_names)
    return f"make_mesh<{levels}>({_layout(mesh.layout.shape, mesh.layout.settled)}{{}})"


def write_mesh(to: DeviceEmitter, stmt: MeshValue) -> None:
    """The mesh as a value, and where the running instance is on it."""
    if stmt.mesh is not None:
        to.out.line(f"[[maybe_unused]] auto const {mangle(stmt.name)} = {_mesh_text(stmt.mesh)};")
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
    registers = f"cute::make_tensor<{kind}>(cute::Int<{max(stmt.size, 1)}>{{}})"
    if stmt.fragment is None:
        to.out.line(f"auto {name} = {registers};")
        to.out.line(f"{kind}* const {_address(name)} = {name}.data();")
        return
    layout = stmt.fragment.layout
    to.out.line(f"using {name}_layout_ = {_layout(layout.shape, layout.strides or ())};")
    shard = _shard(f"{name}_layout_", stmt.fragment)
    to.out.line(f"auto {name} = make_shard_tensor({registers}, {_row_major(layout.shape)}{{}}, {shard});")
    to.out.line(f"{kind}* const {_address(name)} = {name}.data();")


def _address(name: str) -> str:
    return f"{name}_at_"


def _shard(layout: str, fragment: Fragment) -> str:
    """A shard layout; the mesh is written out, since it may be a part of the scope's."""
    attrs = ", ".join(_attr(attr) for attr in fragment.layout.attrs)
    return f"make_shard_layout({layout}{{}}, cute::tuple<{attrs}>{{}}, {_mesh_text(fragment.layout.mesh)})"


def _attr(attr: Any) -> str:
    if isinstance(attr, Split):
        return f"shard::S<{attr.axis}>"
    return f"shard::P<ops::{attr.reduction}_op>" if isinstance(attr, Partial) else "shard::B"


def write_shared(to: DeviceEmitter, stmt: TileShared) -> None:
    """Shared memory, aligned for the widest access."""
    kind, name = dtype_name(dtype_of(stmt.target)), to.name(stmt.target)
    if stmt.offset is not None:
        to.out.line(f"{kind}* const {name} = reinterpret_cast<{kind}*>(shared_ + {stmt.offset});")
        return
    to.out.line(f"alignas(16) __shared__ unsigned char {name}_bytes_[{stmt.size} * sizeof({kind})];")
    to.out.line(f"{kind}* const {name} = reinterpret_cast<{kind}*>({name}_bytes_);")


def _base(to: DeviceEmitter, part: Part) -> str:
    name = to.name(part.buffer)
    return _address(name) if part.space == "rmem" else name


def _view(to: DeviceEmitter, part: Part) -> str:
    """A part as a CuTe tensor in its memory space."""
    base = _base(to, part)
    if part.offset != 0:
        base += f" + ({to.dim(part.offset)})"
    layout = _part_layout(to, part)
    if part.space == "gmem":
        return f"as_gmem({base}, {layout})"
    pointer = f"cute::make_smem_ptr({base})" if part.space == "smem" else base
    return f"cute::make_tensor({pointer}, {layout})"


def _part_layout(to: DeviceEmitter, part: Part) -> str:
    shape, strides = part.shape or (1,), part.strides or (0,)
    if all(isinstance(step, int) for step in strides):
        return _layout(shape, strides) + "{}"
    steps = ", ".join(
        f"cute::Int<{step}>{{}}" if isinstance(step, int) else f"index_t({to.dim(step)})" for step in strides
    )
    return f"cute::make_layout({_static('Shape', shape)}{{}}, cute::make_stride({steps}))"


@contextmanager
def _inside(
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
            parts = [_at(part, mode, index) for part in parts]
        parts = [replace(part, limits=()) for part in parts]
        if not checks:
            yield parts
            return
        with to.out.block(f"if ({' && '.join(checks)}) {{"):
            yield parts
        if otherwise is not None:
            with to.out.block("else {"):
                otherwise(parts)


def _at(part: Part, mode: int, index: DimVar) -> Part:
    """The part at one index of a mode."""
    shape = tuple(1 if m == mode else n for m, n in enumerate(part.shape))
    return replace(part, offset=part.offset + product((index, part.strides[mode])), shape=shape)


def write_copy(to: DeviceEmitter, stmt: TileCopy) -> None:
    """``copy`` between two parts; registers get 0 for elements that are not there."""

    def zero(parts: list[Part]) -> None:
        to.out.line(f"auto none_ = {_view(to, parts[1])};")
        to.out.line(f"ops::fill(none_, {dtype_name(dtype_of(stmt.target.buffer))}(0));")

    missing = zero if stmt.target.space == "rmem" else None
    with to.out.block("{"), _inside(to, [stmt.source, stmt.target], missing) as (source, target):
        to.out.line(f"auto const from_ = {_view(to, source)};")
        to.out.line(f"auto into_ = {_view(to, target)};")
        to.out.line("copy(from_, into_);")


def write_async(to: DeviceEmitter, stmt: TileAsync) -> None:
    """``ops::copy_async`` and its commit."""
    with to.out.block("{"):
        to.out.line(f"auto const from_ = {_view(to, stmt.source)};")
        to.out.line(f"auto into_ = {_view(to, stmt.target)};")
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
        with to.out.block("{"), _inside(to, [stmt.target]) as (target,):
            to.out.line(f"auto into_ = {_view(to, target)};")
            to.out.line(f"ops::fill(into_, {_number(stmt.value.value, dtype_of(stmt.value))});")
        return
    with _loops(to, stmt.target.shape, 0):
        place = stmt.target.offset + _dot(stmt.target.strides, 0)
        to.out.line(
            f"{_base(to, stmt.target)}[{to.dim(place)}] = convert<{kind}>(index_t({to.dim(stmt.value)}));"
        )


def _number(value: Any, dtype: DType) -> str:
    return literal(value, dtype).replace("std::numeric_limits", "stdx::numeric_limits")


@contextmanager
def _loops(to: DeviceEmitter, shape: tuple[int, ...], first: int) -> Iterator[None]:
    """Unrolled loops over the modes of a part, numbered from ``first``."""
    with ExitStack() as stack:
        for mode, extent in enumerate(shape, first):
            index = to.dim(element(mode))
            to.out.line("CUTE_UNROLL")
            stack.enter_context(to.out.block(f"for (int {index} = 0; {index} < {extent}; ++{index}) {{"))
        yield


def _dot(strides: Iterable[Dim], first: int) -> Dim:
    total: Dim = 0
    for mode, step in enumerate(strides, first):
        total = total + product((element(mode), step))
    return total


def write_map(to: DeviceEmitter, stmt: TileMap) -> None:
    """One call of the family's entry."""
    with to.out.block("{"):
        operands = [_operand(to, operand, i) for i, operand in enumerate(stmt.operands)]
        to.out.line(f"auto into_ = {_view(to, stmt.target)};")
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
        args += [_number(value, dtype) for value in stmt.extra]
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
        f"const f32 divisor_ = {_base(to, divisor)}[{to.dim(divisor.offset)}], inverse_ = 1.0f / divisor_;"
    )
    to.out.line("const f32 size_ = ops::abs_op{}(divisor_);")
    with to.out.block("if (size_ > 1.0e-37f && size_ < 1.0e37f) {"):
        inverse = "cute::make_tensor(&inverse_, cute::make_layout(cute::_1{}))"
        to.out.line(f"ops::binary(ops::mul_op{{}}, {operands[0]}, {inverse}, into_);")
    with to.out.block("else {"):
        to.out.line(f"ops::binary(ops::div_op{{}}, {operands[0]}, {operands[1]}, into_);")


def _operand(to: DeviceEmitter, operand: Part | Constant, i: int) -> str:
    if isinstance(operand, Part):
        to.out.line(f"auto const operand{i}_ = {_view(to, operand)};")
        return f"operand{i}_"
    dtype = dtype_of(operand)
    kind = dtype_name(dtype)
    to.out.line(f"const {kind} literal{i}_ = convert<{kind}>({_number(operand.value, dtype)});")
    return f"cute::make_tensor(&literal{i}_, cute::make_layout(cute::_1{{}}))"


def write_pad(to: DeviceEmitter, stmt: TilePad) -> None:
    """The identity where an element is not there."""
    kind = dtype_name(dtype_of(stmt.target.buffer))
    value = f"ops::{stmt.op}_op::template identity<accumulate_t<{kind}>>()"

    def identity(parts: list[Part]) -> None:
        to.out.line(f"auto none_ = {_view(to, parts[0])};")
        to.out.line(f"ops::fill(none_, {value});")

    with to.out.block("{"), _inside(to, [stmt.target], identity):
        to.out.comment("elements that are there stay")


def write_reduce(to: DeviceEmitter, stmt: TileReduce) -> None:
    """A fold of the instance's own elements, or a join over threads with its workspace."""
    axes = f"ops::axes<{', '.join(map(str, stmt.axes))}>"
    op = f"ops::{stmt.op}_op"
    with to.out.block("{"):
        to.out.line(f"auto into_ = {_view(to, replace(stmt.target, limits=()))};")
        if stmt.fragment is None:
            to.out.line(f"auto const own_ = {_view(to, replace(stmt.source, limits=()))};")
            to.out.line(f"ops::reduce<{op}, {axes}>(own_, into_);")
            return
        layout = stmt.fragment.layout
        flat = f"cute::make_layout(cute::Int<{product(stmt.source.shape)}>{{}})"
        own = f"cute::make_tensor({_base(to, stmt.source)} + ({to.dim(stmt.source.offset)}), {flat})"
        to.out.line(f"using Parts_ = {_layout(layout.shape, layout.strides or ())};")
        shard = _shard("Parts_", stmt.fragment)
        to.out.line(f"auto const parts_ = make_shard_tensor({own}, {_row_major(layout.shape)}{{}}, {shard});")
        sizes = f"{op}, {axes}, decltype(parts_), decltype(into_)"
        to.out.line(f"constexpr int bytes_ = ops::reduce_workspace_bytes<{sizes}>();")
        to.out.line("alignas(16) __shared__ unsigned char workspace_[bytes_ > 0 ? bytes_ : 16];")
        to.out.line(f"ops::reduce<{op}, {axes}>(parts_, into_, workspace_);")


def write_contract(to: DeviceEmitter, stmt: TileContract) -> None:
    """Sums of products, each in the accumulator's type, rounded once."""
    dtype = dtype_of(stmt.target.buffer)
    kind = dtype_name(dtype)
    wide = f"accumulate_t<{kind}>"
    rank = len(stmt.target.shape)
    with _loops(to, stmt.target.shape, 0):
        to.out.line(f"{wide} sum_ = {wide}(0);")
        with _loops(to, stmt.depth, rank):
            factors = [
                f"convert<{wide}>({_base(to, part)}[{to.dim(part.offset + _dot(part.strides, 0))}])"
                for part in (stmt.lhs, stmt.rhs)
            ]
            to.out.line(f"sum_ += {' * '.join(factors)};")
        place = stmt.target.offset + _dot(stmt.target.strides, 0)
        to.out.line(f"{_base(to, stmt.target)}[{to.dim(place)}] = convert<{kind}>(sum_);")


def write_gather(to: DeviceEmitter, stmt: TileGather) -> None:
    """Row by row: the row's number, checked, and the copy of what lies at it."""
    parts = [stmt.table, stmt.index, stmt.target]
    with ExitStack() as stack:
        stack.enter_context(to.out.block("{"))
        for mode in stmt.modes:
            index = element(mode)
            to.out.line("CUTE_UNROLL")
            head = f"for (int {to.dim(index)} = 0; {to.dim(index)} < {stmt.target.shape[mode]}; ++{to.dim(index)}) {{"
            stack.enter_context(to.out.block(head))
            parts = [_at(part, mode, index) for part in parts]
        table, numbers, target = parts
        number = f"index_t({_base(to, numbers)}[{to.dim(numbers.offset)}])"
        row = DimVar("row_", 0, 2**62)
        check = f'IndexFault{{"index_select"}}.bounded({number}, {to.dim(stmt.extent)})'
        to.out.line(f"const index_t {to.dim(row)} = {check};")
        table = replace(table, offset=table.offset + product((row, stmt.step)), limits=target.limits)
        write_copy(to, TileCopy(table, target))


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


def write_mma(to: DeviceEmitter, stmt: TileMma) -> None:
    """Every 16x8 tile of the sums, every depth that one instruction takes: fragments in the instruction's order."""
    kind, pair = dtype_name(stmt.dtype), stmt.pair
    wide = dtype_name(dtype_of(stmt.sums.buffer))
    tall, deep, broad = stmt.a.shape[0], stmt.a.shape[2], stmt.b.shape[3]
    rows, columns = 2 * broad, 2
    with to.out.block("{"), ExitStack() as stack:
        for name, count in (("i_", tall // 2), ("j_", broad), ("k_", deep // 2)):
            to.out.line("CUTE_UNROLL")
            stack.enter_context(to.out.block(f"for (int {name} = 0; {name} < {count}; ++{name}) {{"))
        to.out.line(f"alignas(16) {kind} a_[{4 * pair}], b_[{2 * pair}];")
        to.out.line(f"alignas(16) {wide} sums_[4];")
        to.out.line("CUTE_UNROLL")
        with to.out.block(f"for (int p_ = 0; p_ < {pair}; ++p_) {{"):
            for word in range(4):
                place = _at_text(
                    to, stmt.a, {0: f"(2 * i_ + {word % 2})", 2: f"(2 * k_ + {word // 2})", 4: "p_"}
                )
                to.out.line(f"a_[{word * pair} + p_] = {place};")
            for word in range(2):
                place = _at_text(to, stmt.b, {0: f"(2 * k_ + {word})", 2: "p_", 3: "j_"})
                to.out.line(f"b_[{word * pair} + p_] = {place};")
        base = _base(to, stmt.sums)
        places = [f"{base}[(2 * i_ + {s // 2}) * {rows} + j_ * {columns} + {s % 2}]" for s in range(4)]
        for s, place in enumerate(places):
            to.out.line(f"sums_[{s}] = {place};")
        for name, count in (("sums_", 4), ("a_", 4 * pair), ("b_", 2 * pair)):
            to.out.line(
                f"auto {name}t_ = cute::make_tensor(&{name}[0], cute::make_layout(cute::Int<{count}>{{}}));"
            )
        to.out.line(f"ops::mma(ops::atom::mma_sync<{kind}>{{}}, sums_t_, a_t_, b_t_);")
        for s, place in enumerate(places):
            to.out.line(f"{place} = sums_[{s}];")


def _at_text(to: DeviceEmitter, part: Part, places: dict[int, str]) -> str:
    """An element of a part at given indices, as text."""
    terms = [f"({to.dim(part.offset)})"]
    terms += [f"{index} * ({to.dim(part.strides[mode])})" for mode, index in places.items()]
    return f"{_base(to, part)}[{' + '.join(terms)}]"


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
    TileContract: write_contract,
    TileCopy: write_copy,
    TileEach: write_each,
    TileFill: write_fill,
    TileGather: write_gather,
    TileLoop: write_loop,
    TileMap: write_map,
    TileMma: write_mma,
    TileOnly: write_only,
    TilePad: write_pad,
    TileReduce: write_reduce,
    TileRegisters: write_registers,
    TileRotate: write_rotate,
    TileShared: write_shared,
    TileSync: write_sync,
    TileText: write_text,
}
"""Statement -> what writes it."""
