"""Text of one ``ops::matmul`` call over right operands that share a pass, or operands that are computed."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

from tilefoundry.codegen.cpu.emit.scalars import dtype_name
from tilefoundry.codegen.cuda.source.matmul import extent_text, operand_text
from tilefoundry.codegen.cuda.statements import BYTES, Pack, PackedOperand, TileProducts
from tilefoundry.ir.core.expr import Expr, Var
from tilefoundry.ir.tir import Apply, BufferView, Load, Operand, Prologue, compute_dtype
from tilefoundry.ir.types import Dim, DimVar, TensorType
from tilefoundry.ir.types.dim import DimExpr, product

if TYPE_CHECKING:
    from tilefoundry.codegen.cuda.source.statements import DeviceEmitter

__all__ = ["register_name", "runs_along_the_first", "write_products"]


def write_products(to: DeviceEmitter, stmt: TileProducts) -> None:
    """Operands as gmem tensors or functions of their indices, the extents as a tensor without memory, the call with
    its epilogue."""
    out = to.out
    _write_operand(to, "a_", stmt.lhs, stmt, (stmt.rows, stmt.depth), False)
    names = [f"b{i}_" for i in range(len(stmt.rhs))]
    for name, operand in zip(names, stmt.rhs, strict=True):
        _write_operand(to, name, operand, stmt, (stmt.depth, stmt.columns), True)
    out.line(f"auto const right_ = ops::right_operands({', '.join(names)});")
    modes = [extent_text(to, stmt.rows), extent_text(to, stmt.columns)]
    if stmt.batches:
        modes.insert(0, f"index_t({to.dim(product(stmt.batches))})")
    steps = ", ".join(["cute::_0{}"] * len(modes))
    layout = f"cute::make_layout(cute::make_shape({', '.join(modes)}), cute::make_stride({steps}))"
    out.line(f"auto place_ = as_gmem(static_cast<char*>(nullptr), {layout});")
    rows, columns = (dim if isinstance(dim, int) else 0 for dim in (stmt.rows, stmt.columns))
    sizes = f"decltype(a_), decltype(right_), {stmt.threads}, {rows}, {columns}"
    out.line(f"constexpr int bytes_ = ops::group_workspace_bytes<{sizes}>();")
    out.line("alignas(16) __shared__ unsigned char workspace_[bytes_];")
    with out.block("auto const store_ = [&](int matrix_, int row_, int column_, auto const& sums_) {", "};"):
        out.line(f"[[maybe_unused]] const index_t {to.name(stmt.batch)} = matrix_;")
        for place, value in ((stmt.row, "row_"), (stmt.column, "column_")):
            out.line(f"[[maybe_unused]] const index_t {to.name(place)} = {value};")
        for i, total in enumerate(stmt.totals):
            kind = dtype_name(total.type.dtype)  # type: ignore[union-attr]  # a scalar
            out.line(f"[[maybe_unused]] const {kind} {to.name(total)} = {kind}(sums_.value[{i}]);")
        to.stmts(stmt.head)
        to.stmts(stmt.body)
    out.line("ops::matmul(a_, right_, place_, workspace_, store_);")


def _write_operand(
    to: DeviceEmitter,
    name: str,
    operand: Operand | PackedOperand,
    stmt: TileProducts,
    extents: tuple[Dim, Dim],
    once: bool,
) -> None:
    """``once``: an element is read by one thread alone."""
    if isinstance(operand, PackedOperand):
        _write_packed(to, name, operand, extents, once)
        return
    if isinstance(operand, BufferView):
        to.out.line(f"auto {name} = {operand_text(to, operand, stmt.batches)};")
        return
    assert isinstance(operand.type, TensorType)
    kind = dtype_name(operand.type.dtype)
    with to.out.block(f"auto const {name}at_ = [&](int batch_, int first_, int second_) {{", "};"):
        for index, text in _places(to, operand, stmt.batches):
            to.out.line(f"[[maybe_unused]] const index_t {to.name(index)} = {text};")
        to.out.line(f"return convert<{kind}>({to.expr(operand.value)});")
    last = "false" if runs_along_the_first(operand) else "true"
    sizes = ", ".join(f"int({to.dim(dim)})" for dim in extents)
    to.out.line(f"auto {name} = ops::computed<{kind}, {last}>({sizes}, {name}at_);")


def _write_packed(
    to: DeviceEmitter, name: str, operand: PackedOperand, extents: tuple[Dim, Dim], once: bool
) -> None:
    """What a pack is computed from is read by the outer function, each of its elements computed by the inner one."""
    out, kind = to.out, dtype_name(compute_dtype(operand.type.dtype))
    unused = "[[maybe_unused]]"
    params = f"auto width_, {unused} auto here_, {unused} int batch_, int first_, int second_"
    head = f"auto const {name}at_ = [&]({params}) {{"
    with out.block(head, "};"):
        out.line("[[maybe_unused]] constexpr int V_ = decltype(width_)::value;")
        places = ("second_", "first_") if operand.axis == 0 else ("first_", "second_")
        given = zip((operand.batch, operand.other, operand.first), ("batch_", *places), strict=True)
        for index, text in given:
            out.line(f"[[maybe_unused]] const index_t {to.name(index)} = {text};")
        to.stmts(operand.head)
        _read_packs(to, operand.loads, once)
        slot = to.name(operand.slot)
        with out.block(f"return [=]([[maybe_unused]] int {slot}) {{", "};"):
            element = f"{to.name(operand.first)} + {slot}"
            out.line(f"[[maybe_unused]] const index_t {to.name(operand.element)} = {element};")
            to.stmts(operand.body)
            out.line(f"return {kind}({to.expr(operand.value)});")
    checks = [to.aligned(buffer, offset, operand.width) for buffer, offset in operand.packs]
    checks += [f"({to.dim(dim)}) % {operand.width} == 0" for dim in operand.multiples]
    wide = " && ".join(checks) if operand.width > 1 else ""
    sizes = ", ".join(f"int({to.dim(dim)})" for dim in extents)
    kinds = f"{dtype_name(operand.type.dtype)}, {'true' if operand.axis == 1 else 'false'}, {operand.width}"
    out.line(f"auto {name} = ops::computed_packs<{kinds}>({sizes}, {wide or 'true'}, {name}at_);")


def register_name(var: Var) -> str:
    """The registers that hold a pack."""
    return var.name.replace(".", "") + "_"


def _read_packs(to: DeviceEmitter, packs: Iterable[Pack], once: bool) -> None:
    """Packs from memory, those of bytes in words."""
    for pack in packs:
        assert isinstance(pack.name.type, TensorType) and isinstance(to.names, dict)
        kind, name = pack.name.type.dtype, register_name(pack.name)
        to.names[pack.name.name] = f"{name}.value"
        type_ = f"detail::{'BytePack' if kind in BYTES else 'Pack'}<{dtype_name(kind)}, V_>"
        place = f"reinterpret_cast<{type_} const*>({to.name(pack.buffer)} + {to.dim(pack.index)})"
        value = f"detail::load_pack<decltype(here_)::value>({place})" if once and pack.once else f"*{place}"
        to.out.line(f"const {type_} {name} = {value};")


def _places(to: DeviceEmitter, operand: Prologue, batches: tuple[Dim, ...]) -> list[tuple[Any, str]]:
    """The operand's indices from the number of the matrix and the two of an element; extent-1 leading axes repeat."""
    assert isinstance(operand.type, TensorType)
    *lead, first, second = operand.indices
    shape = operand.type.shape[: len(lead)]
    found = [(first, "first_"), (second, "second_")]
    below: Dim = 1
    own = list(zip(lead, shape, strict=True))
    for extent in reversed(batches):
        if not own:
            break
        index, width = own.pop()
        quotient = "batch_" if below == 1 else f"batch_ / ({to.dim(below)})"
        found.append((index, "0" if width == 1 else f"{quotient} % ({to.dim(extent)})"))
        below = product((below, extent))
    return found


def runs_along_the_first(operand: Prologue) -> bool:
    """Whether what is read for neighbours along the first of the two indices lies side by side."""
    first, second = (index.name for index in operand.indices[-2:])
    steps = [_step(load.index, first) for load in _loads(operand.value) if _step(load.index, second) != 1]
    return 1 in steps


def _loads(value: Expr) -> Iterator[Load]:
    if isinstance(value, Load):
        yield value
    elif isinstance(value, Apply):
        for arg in value.args:
            yield from _loads(arg)


def _step(index: Dim, name: str) -> int | None:
    """Distance of elements along an index; None where it is not a number."""
    if isinstance(index, DimVar):
        return int(index.name == name)
    if not isinstance(index, DimExpr):
        return 0
    for monomial, coefficient in index.terms:
        if len(monomial) == 1 and isinstance(monomial[0], DimVar) and monomial[0].name == name:
            return coefficient
    return None
