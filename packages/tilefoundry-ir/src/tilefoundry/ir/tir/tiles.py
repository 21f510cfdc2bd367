"""Tile-level contraction and attention: one runtime call each, whose body runs on every element of the result.

The body is the epilogue over the fragments that a target holds in registers: it names scalars, branches and
stores, at the indices of one element. How threads share a tile is not said; a target picks the instructions.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Union

from tilefoundry.ir.core.expr import Expr, Var
from tilefoundry.ir.tir.expr import Apply, BufferView, IndexValue, Load
from tilefoundry.ir.types import Dim, DimVar, DType, TensorType, bounds, substitute

__all__ = [
    "MOST_CLUSTER",
    "Operand",
    "Prologue",
    "TileAttention",
    "TileContraction",
    "TileSchedule",
    "batch_axes",
    "check_split",
    "sum_dtype",
]

MOST_CLUSTER = 8
"""Most CTAs of a cluster that every device with clusters takes."""

_MOST_STAGES = 16


def sum_dtype(dtype: DType) -> DType:
    """The dtype in which products of ``dtype`` are summed: f32 (f64 for f64), i64 for integers."""
    if not dtype.is_float:
        return DType.i64
    return dtype if dtype is DType.f64 else DType.f32


@dataclass(frozen=True, slots=True)
class Prologue(Expr):
    """An operand that is computed while it is read, such as the widened, scaled elements of a quantised weight.

    ``type`` gives extents and the dtype that each element is rounded to before it is multiplied.

    Attributes:
        indices: one per axis; positions of the element.
        value: the element, a scalar over buffers and the indices.
    """

    indices: tuple[Var, ...]
    value: Expr

    def at(self, place: Sequence[Dim]) -> Expr:
        """The element at ``place``, before it is rounded."""
        return _moved(self.value, {index.name: dim for index, dim in zip(self.indices, place, strict=True)})

    def renamed(self, names: Sequence[str]) -> Prologue:
        """The same operand with its indices called ``names``."""
        dims = [DimVar(n, 0, max(bounds(e)[1], 1)) for n, e in zip(names, _type(self).shape, strict=True)]
        indices = tuple(Var(index.type, name) for index, name in zip(self.indices, names, strict=True))
        return Prologue(self.type, indices, self.at(dims))


def _moved(value: Any, dims: Mapping[str, Dim]) -> Any:
    if isinstance(value, Load):
        return replace(value, index=_replaced(value.index, dims))
    if isinstance(value, IndexValue):
        return IndexValue.of(_replaced(value.value, dims))
    if isinstance(value, Apply):
        return replace(value, args=tuple(_moved(arg, dims) for arg in value.args))
    return value


def _replaced(dim: Dim, dims: Mapping[str, Dim]) -> Dim:
    return dim if isinstance(dim, int) else substitute(dim, dims)


Operand = Union[BufferView, Prologue]


@dataclass(frozen=True, slots=True)
class TileSchedule:
    """What the author asks of the target; None leaves it to the target.

    Attributes:
        tile: extents of one tile: (rows, columns, depth) of a contraction, (queries, keys) of an attention.
        stages: tiles of the operands that are under way at once.
        cluster: CTAs along rows and columns that share operand tiles.
        split: parts of the summed axis (of the keys) that are computed apart and joined in a fixed order.
        persistent: as many CTAs as the device holds at once, each of which takes tile after tile.
        place: file and line of the statement that asks, for messages; equal schedules may have different ones.

    Raises:
        ValueError: an extent below 1, a tile that is no multiple of 8, more stages or CTAs than any device has.
    """

    tile: tuple[int, ...] | None = None
    stages: int | None = None
    cluster: tuple[int, int] = (1, 1)
    split: int = 1
    persistent: bool = False
    place: tuple[str, int] | None = field(default=None, compare=False, repr=False)

    def __post_init__(self) -> None:
        for extent in self.tile or ():
            _check_count("tile", extent, 8, 1 << 16)
            if extent % 8:
                raise ValueError(f"tile extents are multiples of 8, got {extent} in {self.tile}")
        if self.stages is not None:
            _check_count("stages", self.stages, 1, _MOST_STAGES)
        for extent in self.cluster:
            _check_count("cluster", extent, 1, MOST_CLUSTER)
        if len(self.cluster) != 2 or self.cluster[0] * self.cluster[1] > MOST_CLUSTER:
            raise ValueError(
                f"cluster is (rows, columns) of at most {MOST_CLUSTER} CTAs in all, got {self.cluster}"
            )
        check_split("split", self.split)
        if not isinstance(self.persistent, bool):
            raise ValueError(f"persistent is True or False, got {self.persistent!r}")


def check_split(name: str, value: Any) -> None:
    """Raise ValueError, calling it ``name``, where ``value`` is no number of parts of a summed axis."""
    _check_count(name, value, 1, 1 << 16)


def _check_count(name: str, value: Any, low: int, high: int) -> None:
    if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= high:
        raise ValueError(f"{name} takes ints from {low} to {high}, got {value!r}")


@dataclass(frozen=True, slots=True)
class TileContraction:
    """``sums[n][..., i, j] = sum over k of lhs[..., i, k] * rhs[n][..., k, j]``, and ``body`` on every element.

    Several right operands share one pass over the left one: a gated pair reaches the same body.

    Attributes:
        lhs: [..., rows, depth].
        rhs: each [..., depth, columns], all of one type; missing and extent-1 leading axes repeat.
        indices: of one element, leading axes first.
        sums: complete sums of that element, one per right operand, in ``sum_dtype``.
        schedule: tile, stages, cluster, split-K, persistence.
        body: what is done with the sums; it stores the results.
    """

    lhs: Operand
    rhs: tuple[Operand, ...]
    indices: tuple[Var, ...]
    sums: tuple[Var, ...]
    schedule: TileSchedule
    body: tuple[Any, ...]

    @property
    def shape(self) -> tuple[Dim, ...]:
        """Extents that the indices run over."""
        left, right = _type(self.lhs), _type(self.rhs[0])
        return (*batch_axes(left.shape[:-2], right.shape[:-2]), left.shape[-2], right.shape[-1])

    @property
    def depth(self) -> Dim:
        """Extent that is summed over."""
        return _type(self.lhs).shape[-1]

    @property
    def operands(self) -> tuple[Operand, ...]:
        """Everything that is read tile by tile."""
        return (self.lhs, *self.rhs)


@dataclass(frozen=True, slots=True)
class TileAttention:
    """``softmax(mask(cap(q @ k.T * scale))) @ v`` per head as ``tf.attention`` has it, and ``body`` on every element.

    Attributes:
        q: [batch, heads, queries, dim].
        k, v: [batch, shared heads, keys, dim]; the heads of q are a multiple of theirs.
        kv_len: how many keys there are, an integer buffer of rank 0 or [batch]; None for all.
        scale: factor of the scores.
        causal: hides keys after the query's position; the last query stands at the last key.
        window: hides keys ``window`` or more before the query, or None.
        softcap: scores become ``softcap * tanh(score / softcap)``, or None.
        indices: batch, head, query and dim of one element.
        output: the element, in ``sum_dtype``.
        schedule: tile, stages, split over keys, persistence.
        body: what is done with the element; it stores the results.
    """

    q: Operand
    k: Operand
    v: Operand
    kv_len: BufferView | None
    scale: float
    causal: bool
    window: int | None
    softcap: float | None
    indices: tuple[Var, ...]
    output: Var
    schedule: TileSchedule
    body: tuple[Any, ...]

    @property
    def shape(self) -> tuple[Dim, ...]:
        """Extents that the indices run over."""
        return (*_type(self.q).shape[:3], _type(self.v).shape[3])

    @property
    def sums(self) -> tuple[Var, ...]:
        """The one value that the body gets, as ``TileContraction`` names its own."""
        return (self.output,)

    @property
    def operands(self) -> tuple[Operand, ...]:
        """Everything that is read tile by tile."""
        return (self.q, self.k, self.v)


def batch_axes(left: tuple[Dim, ...], right: tuple[Dim, ...]) -> tuple[Dim, ...]:
    """Leading extents of a product; missing and extent-1 axes repeat.

    Raises:
        ValueError: extents that differ and are not 1.
    """
    rank = max(len(left), len(right))
    pairs = zip((*(1,) * (rank - len(left)), *left), (*(1,) * (rank - len(right)), *right), strict=True)
    out: list[Dim] = []
    for a, b in pairs:
        if a != b and a != 1 and b != 1:
            raise ValueError(f"leading extents {a} and {b} differ and neither is 1")
        out.append(b if a == 1 else a)
    return tuple(out)


def _type(operand: Operand) -> TensorType:
    assert isinstance(operand.type, TensorType)
    return operand.type
