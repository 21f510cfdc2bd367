"""CUDA text of statements in which elements meet: reductions, products, gathers."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from tilefoundry.codegen.cpu.emit.scalars import dtype_name
from tilefoundry.codegen.cuda.source.parts import (
    at_index,
    base,
    dot,
    inside,
    layout_text,
    row_major_text,
    shard_text,
    unrolled,
    view_text,
)
from tilefoundry.codegen.cuda.source.tiles import write_copy
from tilefoundry.codegen.cuda.tiles import (
    Part,
    TileContract,
    TileCopy,
    TileGather,
    TileMma,
    TilePad,
    TileReduce,
    dtype_of,
    element,
)
from tilefoundry.ir.types import DimVar
from tilefoundry.ir.types.dim import product

if TYPE_CHECKING:
    from tilefoundry.codegen.cuda.source.statements import DeviceEmitter

__all__ = ["JOIN_WRITERS"]


def write_pad(to: DeviceEmitter, stmt: TilePad) -> None:
    """The identity where an element is not there."""
    kind = dtype_name(dtype_of(stmt.target.buffer))
    value = f"ops::{stmt.op}_op::template identity<accumulate_t<{kind}>>()"

    def identity(parts: list[Part]) -> None:
        to.out.line(f"auto none_ = {view_text(to, parts[0])};")
        to.out.line(f"ops::fill(none_, {value});")

    with to.out.block("{"), inside(to, [stmt.target], identity):
        to.out.comment("elements that are there stay")


def write_reduce(to: DeviceEmitter, stmt: TileReduce) -> None:
    """A fold of the instance's own elements, or a join over threads with its workspace."""
    axes = f"ops::axes<{', '.join(map(str, stmt.axes))}>"
    op = f"ops::{stmt.op}_op"
    with to.out.block("{"):
        to.out.line(f"auto into_ = {view_text(to, replace(stmt.target, limits=()))};")
        if stmt.fragment is None:
            to.out.line(f"auto const own_ = {view_text(to, replace(stmt.source, limits=()))};")
            to.out.line(f"ops::reduce<{op}, {axes}>(own_, into_);")
            return
        layout = stmt.fragment.layout
        flat = f"cute::make_layout(cute::Int<{product(stmt.source.shape)}>{{}})"
        own = f"cute::make_tensor({base(to, stmt.source)} + ({to.dim(stmt.source.offset)}), {flat})"
        to.out.line(f"using Parts_ = {layout_text(layout.shape, layout.strides or ())};")
        shard = shard_text("Parts_", stmt.fragment)
        to.out.line(
            f"auto const parts_ = make_shard_tensor({own}, {row_major_text(layout.shape)}{{}}, {shard});"
        )
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
    with unrolled(to, stmt.target.shape, 0):
        to.out.line(f"{wide} sum_ = {wide}(0);")
        with unrolled(to, stmt.depth, rank):
            factors = [
                f"convert<{wide}>({base(to, part)}[{to.dim(part.offset + dot(part.strides, 0))}])"
                for part in (stmt.lhs, stmt.rhs)
            ]
            to.out.line(f"sum_ += {' * '.join(factors)};")
        place = stmt.target.offset + dot(stmt.target.strides, 0)
        to.out.line(f"{base(to, stmt.target)}[{to.dim(place)}] = convert<{kind}>(sum_);")


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
            parts = [at_index(part, mode, index) for part in parts]
        table, numbers, target = parts
        number = f"index_t({base(to, numbers)}[{to.dim(numbers.offset)}])"
        row = DimVar("row_", 0, 2**62)
        check = f'IndexFault{{"index_select"}}.bounded({number}, {to.dim(stmt.extent)})'
        to.out.line(f"const index_t {to.dim(row)} = {check};")
        table = replace(table, offset=table.offset + product((row, stmt.step)), limits=target.limits)
        write_copy(to, TileCopy(table, target))


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
        sums = base(to, stmt.sums)
        places = [f"{sums}[(2 * i_ + {s // 2}) * {rows} + j_ * {columns} + {s % 2}]" for s in range(4)]
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
    return f"{base(to, part)}[{' + '.join(terms)}]"


JOIN_WRITERS: dict[type, Callable[[Any, Any], None]] = {
    TileContract: write_contract,
    TileGather: write_gather,
    TileMma: write_mma,
    TilePad: write_pad,
    TileReduce: write_reduce,
}
"""Statement -> what writes it."""
