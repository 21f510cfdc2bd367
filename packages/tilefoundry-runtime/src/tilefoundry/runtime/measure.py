"""``check``: run two callables on the same inputs and hold their results against stated bounds."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from tilefoundry.runtime.bisection import Bisection
from tilefoundry.runtime.predicates import (
    PREDICATES,
    AllClose,
    Cosine,
    Equal,
    MaxAbs,
    MaxRel,
    NanInf,
    Predicate,
    RelL2,
    Ulp,
)
from tilefoundry.runtime.report import OutputCheck, PredicateResult, Report, Worst
from tilefoundry.runtime.values import is_exact_dtype, largest_integer_difference, norm, pair_of, widened

# torch is imported where it is first needed: importing the runtime must not load it.

__all__ = [
    "PREDICATES",
    "AllClose",
    "Cosine",
    "Equal",
    "MaxAbs",
    "MaxRel",
    "NanInf",
    "OutputCheck",
    "Predicate",
    "PredicateResult",
    "RelL2",
    "Report",
    "Ulp",
    "check",
]


def check(
    candidate: Callable[..., Any],
    reference: Callable[..., Any] | None,
    inputs: tuple[Any, ...],
    *,
    expect: Mapping[str, Sequence[Predicate]],
    bisect: bool = False,
) -> Report:
    """Compare ``candidate(*inputs)`` with ``reference(*inputs)``, output by output.

    Both sides get copies of the inputs, so that neither sees what the other wrote. Results are compared on
    the candidate's device. Everything runs on the calling thread and the framework's current stream, and the
    measures wait for it; checks in several threads are independent where the two sides are.

    Args:
        candidate, reference: anything callable; without a reference only predicates that need none are taken.
        inputs: tensors, or nested tuples of them.
        expect: path of an output (``"output"``, ``"output[0]"``) -> its predicates, one list per output.
        bisect: where the candidate is a twin and the reference a reading of its Module, and the check
            fails, run the functions one by one and name the first that differs.

    Raises:
        TypeError: an input, result or predicate of another kind, or a twin that stands for no Module.
        ValueError: results of another structure, shape or dtype, none at all, an output without predicates,
            a path that was not produced, or a predicate that does not suit its output.
    """
    _check_inputs(inputs)
    expect = _checked_expect(expect, reference is not None)
    walk = Bisection.of(candidate, reference) if bisect else None
    produced = dict(_leaves(candidate(*_cloned(inputs)), "output", "the candidate's result"))
    if not produced:
        raise ValueError("the candidate's result holds no tensor; there is nothing to check")
    # What the candidate gave may be memory that the reference, or the next call, writes to.
    produced = {path: tensor.detach().clone() for path, tensor in produced.items()}
    wanted = None
    if reference is not None:
        wanted = dict(_leaves(reference(*_cloned(inputs)), "output", "the reference's result"))
        _check_same_form(produced, wanted)
    _check_paths(produced, expect)
    outputs = tuple(
        _check_output(path, tensor, None if wanted is None else wanted[path], expect[path])
        for path, tensor in produced.items()
    )
    report = Report(outputs)
    if walk is None or report.passed:
        return report
    return Report(outputs, walk.first_difference(_cloned(inputs), expect))


def _check_inputs(inputs: object) -> None:
    if not isinstance(inputs, tuple):
        raise TypeError(f"inputs must be a tuple of tensors, got {type(inputs).__name__}; write (x,) for one")
    for _ in _leaves(inputs, "inputs", "an input"):
        pass


def _leaves(value: Any, path: str, what: str) -> Iterator[tuple[str, Any]]:
    import torch

    if isinstance(value, torch.Tensor):
        if value.is_complex():
            raise TypeError(
                f"{what} at {path} is {value.dtype}; complex tensors are not compared, check real and imag"
            )
        yield path, value
    elif isinstance(value, tuple):
        for i, item in enumerate(value):
            yield from _leaves(item, f"{path}[{i}]", what)
    else:
        raise TypeError(
            f"{what} at {path} must be a tensor or a tuple of tensors, got {type(value).__name__}"
        )


def _cloned(value: Any) -> Any:
    return tuple(map(_cloned, value)) if isinstance(value, tuple) else value.detach().clone()


def _checked_expect(expect: object, has_reference: bool) -> dict[str, tuple[Predicate, ...]]:
    if not isinstance(expect, Mapping):
        raise TypeError(f"expect maps output paths to predicates, got {type(expect).__name__}")
    out: dict[str, tuple[Predicate, ...]] = {}
    for path, predicates in expect.items():
        if isinstance(predicates, (str, Predicate)) or not isinstance(predicates, Sequence):
            raise TypeError(f"expect[{path!r}] must be a list of predicates, got {predicates!r}")
        if not predicates:
            raise ValueError(f"expect[{path!r}] is empty; state at least one predicate, such as RelL2(1e-5)")
        for predicate in predicates:
            _check_predicate(path, predicate, has_reference)
        out[path] = tuple(predicates)
    return out


def _check_predicate(path: str, predicate: object, has_reference: bool) -> None:
    if not isinstance(predicate, Predicate):
        hint = "; build it with its bound" if isinstance(predicate, type) else ""
        raise TypeError(f"expect[{path!r}]: {predicate!r} is no predicate{hint}")
    if predicate.needs_reference and not has_reference:
        alone = ", ".join(name for name, kind in PREDICATES.items() if not kind.needs_reference)
        raise ValueError(
            f"expect[{path!r}]: {predicate.name} needs a reference; without one there is {alone}"
        )


def _check_same_form(produced: Mapping[str, Any], wanted: Mapping[str, Any]) -> None:
    if list(produced) != list(wanted):
        raise ValueError(
            f"the results differ in structure: the candidate gives {', '.join(produced)}, "
            f"the reference {', '.join(wanted) or 'nothing'}"
        )
    for path, tensor in produced.items():
        other = wanted[path]
        for what, have, want in (
            ("shape", tuple(tensor.shape), tuple(other.shape)),
            ("dtype", tensor.dtype, other.dtype),
        ):
            if have != want:
                raise ValueError(
                    f"{path}: the candidate's {what} is {have}, the reference's {want}; make them equal"
                )


def _check_paths(produced: Mapping[str, Any], expect: Mapping[str, tuple[Predicate, ...]]) -> None:
    unknown = [path for path in expect if path not in produced]
    if unknown:
        raise ValueError(f"expect names {', '.join(unknown)}, but the outputs are {', '.join(produced)}")
    left = [path for path in produced if path not in expect]
    if left:
        raise ValueError(
            f"expect states nothing for {', '.join(left)}; every output needs its own predicates"
        )
    for path, predicates in expect.items():
        for predicate in predicates:
            if is_exact_dtype(produced[path]) and not predicate.discrete:
                raise ValueError(
                    f"{path} is {produced[path].dtype}, not for {predicate.name}; compare exactly with Equal()"
                )


def _check_output(
    path: str, candidate: Any, reference: Any | None, predicates: tuple[Predicate, ...]
) -> OutputCheck:
    results = tuple(predicate.measure(candidate, reference) for predicate in predicates)
    dtype = str(candidate.dtype).removeprefix("torch.")
    if reference is None:
        return OutputCheck(path, tuple(candidate.shape), dtype, None, results)
    size = norm(pair_of(candidate, reference).reference)
    return OutputCheck(path, tuple(candidate.shape), dtype, size, results, _worst(candidate, reference))


def _worst(candidate: Any, reference: Any) -> Worst | None:
    if candidate.numel() == 0:
        return None
    at = _worst_position(candidate, reference)
    if at is None:
        return None
    index = []
    for extent in reversed(candidate.shape):
        at, digit = divmod(at, extent)
        index.append(digit)
    where = tuple(reversed(index))
    return Worst(where, candidate[where].item(), reference[where].item())


def _worst_position(candidate: Any, reference: Any) -> int | None:
    if is_exact_dtype(candidate):
        _, count, at = largest_integer_difference(candidate, reference)
        return at if count else None
    reference = reference.to(candidate.device)
    c, r = widened(candidate), widened(reference)
    odd = (c.isnan() ^ r.isnan()) | ((c.isinf() | r.isinf()) & (c != r) & ~(c.isnan() & r.isnan()))
    if bool(odd.any()):
        return int(odd.int().argmax())
    difference = pair_of(candidate, reference).difference
    return int(difference.argmax()) if bool(difference.any()) else None
