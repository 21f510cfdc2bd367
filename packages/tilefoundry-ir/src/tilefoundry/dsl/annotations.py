"""``Tensor[...]`` and ``ConstTensor[...]``: what a signature declares about a value."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar

from tilefoundry.ir.types import StorageKind, TensorType
from tilefoundry.ir.types.shard import SplitExtent, layout_from_sugar

__all__ = ["ConstTensor", "Tensor", "TensorAnnotation"]


@dataclass(frozen=True, slots=True)
class TensorAnnotation:
    """``Tensor[shape, dtype, layout, storage]`` as written; checked when a program that uses it is read.

    Attributes:
        is_const: True for ``ConstTensor``: a weight.
        items: what stands between the brackets.
    """

    is_const: bool
    items: tuple[Any, ...]

    def resolve(self) -> TensorType:
        """The declared type.

        Raises:
            TypeError, ValueError: a missing or surplus slot, or a slot with a wrong value.
        """
        name = "ConstTensor" if self.is_const else "Tensor"
        if not 2 <= len(self.items) <= 4:
            raise TypeError(
                f'{name}[...] takes a shape, a dtype, and then a layout and a storage, as in {name}[(4, N), "f32"]; '
                f"got {len(self.items)} slots"
            )
        shape, dtype, *rest = self.items
        if len(rest) == 1 and isinstance(rest[0], (str, StorageKind)):
            rest = [None, *rest]  # no layout is a text, so a lone text is a storage
        layout, storage = (*rest, None, None)[:2]
        shape, layout = _layout_in_shape(shape, layout)
        bare = TensorType(shape, dtype)
        return replace(
            bare,
            layout=layout_from_sugar(bare.shape, layout),
            storage=StorageKind.UNDECIDED if storage is None else StorageKind.from_name(storage),
        )


def _layout_in_shape(shape: Any, layout: Any) -> tuple[Any, Any]:
    """``(M @ c.x, N)`` in the shape's place declares both the shape and the layout."""
    if not isinstance(shape, (tuple, list)) or not any(isinstance(dim, SplitExtent) for dim in shape):
        return shape, layout
    if layout is not None:
        raise ValueError("the shape already splits its extents over mesh axes; leave the layout slot out")
    return tuple(dim.extent if isinstance(dim, SplitExtent) else dim for dim in shape), tuple(shape)


class Tensor:
    """A tensor value: ``Tensor[(4, N), "f32"]``, then optionally a layout and a storage."""

    _is_const: ClassVar[bool] = False

    def __class_getitem__(cls, items: Any) -> TensorAnnotation:
        return TensorAnnotation(cls._is_const, items if isinstance(items, tuple) else (items,))

    if TYPE_CHECKING:
        # Inside a program a parameter is a value; these say so to editors and type checkers.
        def __getitem__(self, index: Any) -> Any: ...
        def __setitem__(self, index: Any, value: Any) -> None: ...
        def __iter__(self) -> Any: ...
        def __add__(self, other: Any) -> Any: ...
        def __radd__(self, other: Any) -> Any: ...
        def __sub__(self, other: Any) -> Any: ...
        def __rsub__(self, other: Any) -> Any: ...
        def __mul__(self, other: Any) -> Any: ...
        def __rmul__(self, other: Any) -> Any: ...
        def __truediv__(self, other: Any) -> Any: ...
        def __rtruediv__(self, other: Any) -> Any: ...
        def __floordiv__(self, other: Any) -> Any: ...
        def __rfloordiv__(self, other: Any) -> Any: ...
        def __mod__(self, other: Any) -> Any: ...
        def __rmod__(self, other: Any) -> Any: ...
        def __pow__(self, other: Any) -> Any: ...
        def __matmul__(self, other: Any) -> Any: ...
        def __and__(self, other: Any) -> Any: ...
        def __or__(self, other: Any) -> Any: ...
        def __neg__(self) -> Any: ...
        def __invert__(self) -> Any: ...
        def __lt__(self, other: Any) -> Any: ...
        def __le__(self, other: Any) -> Any: ...
        def __gt__(self, other: Any) -> Any: ...
        def __ge__(self, other: Any) -> Any: ...

    def __init__(self) -> None:
        raise TypeError(f'{type(self).__name__} is an annotation: write {type(self).__name__}[(4, N), "f32"]')


class ConstTensor(Tensor):
    """A weight: a tensor that a checkpoint gives and no caller passes. Spelled like ``Tensor``."""

    _is_const = True
