"""What a check found, as values, text and HTML."""

from __future__ import annotations

import html
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tilefoundry.runtime.predicates import Predicate

__all__ = ["OutputCheck", "PredicateResult", "Report", "Worst"]

_HEAD = ("output", "shape", "dtype", "predicate", "measured", "verdict", "note")


@dataclass(frozen=True, slots=True)
class PredicateResult:
    """One predicate's finding. Immutable.

    Attributes:
        predicate: what was asked.
        values: what was measured, by name.
        passed: the verdict.
        note: what was measured instead, where the usual measure has no meaning at these values.
    """

    predicate: Predicate
    values: Mapping[str, float]
    passed: bool
    note: str | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "values", MappingProxyType(dict(self.values)))


@dataclass(frozen=True, slots=True)
class Worst:
    """Where the largest difference sits: index, and both values there."""

    index: tuple[int, ...]
    candidate: float | int | bool
    reference: float | int | bool


@dataclass(frozen=True, slots=True)
class OutputCheck:
    """One output's findings. Immutable.

    Attributes:
        path: ``"output"``, ``"output[0]"``, ``"output[1][0]"``.
        shape, dtype: of the candidate's tensor.
        ref_norm: Euclidean norm of the reference in float64; None without a reference.
        results: one per predicate, in the order they were stated.
        worst: the largest difference; None without a reference, for an empty tensor or for equal ones.
    """

    path: str
    shape: tuple[int, ...]
    dtype: str
    ref_norm: float | None
    results: tuple[PredicateResult, ...]
    worst: Worst | None = None

    @property
    def passed(self) -> bool:
        """True where every predicate passed."""
        return all(result.passed for result in self.results)


@dataclass(frozen=True, slots=True)
class Report:
    """All outputs' findings. Immutable.

    Attributes:
        outputs: one per tensor, in order.
        first_difference: the first function in which twin and Module differ, where the check was asked to
            look for it; the text says with which values.
    """

    outputs: tuple[OutputCheck, ...]
    first_difference: str | None = field(default=None)

    @property
    def passed(self) -> bool:
        """True where every output passed."""
        return all(output.passed for output in self.outputs)

    def __str__(self) -> str:
        rows = [_HEAD, *(row for output in self.outputs for row in _rows(output))]
        widths = [max(len(row[i]) for row in rows) for i in range(len(_HEAD))]
        lines = [
            "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
            for row in rows
        ]
        lines.insert(1, "  ".join("-" * width for width in widths))
        return "\n".join([f"check {_verdict(self.passed)}", *lines, *self._remarks()])

    def _remarks(self) -> list[str]:
        lines = [
            f"{output.path}: largest difference at {list(output.worst.index)}: "
            f"candidate {output.worst.candidate!r}, reference {output.worst.reference!r}"
            for output in self.outputs
            if output.worst is not None
        ]
        return lines + ([] if self.first_difference is None else [self.first_difference])

    def _repr_html_(self) -> str:
        cells = [
            "<tr>" + "".join(f"<td>{html.escape(cell)}</td>" for cell in row) + "</tr>"
            for output in self.outputs
            for row in _rows(output)
        ]
        head = "<tr>" + "".join(f"<th>{name}</th>" for name in _HEAD) + "</tr>"
        remarks = "".join(f"<p>{html.escape(line)}</p>" for line in self._remarks())
        return f"<p>check <b>{_verdict(self.passed)}</b></p><table>{head}{''.join(cells)}</table>{remarks}"

    def to_dict(self) -> dict[str, Any]:
        """The report as JSON values."""
        return {
            "passed": self.passed,
            "first_difference": self.first_difference,
            "outputs": [_output_dict(output) for output in self.outputs],
        }


def _verdict(passed: bool) -> str:
    return "passed" if passed else "FAILED"


def _bound_text(predicate: Predicate) -> str:
    bounds = ", ".join(f"{name}={getattr(predicate, name):g}" for name in predicate.bounds)
    return f"{predicate.name}({bounds})"


def _rows(output: OutputCheck) -> list[tuple[str, ...]]:
    shape = "x".join(map(str, output.shape)) or "()"
    return [
        (
            output.path,
            shape,
            output.dtype,
            _bound_text(result.predicate),
            " ".join(f"{name}={_number(value)}" for name, value in result.values.items()) or "-",
            _verdict(result.passed),
            result.note or "",
        )
        for result in output.results
    ]


def _number(value: float) -> str:
    return str(value) if isinstance(value, int) else f"{value:.4g}"


def _output_dict(output: OutputCheck) -> dict[str, Any]:
    worst = output.worst
    return {
        "path": output.path,
        "shape": list(output.shape),
        "dtype": output.dtype,
        "ref_norm": output.ref_norm,
        "passed": output.passed,
        "worst": None
        if worst is None
        else {"index": list(worst.index), "candidate": worst.candidate, "reference": worst.reference},
        "results": [
            {
                "predicate": result.predicate.name,
                "bounds": {name: getattr(result.predicate, name) for name in result.predicate.bounds},
                "values": dict(result.values),
                "passed": result.passed,
                "note": result.note,
            }
            for result in output.results
        ],
    }
