"""The weights that a module declares."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from tilefoundry.ir.types import TensorType

__all__ = ["WeightTable"]


class WeightTable(Mapping[str, TensorType]):
    """Weight name -> declared type, in (function, parameter) order. Calling it returns itself."""

    def __init__(self, types: Mapping[str, TensorType]) -> None:
        self._types = dict(types)

    def __getitem__(self, name: str) -> TensorType:
        return self._types[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._types)

    def __len__(self) -> int:
        return len(self._types)

    def __call__(self) -> WeightTable:
        return self

    def __repr__(self) -> str:
        return f"WeightTable({', '.join(f'{n}: {t}' for n, t in self._types.items())})"
