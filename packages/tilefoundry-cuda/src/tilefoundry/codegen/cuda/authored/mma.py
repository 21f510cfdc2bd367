"""Matrix instructions of one warp: fragments read from wherever the operands lie, sums in distributed registers."""

from __future__ import annotations

from dataclasses import dataclass, replace

from tilefoundry.codegen.cuda.authored.refusal import NotFollowed
from tilefoundry.codegen.cuda.authored.space import Held, Space, mapped_part
from tilefoundry.codegen.cuda.authored.writer import KernelWriter
from tilefoundry.codegen.cuda.tiles import TileMma
from tilefoundry.ir.tir import MMA_ATOMS, MmaAtom
from tilefoundry.ir.types import Dim, DType
from tilefoundry.ir.types.dim import product

__all__ = ["atom_for", "lower_mma"]

_GROUPS, _QUADS = 8, 4
"""A warp's lanes as the instruction numbers them: eight groups of four."""


def atom_for(acc: Held, a: Held, b: Held) -> MmaAtom | None:
    """The instruction for these operands of rank 2, or None where there is none for their types and extents."""
    if not len(acc.shape) == len(a.shape) == len(b.shape) == 2 or a.dtype is not b.dtype:
        return None
    fits = (
        atom
        for atom in MMA_ATOMS.values()
        if (atom.m, atom.n) == (16, 8) and a.dtype in atom.inputs and atom.sums is DType.f32
    )
    atom = next(fits, None)
    extents = (*acc.shape, a.shape[-1])
    if atom is None or not all(isinstance(n, int) for n in extents):
        return None
    wanted = (atom.m, atom.n, atom.k)
    return None if any(n % part for n, part in zip(extents, wanted, strict=True)) else atom


def lower_mma(to: KernelWriter, named: MmaAtom, acc: Held, a: Held, b: Held) -> None:
    """``acc += a @ b``, one instruction per atom's tile.

    Raises:
        NotFollowed: sums that are not distributed as the instruction leaves them, or an atom without fragments here.
    """
    if (named.m, named.n) != (16, 8):
        raise NotFollowed(f"{to.name}: T.mma takes the atoms of 16x8 sums in a CUDA kernel, got {named.name}")
    groups, quads = _lanes(to, acc)
    space, parts = _sums(to, acc, groups, quads)
    pair = 2 if named.k == 16 else 4
    depth = Space((a.shape[-1] // (_QUADS * pair), _QUADS, pair), (None, quads, None))
    rows = Space(
        (*(n for n, _ in parts.around), parts.rows, _GROUPS), (*(p for _, p in parts.around), None, groups)
    )
    left = rows.joined(depth)
    right = depth.joined(Space((parts.columns, _GROUPS), (None, groups)))
    count = len(rows.extents)
    a_part = mapped_part(a, left, [_axes(0, count), _axes(count, count + 3)], f"{to.name}: T.mma")
    b_part = mapped_part(b, right, [(0, 1, 2), (3, 4)], f"{to.name}: T.mma")
    a_part = replace(a_part, shape=a_part.shape[-5:], strides=a_part.strides[-5:])
    to.out.append(TileMma(a.dtype, to.own_part(acc, space), a_part, b_part, pair))


def _axes(start: int, stop: int) -> tuple[int, ...]:
    """Axes from ``start`` up to ``stop``."""
    return tuple(range(start, stop))


@dataclass(frozen=True, slots=True)
class _Pieces:
    """The sums of a warp: pieces of 8 rows and of 8 columns, and the (extent, place) of warps and CTAs around."""

    rows: int
    columns: int
    around: tuple[tuple[Dim, Dim | None], ...]


def _lanes(to: KernelWriter, acc: Held) -> tuple[Dim, Dim]:
    """Coordinates of the lane's group and of its place in it."""
    if acc.layout is None or acc.scope is None or acc.space != "rmem":
        raise _form(to, acc)
    splits = acc.layout.splits
    found = [splits[k] for k in sorted(splits) if k in splits and acc.layout.shape[k] != 1]
    shape = [acc.scope.mesh.layout.shape[a] for a in found[-2:]]
    if len(found) < 2 or shape != [_GROUPS, _QUADS]:
        raise _form(to, acc)
    group, quad = found[-2:]
    strides = dict(zip(acc.scope.axes_of("thread"), _thread_strides(acc), strict=True))
    if strides.get(group) != _QUADS or strides.get(quad) != 1:
        raise _form(to, acc)
    return acc.scope.coordinates[group], acc.scope.coordinates[quad]


def _thread_strides(acc: Held) -> tuple[Dim, ...]:
    assert acc.scope is not None
    return next(part.strides for part in acc.scope.levels if part.level.name == "thread")


def _sums(to: KernelWriter, acc: Held, groups: Dim, quads: Dim) -> tuple[Space, _Pieces]:
    """The space of the sums and their pieces."""
    assert acc.layout is not None and acc.scope is not None
    space = Space.of(acc.layout, acc.scope)
    moving = [(n, p) for n, p in zip(space.extents, space.places, strict=True) if n != 1]
    at = next((i for i, (n, p) in enumerate(moving) if p == groups and n == _GROUPS), None)
    if at is None:
        raise _form(to, acc)
    around = tuple(entry for entry in moving[:at] if entry[1] is not None)
    rows = product(n for n, p in moving[:at] if p is None)
    columns = acc.shape[1] // (_QUADS * 2)
    assert isinstance(columns, int), "registers are static"
    wanted = [*around, (rows, None), (_GROUPS, groups), (columns, None), (_QUADS, quads), (2, None)]
    if moving != [(n, p) for n, p in wanted if n != 1] or not isinstance(rows, int) or rows % 2:
        raise _form(to, acc)
    return space, _Pieces(rows, columns, around)


def _form(to: KernelWriter, acc: Held) -> NotFollowed:
    rows, columns = acc.shape[0] // _GROUPS, acc.shape[1] // 8
    middle = "" if columns == 1 else f"{columns}, "
    return NotFollowed(
        f"{to.name}: T.mma leaves its sums in registers over the lanes of one warp; allocate {acc.buffer.name} as "
        f'T.alloc_tensor(Tensor[{acc.shape}, dtype, ({rows}, 8 @ m.g, {middle}8 @ m.q), "rmem"]) over a mesh whose '
        "last thread axes are g=8 and q=4"
    )
