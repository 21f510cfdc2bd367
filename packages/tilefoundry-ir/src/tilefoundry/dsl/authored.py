"""A function written in the DSL: a ``Function`` that takes converters and variants by decorator."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType, FunctionType
from typing import Any

from tilefoundry.dsl.reader import Reading, read_definition
from tilefoundry.dsl.scope import Enclosure, enclosure_of
from tilefoundry.dsl.source import briefly
from tilefoundry.ir.core.pattern import DimVarRangePat
from tilefoundry.ir.errors import DslError
from tilefoundry.ir.hir.function import Function, Variant
from tilefoundry.ir.types import DimVar

__all__ = ["AuthoredFunction", "Label"]


class Label:
    """What the name of a converter's or variant's ``def`` is bound to: a label without further use."""

    __slots__ = ("text",)

    def __init__(self, text: str) -> None:
        self.text = text

    def __repr__(self) -> str:
        return f"<{self.text}>"

    def __call__(self, *args: Any) -> Any:
        raise TypeError(f"this is {self.text}; it is not called, the function that it belongs to is")


class AuthoredFunction(Function):
    """A ``Function`` that ``@func`` made.

    ``@f.converter("w")`` and ``@f.specialize(DimVarRangePat(...))`` add to it until a Module seals it.
    """

    __slots__ = ("converter_sources", "reading", "topologies_in_force")

    def __init__(
        self,
        reading: Reading,
        topologies_in_force: tuple[Any, ...] | None = None,
        *,
        topologies: tuple[Any, ...] | None = None,
        target: Any | None = None,
    ) -> None:
        super().__init__(
            reading.name, reading.params, reading.result, reading.body, topologies=topologies, target=target
        )
        self.reading = reading
        self.topologies_in_force = topologies_in_force
        self.converter_sources: dict[str, Reading] = {}

    def converter(self, weight: str) -> Callable[[FunctionType], Any]:
        """Decorator: the def computes ``weight`` from the checkpoint tensors that its parameters name.

        Its result is exactly the weight's declared shape and dtype.

        Raises DslError for an unknown weight, a second converter, or another result type.
        """

        def register(function: FunctionType) -> Any:
            frame = sys._getframe(1)
            reading = briefly(lambda: self._read(function, frame))
            briefly(lambda: self._add_converter(weight, reading))
            return self._bound_to(function, f"the converter of {self.name}.{weight}")

        return register

    def specialize(self, pattern: DimVarRangePat) -> Callable[[FunctionType], Any]:
        """Decorator: the def is the body for the DimVar values that ``pattern`` matches.

        It has the base's parameters and result; the base's own body is ``pass``. Variants are disjoint and,
        once the function is sealed, cover the DimVar's whole range.

        Raises DslError for a signature that differs, an unknown DimVar, an overlap.
        """

        def register(function: FunctionType) -> Any:
            frame = sys._getframe(1)
            reading = briefly(lambda: self._read(function, frame))
            briefly(lambda: self._add_variant(reading, pattern))
            return self._bound_to(function, f"a variant of {self.name}")

        return register

    def seal(self) -> None:
        """Fix converters and variants; DslError where a base without body has gaps between its variants."""
        if not self.sealed:
            self._check_complete()
        super().seal()

    def _read(self, function: Any, frame: FrameType) -> Reading:
        if not isinstance(function, FunctionType):
            raise TypeError(f"{self.name}: a converter and a variant are written as a def, got {function!r}")
        return read_definition(function, enclosure_of(function, frame), self.topologies_in_force)

    def _add_converter(self, weight: str, reading: Reading) -> None:
        with _pointing_at(reading):
            for param in reading.params:
                if param.is_const:
                    raise TypeError(
                        f"{param.name} is a checkpoint tensor, so declare it Tensor, not ConstTensor"
                    )
            if reading.body is None:
                raise ValueError(f"the converter of {self.name}.{weight} needs a body")
            self.add_converter(weight, _plain(reading, reading.name))
        self.converter_sources[weight] = reading

    def _add_variant(self, reading: Reading, pattern: DimVarRangePat) -> None:
        with _pointing_at(reading):
            self._check_variant(reading, pattern)
            self.add_variant(Variant(pattern, _plain(reading, self.name)))

    def _bound_to(self, function: FunctionType, text: str) -> Any:
        """What the def's name is bound to: the function itself where it bears its name, else a label."""
        return self if function.__name__ == self.name else Label(text)

    def _check_variant(self, reading: Reading, pattern: Any) -> None:
        if not isinstance(pattern, DimVarRangePat):
            raise TypeError(f"{self.name}.specialize takes a DimVarRangePat, got {pattern!r}")
        if self.body is not None:
            raise ValueError(f"{self.name} has a body of its own; a function with variants has the body pass")
        if reading.body is None:
            raise ValueError(f"a variant of {self.name} needs a body")
        if reading.params != self.params or reading.result != self.result:
            raise ValueError(f"a variant of {self.name} has its parameters and result: {self!r}")
        var = self._axis(pattern)
        if not (var.lo <= pattern.lo and pattern.hi <= var.hi):
            raise ValueError(
                f"the variant's range [{pattern.lo}, {pattern.hi}) leaves the range [{var.lo}, {var.hi}) of {var.name}"
            )
        for other in self.variants:
            if other.pattern.lo < pattern.hi and pattern.lo < other.pattern.hi:
                raise ValueError(
                    f"the variant's range [{pattern.lo}, {pattern.hi}) of {var.name} overlaps "
                    f"[{other.pattern.lo}, {other.pattern.hi}); variants are disjoint"
                )

    def _axis(self, pattern: DimVarRangePat) -> DimVar:
        names = {var.name: var for var in self.dim_vars()}
        if pattern.name not in names:
            raise ValueError(
                f"{self.name} has no DimVar {pattern.name!r}; it has {', '.join(names) or 'none'}"
            )
        for other in self.variants:
            if other.pattern.name != pattern.name:
                raise ValueError(
                    f"{self.name} is specialised over {other.pattern.name}; one axis per function"
                )
        return names[pattern.name]

    def _check_complete(self) -> None:
        if self.body is not None:
            return
        source, node = self.reading.source, self.reading.node
        if not self.variants:
            raise source.error(
                node, f"{self.name} has no body and no variant; add one with @{self.name}.specialize"
            )
        var = self._axis(self.variants[0].pattern)
        at = var.lo
        for pattern in sorted((v.pattern for v in self.variants), key=lambda p: p.lo):
            if pattern.lo > at:
                raise source.error(node, _gap(self.name, var, at, pattern.lo))
            at = pattern.hi
        if at < var.hi:
            raise source.error(node, _gap(self.name, var, at, var.hi))


def _gap(name: str, var: DimVar, lo: int, hi: int) -> str:
    return f"no variant of {name} covers {var.name} in [{lo}, {hi}); the range is [{var.lo}, {var.hi})"


def _plain(reading: Reading, name: str) -> Function:
    return Function(name, reading.params, reading.result, reading.body)


@contextmanager
def _pointing_at(reading: Reading) -> Iterator[None]:
    """Turn a refusal into a DslError at the definition that was refused."""
    try:
        yield
    except DslError:
        raise
    except (TypeError, ValueError) as error:
        raise reading.source.error(reading.node, str(error)) from None


def author(
    function: FunctionType,
    enclosure: Enclosure,
    in_force: tuple[Any, ...] | None,
    topologies: Any,
    target: Any,
) -> AuthoredFunction:
    """Read ``function`` and make it an ``AuthoredFunction``."""
    return AuthoredFunction(
        read_definition(function, enclosure, in_force), in_force, topologies=topologies, target=target
    )
