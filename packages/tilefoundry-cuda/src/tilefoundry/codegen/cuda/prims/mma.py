"""Matrix instructions of one warp: fragments read from wherever the operands lie, sums in distributed registers."""

from __future__ import annotations

from tilefoundry.codegen.cuda.authored.refusal import NotFollowed
from tilefoundry.codegen.cuda.authored.space import Held, Space, mapped_part
from tilefoundry.codegen.cuda.authored.writer import KernelWriter
from tilefoundry.codegen.cuda.tiles import TileMma
from tilefoundry.ir.tir import atom_named
from tilefoundry.ir.types import Dim

__all__ = ["lower_mma"]

_GROUPS, _QUADS = 8, 4
"""A warp's lanes as the instruction numbers them: eight groups of four."""


def lower_mma(to: KernelWriter, atom: object, acc: Held, a: Held, b: Held) -> None:
    """``acc += a @ b``, one instruction per atom's tile.

    Raises:
        NotFollowed: sums that are not distributed as the instruction leaves them, or an atom without fragments here.
    """
    named = atom_named(atom)
    if (named.m, named.n) != (16, 8):
        raise NotFollowed(f"{to.name}: T.mma takes the atoms of 16x8 sums in a CUDA kernel, got {named.name}")
    groups, quads = _lanes(to, acc)
    space, rows, columns = _sums(to, acc, groups, quads)
    deep = a.shape[-1]
    pair = 2 if named.k == 16 else 4
    halves = deep // (_QUADS * pair)
    depth = Space((halves, _QUADS, pair), (None, quads, None))
    left = Space((rows, _GROUPS), (None, groups)).joined(depth)
    right = depth.joined(Space((columns, _GROUPS), (None, groups)))
    a_part = mapped_part(a, left, [(0, 1), (2, 3, 4)], f"{to.name}: T.mma")
    b_part = mapped_part(b, right, [(0, 1, 2), (3, 4)], f"{to.name}: T.mma")
    to.out.append(TileMma(named.inputs and a.dtype, to.own_part(acc, space), a_part, b_part, pair))


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


def _sums(to: KernelWriter, acc: Held, groups: Dim, quads: Dim) -> tuple[Space, Dim, Dim]:
    """The space of the sums, and how many 8-row and 8-column pieces there are."""
    assert acc.layout is not None and acc.scope is not None
    space = Space.of(acc.layout, acc.scope)
    moving = [(n, p) for n, p in zip(space.extents, space.places, strict=True) if n != 1]
    rows = acc.shape[0] // _GROUPS
    columns = acc.shape[1] // (_QUADS * 2)
    wanted = [(rows, None), (_GROUPS, groups), (columns, None), (_QUADS, quads), (2, None)]
    if moving != [(n, p) for n, p in wanted if n != 1]:
        raise _form(to, acc)
    return space, rows, columns


def _form(to: KernelWriter, acc: Held) -> NotFollowed:
    rows, columns = acc.shape[0] // _GROUPS, acc.shape[1] // 8
    middle = "" if columns == 1 else f"{columns}, "
    return NotFollowed(
        f"{to.name}: T.mma leaves its sums in registers over the lanes of one warp; allocate {acc.buffer.name} as "
        f'T.alloc_tensor(Tensor[{acc.shape}, dtype, ({rows}, 8 @ m.g, {middle}8 @ m.q), "rmem"]) over a mesh whose '
        "last thread axes are g=8 and q=4"
    )
