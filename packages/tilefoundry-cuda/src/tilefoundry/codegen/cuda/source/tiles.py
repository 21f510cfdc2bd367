"""CUDA text of hand-placed kernels: shard tensors and one ``ops::`` call per op."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

from tilefoundry.codegen.cpu.emit.scalars import dtype_name, literal
from tilefoundry.codegen.cuda.tiles import MeshValue, TileAlloc, TileCopy, TileMap, TileReduce, dtype_of
from tilefoundry.ir.core.expr import Constant, Var
from tilefoundry.ir.types import TensorType
from tilefoundry.ir.types.dim import product
from tilefoundry.ir.types.shard import Partial, ShardLayout, Split

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


def write_mesh(to: DeviceEmitter, stmt: MeshValue) -> None:
    """``auto const m = make_mesh<levels...>(layout)``."""
    levels = ", ".join(f"TopologyScope::{name}" for name in stmt.mesh.level_names)
    layout = _layout(stmt.mesh.layout.shape, stmt.mesh.layout.settled)
    to.out.line(f"auto const {stmt.name}_ = make_mesh<{levels}>({layout}{{}});")


def write_alloc(to: DeviceEmitter, stmt: TileAlloc) -> None:
    """Registers as a shard tensor; the global layout is the value's logical shape."""
    name, layout = to.name(stmt.target), stmt.layout
    assert isinstance(stmt.target.type, TensorType) and layout.strides is not None
    size = product(layout.local_shape)
    strides = _register_strides(layout)
    attrs = ", ".join(_attr(attr) for attr in layout.attrs)
    kind = dtype_name(dtype_of(stmt.target))
    to.out.comment(f"{stmt.target.name}: {stmt.target.type}")
    to.out.line(f"using {name}_layout_ = {_layout(layout.shape, strides)};")
    to.out.line(f"using {name}_global_ = {_row_major(stmt.target.type.shape)};")
    shard = f"make_shard_layout({name}_layout_{{}}, cute::tuple<{attrs}>{{}}, {stmt.mesh}_)"
    registers = f"cute::make_tensor<{kind}>(cute::Int<{size}>{{}})"
    to.out.line(f"auto {name} = make_shard_tensor({registers}, {name}_global_{{}}, {shard});")


def _register_strides(layout: ShardLayout) -> tuple[Any, ...]:
    """0 on split axes, the rest row-major over what an instance holds, unless the program says otherwise."""
    if layout.owns_engines:
        return layout.strides  # type: ignore[return-value]  # settled
    strides: list[Any] = [0] * len(layout.shape)
    step = 1
    for axis in reversed(range(len(layout.shape))):
        if axis not in layout.splits:
            strides[axis] = step
            step *= layout.shape[axis]  # type: ignore[assignment]  # static
    return tuple(strides)


def _attr(attr: Any) -> str:
    if isinstance(attr, Split):
        return f"shard::S<{attr.axis}>"
    return f"shard::P<ops::{attr.reduction}_op>" if isinstance(attr, Partial) else "shard::B"


def write_copy(to: DeviceEmitter, stmt: TileCopy) -> None:
    """``copy`` between a distributed value and the whole of it, seen with the canonical shape."""
    buffer, held = (stmt.source, stmt.target) if stmt.buffer_is_source else (stmt.target, stmt.source)
    assert isinstance(held.type, TensorType)
    layout = held.type.layout
    assert layout is not None, f"{held.name} is distributed"
    with to.out.block("{"):
        to.out.line(f"auto whole_ = as_gmem({to.name(buffer)}, {_row_major(layout.shape)}{{}});")
        pair = f"whole_, {to.name(held)}" if stmt.buffer_is_source else f"{to.name(held)}, whole_"
        to.out.line(f"copy({pair});")


def write_map(to: DeviceEmitter, stmt: TileMap) -> None:
    """One call of the family's entry."""
    with to.out.block("{"):
        operands = [_operand(to, operand, i) for i, operand in enumerate(stmt.operands)]
        args = [*([f"ops::{stmt.tag}_op{{}}"] if stmt.tag else []), *operands, to.name(stmt.target)]
        dtype = dtype_of(stmt.target)
        args += [literal(value, dtype) for value in stmt.extra]
        to.out.line(f"ops::{stmt.family}({', '.join(args)});")


def _operand(to: DeviceEmitter, operand: Var | Constant, i: int) -> str:
    if isinstance(operand, Var):
        return to.name(operand)
    dtype = dtype_of(operand)
    kind = dtype_name(dtype)
    value = literal(operand.value, dtype).replace("std::numeric_limits", "stdx::numeric_limits")
    to.out.line(f"const {kind} literal{i}_ = convert<{kind}>({value});")
    return f"cute::make_tensor(&literal{i}_, cute::make_layout(cute::_1{{}}))"


def write_reduce(to: DeviceEmitter, stmt: TileReduce) -> None:
    """A fold of the instance's own elements, or the join of partial values with its workspace."""
    source, target = to.name(stmt.source), to.name(stmt.target)
    axes = f"ops::axes<{', '.join(map(str, stmt.axes))}>"
    op = f"ops::{stmt.op}_op"
    with to.out.block("{"):
        if stmt.folds:
            to.out.line(f"auto const own_ = local({source});")
            to.out.line(f"auto result_ = local({target});")
            to.out.line(f"ops::reduce<{op}, {axes}>(own_, result_);")
            return
        sizes = f"{op}, {axes}, decltype({source}), decltype({target})"
        to.out.line(f"constexpr int bytes_ = ops::reduce_workspace_bytes<{sizes}>();")
        to.out.line("alignas(16) __shared__ unsigned char workspace_[bytes_ > 0 ? bytes_ : 16];")
        to.out.line(f"ops::reduce<{op}, {axes}>({source}, {target}, workspace_);")


TILE_WRITERS: dict[type, Callable[[Any, Any], None]] = {
    MeshValue: write_mesh,
    TileAlloc: write_alloc,
    TileCopy: write_copy,
    TileMap: write_map,
    TileReduce: write_reduce,
}
"""Statement -> what writes it."""
