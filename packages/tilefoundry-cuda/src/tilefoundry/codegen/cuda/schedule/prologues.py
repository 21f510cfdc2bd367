"""Operands of a product that are computed while they are read: when that pays, and what is written for them."""

from __future__ import annotations

from tilefoundry.codegen.cpu.nest import Nest, is_matmul
from tilefoundry.codegen.cpu.schedule.phases import coordinates
from tilefoundry.codegen.cpu.schedule.plan import Access, Loop, Plan, sample
from tilefoundry.codegen.cpu.schedule.scope import Scope, index_var
from tilefoundry.codegen.cuda.schedule.packs import PackScope, PackTable
from tilefoundry.codegen.cuda.statements import BYTES, PackByte, PackedOperand
from tilefoundry.ir.core.expr import Call, Expr, Var
from tilefoundry.ir.passes import Names
from tilefoundry.ir.tir import SCALAR_OPS, Apply, compute_dtype
from tilefoundry.ir.types import Dim, DimVar, DType, TensorType, scalar
from tilefoundry.ir.types.dim import product

__all__ = ["are_halves", "packed_operand", "prologue_refusal", "takes_few"]

FEW_ROWS = 8
"""So few rows read every right element once for all of them."""

_FEW_HALVES = 32
"""The same where `mma.sync` multiplies them."""

_TILE = 64
"""Rows of the smallest tile, for which a right element is computed once."""

_AGAIN = 32
"""Scalar operations per element of k, over all rows, that every few columns may repeat while weights arrive."""

_ACCESSBYTES = 16
_NARROW = (DType.bool_, DType.i8, DType.u8, DType.fp8e4m3, DType.fp8e5m2, DType.f4e2m1)
"""Types whose every value is one of the 16-bit floats too."""


def prologue_refusal(nest: Nest) -> str | None:
    """Why a product had better read from memory an operand that it could compute; None where computing pays.

    Right operands are taken where rows are so few that weights are read once for all of them; left ones where also
    their ops are so cheap that computing them again for every few columns costs less than a kernel.
    """
    return next(filter(None, (_refused(nest, position, chain) for position, chain in nest.prologues)), None)


def takes_few(nest: Nest) -> bool:
    """Whether all rows of the nest's product share what is read and computed of its right operand."""
    rows = nest.extents[-2]
    return isinstance(rows, int) and rows <= (_FEW_HALVES if are_halves(nest) else FEW_ROWS)


def are_halves(nest: Nest) -> bool:
    """Whether the factors of the nest's product are of one 16-bit type."""
    root = next(bind for bind in nest.binds if is_matmul(bind))
    left, right = (arg.type.dtype for arg in root.value.args)  # type: ignore[attr-defined]  # tensors
    return left is right and left in (DType.f16, DType.bf16)


def _refused(nest: Nest, position: int, chain: Nest) -> str | None:
    rows, columns = nest.extents[-2:]
    side, apart = ("left", "right")[position], f"apart it costs {_passed(chain)} bytes, and each element once"
    shared = _sharing(nest, chain)
    if shared != 1:
        return f"its {side} operand would be computed by each of the {shared} matrices that share it; {apart}"
    if position == 1:
        if takes_few(nest):
            return None
        times = f"for every {_TILE} of {rows} rows"
        return f"its right operand would be computed {times}; {apart}"
    cost = _cost(chain)
    if isinstance(rows, int) and rows <= FEW_ROWS and rows * cost <= _AGAIN:
        return None
    work = f"{cost} operations for each of {rows} rows"
    return f"its left operand, {work}, would be computed again for every few of {columns} columns; {apart}"


def _sharing(nest: Nest, chain: Nest) -> Dim:
    """How many matrices of the product have the same operand."""
    batches, own = nest.extents[:-2], chain.extents[:-2]
    lead = len(batches) - len(own)
    return product(dim for i, dim in enumerate(batches) if dim != 1 and (i < lead or own[i - lead] == 1))


def _passed(chain: Nest) -> Dim:
    """Bytes of the operand that are written and read where it is a kernel's result."""
    type_ = chain.binds[-1].target.type
    assert isinstance(type_, TensorType)
    return product((2, type_.size, type_.dtype.itemsize))


def _cost(chain: Nest) -> int:
    ops = [bind.value.op.name for bind in chain.binds if isinstance(bind.value, Call)]
    return sum(SCALAR_OPS[op].cost for op in ops if op in SCALAR_OPS)


def packed_operand(plan: Plan, chain: Nest, names: Names, faults: dict[str, Var]) -> PackedOperand:
    """What ``plan``'s product reads and computes for the operand of one of its prologues."""
    own = Plan(chain, plan.views, ())
    rank, axis = len(chain.extents), _followed(own)
    batch, other, first, slot, element = (
        DimVar(names.fresh(name), 0, 2**62) for name in ("batch", "other", "first", "slot", "element")
    )
    table = PackTable(axis, first, slot, False)
    head = Scope(own, names, {}, faults=faults)
    head.coords = {**_batch_places(plan, chain, batch, head), 2 * rank - 3 - axis: other}
    body = _ChainScope(own, names, {**head.coords, axis: element}, head, faults=faults)
    body.table = table
    value = body.value(chain.binds[-1].target)
    type_ = chain.binds[-1].target.type
    assert isinstance(type_, TensorType)
    wanted = _width(table, chain.extents[axis])
    return PackedOperand(
        type=type_,
        batch=index_var(batch.name),
        other=index_var(other.name),
        first=index_var(first.name),
        slot=index_var(slot.name),
        element=index_var(element.name),
        axis=axis - (rank - 2),
        head=tuple(head.stmts),
        loads=tuple(table.loads),
        body=tuple(body.stmts),
        value=value,
        width=wanted,
        packs=tuple((buffer, offset) for (_, offset), buffer in table.checks.items()),
        multiples=tuple(dim for dim in table.multiples if not (isinstance(dim, int) and dim % wanted == 0)),
    )


def _followed(plan: Plan) -> int:
    """The axis, of the last two, along which most of what is read lies side by side."""
    rank = len(plan.nest.extents)
    accesses = plan.accesses()
    lead = max(accesses, key=_size, default=None)
    return (
        rank - 2
        if lead is not None and lead.stride(rank - 1) != 1 and lead.stride(rank - 2) == 1
        else rank - 1
    )


def _size(access: Access) -> int:
    live = [dim for axis, dim in zip(access.axes, access.view.shape, strict=True) if axis is not None]
    return sample(product(live))


def _batch_places(plan: Plan, chain: Nest, batch: DimVar, head: Scope) -> dict[int, Dim]:
    """Coordinates of the operand's leading axes from the number of the matrix."""
    rank, own = len(plan.nest.extents), len(chain.extents)
    if all(dim == 1 for dim in chain.extents[:-2]):
        return {}
    loops = tuple(Loop(axis, plan.nest.extents[axis]) for axis in range(rank - 2))
    coords, lets = coordinates(batch, loops, head)
    head.stmts.extend(lets)
    return {axis - (rank - own): at for axis, at in coords.items() if axis >= rank - own}


def _width(table: PackTable, extent: Dim) -> int:
    """Elements of a pack: 16 bytes of what is read once, and as extents allow."""
    sizes = [pack.buffer.type.dtype.itemsize for pack in table.loads if pack.once]  # type: ignore[attr-defined]  # tensors
    width = max(int(_ACCESSBYTES // max(min(sizes, default=_ACCESSBYTES), 1)), 1)
    fixed = [dim for dim in (extent, *table.multiples) if isinstance(dim, int)]
    while width > 1 and any(dim % width for dim in fixed):
        width //= 2
    return width if table.checks else 1


class _ChainScope(PackScope):
    """A scope in which casts that lose nothing do not round, and bytes of packs become floats without conversions."""

    __slots__ = ()

    def _computed(self, atom: Var) -> Expr:
        call = self.plan.call(atom.name)
        source = call.args[0].type if call.args else None
        if call.op.name != "cast" or not isinstance(source, TensorType):
            return PackScope._computed(self, atom)
        kind = compute_dtype(call.attr("dtype"))
        if call.attr("dtype") is not kind and not _keeps_all(source.dtype, call.attr("dtype")):
            return PackScope._computed(self, atom)
        pack = self._bytes(atom.name) if source.dtype in BYTES and kind is DType.f32 else None
        if pack is not None:
            return PackByte(scalar(kind), pack, self._place())
        value = self._operand(atom.name, 0)
        assert isinstance(value.type, TensorType)
        return (
            value if value.type.dtype is kind else Apply(scalar(kind), "cast", (value,), (("dtype", kind),))
        )

    def _bytes(self, name: str) -> Var | None:
        """The registers of the pack whose elements the cast ``name`` takes; None where they come one by one."""
        source = self.plan.call(name).args[0]
        if not isinstance(source, Var) or source.name in self.plan.binds:
            return None
        view, axes = self.plan.views[source.name], self.plan.read_map(name, 0)
        return self._loaded((source.name, axes, 0), view, axes, 0) if self._packs(view, axes) else None


def _keeps_all(source: DType, target: DType) -> bool:
    """Whether every value of ``source`` is one of the 16-bit float ``target``."""
    return target in (DType.f16, DType.bf16) and source in _NARROW
