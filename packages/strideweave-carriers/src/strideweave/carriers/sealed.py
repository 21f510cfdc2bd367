"""sealed: classes that nothing may derive from."""

from __future__ import annotations

from typing import Any, TypeVar

C = TypeVar("C")


def sealed(cls: type[C]) -> type[C]:
    """Class decorator: subclassing ``cls`` is a TypeError, because dispatch goes by the exact class."""

    def refuse(sub: type, **_: Any) -> None:
        raise TypeError(
            f"{sub.__name__}: {cls.__name__} cannot be subclassed; derive from Carrier and register kernels"
        )

    cls.__init_subclass__ = classmethod(refuse)  # type: ignore[assignment] # replaced on purpose
    return cls
