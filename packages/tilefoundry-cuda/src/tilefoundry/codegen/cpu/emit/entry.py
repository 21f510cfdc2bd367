"""The host entry: declaration tables, checks, workspace, launches, export."""

from __future__ import annotations

from dataclasses import dataclass

from tilefoundry.codegen.cpu.emit.scalars import dim_text, dtype_name
from tilefoundry.codegen.cpu.emit.statements import StatementEmitter, quoted, write_range
from tilefoundry.codegen.identifiers import mangle
from tilefoundry.codegen.writer import Writer
from tilefoundry.ir.core.expr import Var
from tilefoundry.ir.passes import linear_in
from tilefoundry.ir.tir import DispatchCall, PrimFunction, Slab, TirStmt
from tilefoundry.ir.types import Dim, DimVar, DType, TensorType, dim_vars

__all__ = ["EntryEmitter"]

_CODES = {
    "f32": ("kDLFloat", 32),
    "f16": ("kDLFloat", 16),
    "f64": ("kDLFloat", 64),
    "bf16": ("kDLBfloat", 16),
    "fp8e4m3": ("kDLFloat8_e4m3fn", 8),
    "fp8e5m2": ("kDLFloat8_e5m2", 8),
    "f8e8m0": ("kDLFloat8_e8m0fnu", 8),
    "f4e2m1": ("kDLUInt", 8),
    "i8": ("kDLInt", 8),
    "i16": ("kDLInt", 16),
    "i32": ("kDLInt", 32),
    "i64": ("kDLInt", 64),
    "u8": ("kDLUInt", 8),
    "bool": ("kDLBool", 8),
}


@dataclass(slots=True)
class EntryEmitter:
    """Writes the entry of a library.

    Attributes:
        out: where to.
        entry: the host function; outputs are its trailing parameters.
        labels: how callers name the parameters, in order.
        device: where tensors must lie, as DLPack names it.
        inplace: (output, input) pairs for which one tensor may be passed as both.
        range: under which name profilers show a call; None: under none.
    """

    out: Writer
    entry: PrimFunction
    labels: tuple[str, ...]
    device: str = "kDLCPU"
    inplace: tuple[tuple[int, int], ...] = ()
    range: str | None = None

    def write(self) -> None:
        """Tables, the checked function, and its export under the entry's name."""
        self._tables()
        self.out.line()
        with self.out.block("void entry_function(host::Arguments const& arguments_) {"):
            if self.range is not None:
                write_range(self.out, self.range)
            self._bindings()
            self._body(self.entry.body)
        self.out.line()
        self.out.line("}  // namespace")
        self.out.line("}  // namespace tilefoundry")
        self.out.line()
        self.out.line(f"TVM_FFI_DLL_EXPORT_TYPED_FUNC({self.entry.name}, tilefoundry::entry_function);")

    def _variables(self) -> tuple[DimVar, ...]:
        found: dict[DimVar, None] = {}
        for param in self.entry.params:
            for dim in _shape(param):
                found.update(dict.fromkeys(dim_vars(dim)))
        return tuple(found)

    def _tables(self) -> None:
        order = {var.name: i for i, var in enumerate(self._variables())}
        for i, param in enumerate(self.entry.params):
            codes = ", ".join(_extent_code(dim, order) for dim in _shape(param)) or "0"
            self.out.line(f"constexpr std::int64_t dims_{i}_[] = {{{codes}}};")
        with self.out.block("constexpr host::Param params_[] = {", "};"):
            for i, (param, label) in enumerate(zip(self.entry.params, self.labels, strict=True)):
                code, bits = _CODES[_dtype(param).name]
                rank = len(_shape(param))
                self.out.line(
                    f"{{{quoted(label)}, {quoted(str(param.type))}, {code}, {bits}, {rank}, dims_{i}_}},"
                )
        self._variable_table()
        name = quoted(self.entry.name)
        count, outputs, variables = len(self.entry.params), self.entry.output_count, len(order)
        table = "variables_" if variables else "nullptr"
        pairs = "nullptr"
        if self.inplace:
            pairs = "inplace_"
            listed = ", ".join(f"{{{output}, {source}}}" for output, source in self.inplace)
            self.out.line(f"constexpr int inplace_[][2] = {{{listed}}};")
        self.out.line(
            f"constexpr host::Declaration declaration_ = {{{name}, params_, {count}, {outputs}, {table}, "
            f"{variables}, {pairs}, {len(self.inplace)}, {self.device}}};"
        )

    def _variable_table(self) -> None:
        variables = self._variables()
        if not variables:
            return
        with self.out.block("constexpr host::Variable variables_[] = {", "};"):
            for var in variables:
                self.out.line(f"{{{quoted(var.name)}, {var.lo}, INT64_C({var.hi})}},")

    def _bindings(self) -> None:
        count, variables = len(self.entry.params), self._variables()
        self.out.line(f"void* data_[{count}];")
        self.out.line(f"DLTensor const* tensors_[{count}];")
        self.out.line(f"std::int64_t extents_[{max(len(variables), 1)}];")
        self.out.line(f"int bound_by_[{max(len(variables), 1)}];")
        self.out.line("const host::Bound bound_{data_, tensors_, extents_};")
        self.out.line(
            "host::bind_arguments(declaration_, arguments_.values, arguments_.count, bound_, bound_by_);"
        )
        for i, var in enumerate(variables):
            self.out.line(f"const index_t {mangle(var.name)} = {self._extent_of(var, i)};")
        self._computed_extents()
        self.out.line("if (host::nothing_to_write(declaration_, bound_)) return;")
        first_output = count - self.entry.output_count
        for i, param in enumerate(self.entry.params):
            const = "" if i >= first_output else "const "
            kind = f"{const}{dtype_name(_dtype(param))}*"
            self.out.line(f"{kind} const {mangle(param.name)} = static_cast<{kind}>(data_[{i}]);")

    def _extent_of(self, var: DimVar, slot: int) -> str:
        """Where the variable's value comes from: a shape that it is an extent of, or one that it is a part of."""
        shapes = [
            (i, axis, dim) for i, p in enumerate(self.entry.params) for axis, dim in enumerate(_shape(p))
        ]
        if any(dim == var for _, _, dim in shapes):
            return f"extents_[{slot}]"
        for i, axis, dim in shapes:
            found = linear_in(dim, var)
            if found is not None:
                return (
                    f"host::solve_extent(declaration_, bound_, {slot}, {i}, {axis}, {found[0]}, {found[1]})"
                )
        raise AssertionError(f"lowering lets no extent through that no shape tells, yet {var.name} is one")

    def _computed_extents(self) -> None:
        for i, param in enumerate(self.entry.params):
            for axis, dim in enumerate(_shape(param)):
                if not isinstance(dim, (int, DimVar)):
                    self.out.line(
                        f"host::check_extent(declaration_, bound_, {i}, {axis}, {dim_text(dim, {})});"
                    )

    def _body(self, stmts: tuple[TirStmt, ...]) -> None:
        emitter = self._statements()
        for stmt in stmts:
            if isinstance(stmt, Slab):
                self._slab(stmt)
            elif isinstance(stmt, DispatchCall):
                self._dispatch(stmt)
            else:
                emitter.stmts((stmt,))

    def _statements(self) -> StatementEmitter:
        return StatementEmitter(self.out, {})

    def _device(self) -> str:
        return f"DLDevice{{{self.device}, 0}}"

    def _slab(self, slab: Slab) -> None:
        offset = "0"
        for i, sizes in enumerate(slab.slots):
            self.out.line(f"const index_t slot{i}_ = {offset};")
            size = dim_text(sizes[0], {})
            for other in sizes[1:]:
                size = f"host::larger({size}, {dim_text(other, {})})"
            offset = f"slot{i}_ + host::padded({size})"
        self.out.line(f"const host::Slab slab_({offset}, {self._device()});")
        for buffer, slot in slab.buffers:
            kind = dtype_name(_dtype(buffer))
            self.out.line(f"{kind}* const {mangle(buffer.name)} = slab_.at<{kind}>(slot{slot}_);")

    def _dispatch(self, stmt: DispatchCall) -> None:
        subject = mangle(stmt.subject.name)
        for pattern, body in stmt.alternatives:
            with self.out.block(f"if ({subject} >= {pattern.lo} && {subject} < {pattern.hi}) {{"):
                self._body(body)
                self.out.line("return;")
        message = quoted(f"{self.entry.name}: no variant covers the value of {stmt.subject.name}")
        self.out.line(f'host::fail("ValueError", {message});')


def _shape(param: Var) -> tuple[Dim, ...]:
    assert isinstance(param.type, TensorType)
    return param.type.shape


def _dtype(param: Var) -> DType:
    assert isinstance(param.type, TensorType)
    return param.type.dtype


def _extent_code(dim: Dim, order: dict[str, int]) -> str:
    if isinstance(dim, int):
        return f"INT64_C({dim})"
    return str(-1 - order[dim.name]) if isinstance(dim, DimVar) else "host::computed_extent"
