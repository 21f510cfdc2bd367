"""Strided views of buffers under symbolic extents: which layout ops need no copy."""

from __future__ import annotations

import itertools
from dataclasses import dataclass, replace

from tilefoundry.ir.types import Dim, DType, bounds
from tilefoundry.ir.types.dim import product

__all__ = ["View", "contiguous_strides", "split_view"]


def contiguous_strides(shape: tuple[Dim, ...]) -> tuple[Dim, ...]:
    """Row-major strides of ``shape`` in elements."""
    strides: list[Dim] = []
    step: Dim = 1
    for dim in reversed(shape):
        strides.append(step)
        step = product((step, dim))
    return tuple(reversed(strides))


@dataclass(frozen=True, slots=True)
class View:
    """A window of a buffer: element (i, j, ...) lies at ``offset + i * strides[0] + j * strides[1] + ...``.

    Attributes:
        buffer: the buffer's name.
        dtype: element type.
        shape, strides, offset: in elements; dims of the program.
    """

    buffer: str
    dtype: DType
    shape: tuple[Dim, ...]
    strides: tuple[Dim, ...]
    offset: Dim = 0

    @staticmethod
    def dense(buffer: str, dtype: DType, shape: tuple[Dim, ...]) -> View:
        """The whole of a row-major buffer."""
        return View(buffer, dtype, shape, contiguous_strides(shape))

    @property
    def is_dense(self) -> bool:
        """True where the view is its buffer's elements from the start, row-major."""
        return self.offset == 0 and self.is_packed

    @property
    def is_packed(self) -> bool:
        """True where the elements lie row-major without gaps, wherever they start."""
        wanted = contiguous_strides(self.shape)
        return all(
            dim == 1 or have == want for dim, have, want in zip(self.shape, self.strides, wanted, strict=True)
        )

    @property
    def view_size(self) -> Dim:
        """How many elements the view shows."""
        return product(self.shape)

    def transpose(self, perm: tuple[int, ...]) -> View:
        """Axis ``i`` of the result is axis ``perm[i]``."""
        return replace(
            self,
            shape=tuple(self.shape[axis] for axis in perm),
            strides=tuple(self.strides[axis] for axis in perm),
        )

    def slice(self, starts: tuple[Dim, ...], sizes: tuple[Dim, ...], steps: tuple[int, ...]) -> View:
        """The window of ``sizes`` at ``starts``, every ``steps``-th element of each axis."""
        offset = self.offset
        for start, stride in zip(starts, self.strides, strict=True):
            offset = offset + product((start, stride))
        strides = tuple(product((step, stride)) for step, stride in zip(steps, self.strides, strict=True))
        return replace(self, shape=sizes, strides=strides, offset=offset)

    def reshape(self, shape: tuple[Dim, ...]) -> View | None:
        """The same elements in row-major order under ``shape``, or None where only a copy can give it."""
        strides = _reshaped_strides(self.shape, self.strides, shape)
        return None if strides is None else replace(self, shape=shape, strides=strides)


def _reshaped_strides(
    old: tuple[Dim, ...], strides: tuple[Dim, ...], new: tuple[Dim, ...]
) -> tuple[Dim, ...] | None:
    """Strides of ``new``, found by pairing the shortest groups of axes with equal products."""
    kept = [(dim, stride) for dim, stride in zip(old, strides, strict=True) if dim != 1]
    out: list[Dim] = []
    at = 0
    axis = 0
    while axis < len(new):
        if new[axis] == 1:
            out.append(0)
            axis += 1
            continue
        found = _matching_group(kept, at, new, axis)
        if found is None:
            return None
        at, axis, group = found
        out.extend(group)
    return tuple(out) if at == len(kept) else None


def _matching_group(
    kept: list[tuple[Dim, Dim]], at: int, new: tuple[Dim, ...], axis: int
) -> tuple[int, int, list[Dim]] | None:
    """Consume old axes from ``at`` and new axes from ``axis`` until their products agree.

    Returns the next positions and the strides of the consumed new axes.
    """
    for taken_new in range(1, len(new) - axis + 1):
        want = product(new[axis : axis + taken_new])
        for taken_old in range(1, len(kept) - at + 1):
            have = product(dim for dim, _ in kept[at : at + taken_old])
            if have == want:
                step = _merged_stride(kept[at : at + taken_old])
                if step is None:
                    return None
                dims = new[axis : axis + taken_new]
                group = [product((step, inner)) for inner in contiguous_strides(dims)]
                return at + taken_old, axis + taken_new, group
            if _surely_larger(have, want):
                break
    return None


def _merged_stride(group: list[tuple[Dim, Dim]]) -> Dim | None:
    """The stride of the one axis that ``group`` merges into, or None where it has gaps."""
    for (_, outer), (dim, inner) in itertools.pairwise(group):
        if outer != product((dim, inner)):
            return None
    return group[-1][1]


def _surely_larger(a: Dim, b: Dim) -> bool:
    return bounds(a)[0] > bounds(b)[1]


def split_view(view: View, axis: int, parts: int) -> tuple[View, ...]:
    """``view`` as equal parts along ``axis``."""
    sizes = list(view.shape)
    sizes[axis] = view.shape[axis] // parts
    steps = (1,) * len(sizes)
    starts = [[0] * len(sizes) for _ in range(parts)]
    out = []
    for i, start in enumerate(starts):
        at: list[Dim] = list(start)
        at[axis] = product((i, sizes[axis]))
        out.append(view.slice(tuple(at), tuple(sizes), steps))
    return tuple(out)
