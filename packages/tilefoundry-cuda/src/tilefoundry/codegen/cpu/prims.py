"""A module whose entry is a ``@prim_func``: a kernel as it stands; what has no meaning on a CPU is refused."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from tilefoundry.codegen.cpu.emit.tile_calls import TILE_CALLS
from tilefoundry.codegen.cpu.views import contiguous_strides
from tilefoundry.ir.core.expr import Expr, Var
from tilefoundry.ir.core.module import Module
from tilefoundry.ir.errors import LoweringError, UnsupportedError
from tilefoundry.ir.hir.function import Function
from tilefoundry.ir.passes import PARAM_PATHS, Pass, is_solvable
from tilefoundry.ir.tir import (
    Accumulate,
    BufferView,
    Evaluate,
    For,
    Guard,
    If,
    IndexValue,
    Launch,
    MeshScope,
    Parallel,
    PointerOf,
    PrimFunction,
    TileAttention,
    TileContraction,
    TirStmt,
    While,
    walk_tir,
)
from tilefoundry.ir.types import Dim, DimVar, DType, TensorType, dim_vars, scalar
from tilefoundry.ir.types.dim import product

__all__ = ["LowerPrims", "OnFunctions", "lower_statements"]


@dataclass(frozen=True, slots=True)
class OnFunctions:
    """``inner`` for modules whose entry is an HIR function; statement-level modules stay as they are."""

    inner: Pass

    def run(self, module: Module) -> Module:
        """``module`` after ``inner``, or as it is."""
        return self.inner.run(module) if isinstance(module.entry_function(), Function) else module


@dataclass(frozen=True, slots=True)
class LowerPrims:
    """Before: any module. After: where the entry is a PrimFunction, its kernels and a host that launches them.

    An entry without launches is itself the kernel. Mesh scopes are opened: one instance does everything.

    Raises:
        UnsupportedError: a statement that only a GPU gives a meaning, by name, with what to write instead.
    """

    def run(self, module: Module) -> Module:
        """``module``, lowered where it consists of statements."""
        entry = module.entry_function()
        if not isinstance(entry, PrimFunction):
            return module
        _check_extents(entry)
        launches = [stmt for stmt in walk_tir(entry.body) if isinstance(stmt, Launch)]
        if launches:
            known = {name: _callee(module, name) for name in dict.fromkeys(one.callee for one in launches)}
            kernels = tuple(_kernel(function) for function in known.values())
            body = tuple(_host(stmt, entry, known) for stmt in entry.body)
        else:
            inner = replace(entry, name=f"k0_{entry.name}", output_count=0)
            kernels = (_kernel(inner),)
            body = (Launch(inner.name, (*entry.params, *_extents(entry))),)
        metadata = {**module.metadata, PARAM_PATHS: tuple(param.name for param in entry.params)}
        host = replace(entry, body=body)
        return Module(
            module.name, (*kernels, host), host.name, (), module.target, module.topologies, metadata
        )


def _callee(module: Module, path: str) -> PrimFunction:
    """What a launch starts, a function of the module or of a child, under a name of its own."""
    *children, name = path.split(".")
    for child in children:
        module = module.child(child)
    function = module.lookup(name)
    assert isinstance(function, PrimFunction), "the front end launches statement-level functions alone"
    return replace(function, name=path.replace(".", "_"))


def _check_extents(entry: PrimFunction) -> None:
    shapes = [dim for param in entry.params for dim in _shape(param)]
    for var in _variables(entry):
        if not any(is_solvable(dim, var) for dim in shapes):
            raise LoweringError(
                f"{entry.name}: no parameter's shape tells {var.name}; add a parameter with that extent"
            )


def lower_statements(function: PrimFunction) -> PrimFunction:
    """The kernel of a ``@prim_func`` that a tensor program calls.

    Raises:
        UnsupportedError: a statement that only a GPU gives a meaning, by name.
    """
    return _kernel(replace(function, output_count=0))


def _kernel(function: PrimFunction) -> PrimFunction:
    """The kernel with its extents as parameters, after its buffers, as every kernel has them."""
    extents = tuple(Var(scalar(DType.i64), var.name, is_const=True) for var in _variables(function))
    return replace(function, params=(*function.params, *extents), body=_checked(function.name, function.body))


def _host(stmt: TirStmt, entry: PrimFunction, known: dict[str, PrimFunction]) -> TirStmt:
    """A launch as a call: there is one instance, so a grid or a block of several has no meaning."""
    if not isinstance(stmt, Launch):
        raise UnsupportedError(
            f"{entry.name}: a {type(stmt).__name__} stands beside launches; on the cpu target an entry that launches "
            "does nothing else: put it into a @prim_func of its own and launch that"
        )
    if product((*stmt.grid, *stmt.block)) != 1 or stmt.attributes:
        raise UnsupportedError(
            f"{entry.name}: T.launch({stmt.callee}, grid=, block=) starts many instances, and the cpu target has one; "
            "leave grid= and block= out and loop with T.parallel, or compile for cuda"
        )
    callee = known[stmt.callee]
    if len(stmt.args) != len(callee.params) + len(_variables(callee)):
        raise LoweringError(
            f"{entry.name}: T.launch({stmt.callee}) passes {len(stmt.args)} arguments; it takes "
            f"{len(callee.params)} and its extents"
        )
    args = tuple(map(_pointer, stmt.args))
    return replace(stmt, callee=callee.name, grid=(), block=(), args=args)


def _pointer(arg: Expr) -> Expr:
    """A kernel takes where a view begins; its own types say how the elements lie, so that the view must be dense."""
    if not isinstance(arg, BufferView):
        return arg
    assert isinstance(arg.type, TensorType)
    if arg.strides != contiguous_strides(arg.type.shape):
        raise UnsupportedError(
            f"a window of {arg.buffer.name} with gaps is passed to a launch; T.copy it to a buffer of its own first"
        )
    return PointerOf(arg.type, arg.buffer, arg.offset)


def _extents(function: PrimFunction) -> tuple[IndexValue, ...]:
    return tuple(IndexValue.of(var) for var in _variables(function))


def _variables(function: PrimFunction) -> tuple[DimVar, ...]:
    found: dict[DimVar, None] = {}
    for param in function.params:
        for dim in _shape(param):
            found.update(dict.fromkeys(dim_vars(dim)))
    return tuple(found)


def _checked(name: str, stmts: tuple[TirStmt, ...]) -> tuple[TirStmt, ...]:
    """``stmts`` without mesh scopes."""
    out: list[TirStmt] = []
    for stmt in stmts:
        out.extend(_one(name, stmt))
    return tuple(out)


def _one(name: str, stmt: TirStmt) -> Iterator[TirStmt]:
    if isinstance(stmt, MeshScope):
        yield from _checked(name, stmt.body)
    elif isinstance(stmt, If):
        yield replace(stmt, then=_checked(name, stmt.then), orelse=_checked(name, stmt.orelse))
    elif isinstance(stmt, (For, Parallel, While, Guard)):
        yield replace(stmt, body=_checked(name, stmt.body))
    else:
        _refuse(name, stmt)
        yield stmt


_WAY_OUT = {
    "sync": "one instance does everything, so leave it out",
    "copy_async": "use T.copy",
    "cp_async_commit": "use T.copy, and leave it out",
    "cp_async_wait": "use T.copy, and leave it out",
    "mma": "write the product as x @ y in a @func",
    "insert_window": "use T.copy to the window",
}


def _refuse(name: str, stmt: TirStmt) -> None:
    if isinstance(stmt, (TileContraction, TileAttention)):
        tile = "contract" if isinstance(stmt, TileContraction) else "attention"
        raise UnsupportedError(
            f"{name}: T.{tile} is computed by tiles of a GPU, which the cpu target does not have; write it as "
            f"{'x @ y' if tile == 'contract' else 'tf.attention'} in a @func, or compile for cuda"
        )
    if isinstance(stmt, Accumulate) and stmt.kind.value == "mean":
        raise UnsupportedError(
            f"{name}: the accumulator {stmt.target.name} of kind mean knows no count; use sum and divide"
        )
    if isinstance(stmt, Evaluate) and stmt.op not in TILE_CALLS:
        way = _WAY_OUT.get(stmt.op, "write it with loops, or in a @func")
        raise UnsupportedError(
            f"{name}: T.{stmt.op} is not compiled for the cpu target: {way}, or compile for cuda"
        )


def _shape(value: Expr) -> tuple[Dim, ...]:
    return value.type.shape if isinstance(value.type, TensorType) else ()
