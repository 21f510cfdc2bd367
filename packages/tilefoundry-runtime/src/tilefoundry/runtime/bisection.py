"""Find the first function in which a twin differs from the Module that it stands for."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tilefoundry.evaluator import observed_calls
from tilefoundry.ir.core.module import LoadedModule
from tilefoundry.runtime.module import RuntimeModule
from tilefoundry.runtime.predicates import Equal, Predicate
from tilefoundry.runtime.twin import Twin
from tilefoundry.runtime.values import is_exact_dtype

__all__ = ["Bisection"]

Path = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Bisection:
    """A twin, and the reading that it is judged against.

    The reference runs once while every function call inside it is recorded, innermost first. Then each
    kernel of the twin gets the recorded arguments, and the first whose value breaks the stated bounds is it:
    all that it calls was right on the same arguments.
    """

    twin: RuntimeModule
    reading: LoadedModule

    @staticmethod
    def of(candidate: object, reference: object) -> Bisection:
        """From the two callables of a check, or bound methods of theirs.

        Raises:
            TypeError: a candidate that stands for no Module, or a reference that is no reading.
        """
        twin = getattr(candidate, "__self__", candidate)
        reading = getattr(reference, "__self__", reference)
        if not isinstance(twin, RuntimeModule) or twin.module is None:
            raise TypeError(f"bisect walks a twin and the Module it stands for; {twin!r} stands for none")
        if not isinstance(reading, LoadedModule):
            raise TypeError(f"bisect needs a reading as reference (module.load(resource)), got {reading!r}")
        return Bisection(twin, reading)

    def first_difference(self, inputs: tuple[Any, ...], expect: Mapping[str, Sequence[Predicate]]) -> str:
        """One sentence naming the function, or saying that every function agrees on its own."""
        bounds = tuple(dict.fromkeys(p for predicates in expect.values() for p in predicates))
        places = dict(_places(self.reading, self.twin, ()))
        with observed_calls() as calls:
            self.reading(*inputs)
        for call in calls:
            if id(call.function) not in places:
                continue
            path, node = places[id(call.function)]
            problem = _compare(node, call, bounds)
            if problem:
                return f"first difference: {'.'.join((*path, call.function.name))} ({problem})"
        return "first difference: none of the functions by itself; look at how the methods combine them"


def _places(
    reading: LoadedModule, twin: RuntimeModule, path: Path
) -> Iterator[tuple[int, tuple[Path, Twin]]]:
    if not isinstance(twin, Twin):
        return
    for function in reading.module.functions:
        yield id(function), (path, twin)
    for below, child in zip(reading.modules, twin.modules, strict=True):
        yield from _places(below, child, (*path, child.name))


def _compare(node: Twin, call: Any, bounds: Sequence[Predicate]) -> str | None:
    acts = [t.clone() for p, t in zip(call.function.params, call.arguments, strict=True) if not p.is_const]
    try:
        value = getattr(node, call.function.name)(*acts)
    except Exception as error:
        return f"its kernel raises {type(error).__name__}: {error}"
    return _difference("output", value, call.result, bounds)


def _difference(path: str, have: Any, want: Any, bounds: Sequence[Predicate]) -> str | None:
    if isinstance(want, tuple):
        if not isinstance(have, tuple) or len(have) != len(want):
            return f"{path} should be a tuple of {len(want)}"
        parts = (
            _difference(f"{path}[{i}]", h, w, bounds) for i, (h, w) in enumerate(zip(have, want, strict=True))
        )
        return next((part for part in parts if part), None)
    if not isinstance(have, type(want)):
        return f"{path} is a {type(have).__name__}, expected a {type(want).__name__}"
    if have.shape != want.shape or have.dtype is not want.dtype:
        return f"{path} is {have.dtype}{list(have.shape)}, expected {want.dtype}{list(want.shape)}"
    exact = is_exact_dtype(want)
    for predicate in [Equal()] if exact else [p for p in bounds if not p.discrete] or [Equal()]:
        result = predicate.measure(have, want)
        if not result.passed:
            measured = (
                ", ".join(f"{name}={value:.4g}" for name, value in result.values.items()) or result.note
            )
            return f"{path}: {predicate.name} {measured}"
    return None
