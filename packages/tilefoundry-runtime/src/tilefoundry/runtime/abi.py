"""What an entry takes and gives: one description for kernels, compiled libraries and their callers."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from tilefoundry.ir.core.expr import Var
from tilefoundry.ir.hir.function import Function
from tilefoundry.ir.types import TensorType, dim_vars

__all__ = ["EntryABI", "ParamABI", "entry_abi_of", "param_abi_of"]


@dataclass(frozen=True, slots=True)
class ParamABI:
    """One parameter. Immutable.

    Attributes:
        name: its name; a weight of a child module carries its dotted path.
        type: element type, shape, storage and layout; a dynamic extent is the DimVar that the shape holds.
    """

    name: str
    type: TensorType

    def __post_init__(self) -> None:
        if not isinstance(self.name, str):
            raise TypeError(f"a parameter's name is text, got {self.name!r}")
        if not isinstance(self.type, TensorType):
            raise TypeError(f"parameter {self.name}: an ABI passes tensors, got {self.type!r}")

    def __str__(self) -> str:
        return f"{self.name}: {self.type}"


@dataclass(frozen=True, slots=True, repr=False)
class EntryABI:
    """An entry's parameters, inputs before outputs, in declaration order. Immutable.

    Attributes:
        name: the entry's name, which a compiled library exports as its symbol.
        params: all parameters.
        output_count: how many trailing parameters are outputs; 0 for an implementation that returns values.
        constants: (input index, dotted path) of the inputs that are weights.
        inplace: (index among the outputs, index among the inputs) of outputs that equal an input with one
            window replaced; a caller may pass the identical tensor as both.

    Raises:
        TypeError: a name that is no text, or a count or index that is no integer.
        ValueError: counts or indices that do not fit the parameters, repeated parameter names, or an inplace
            pair of two types, of a weight, or of an output that another pair has.
    """

    name: str
    params: tuple[ParamABI, ...]
    output_count: int = 0
    constants: tuple[tuple[int, str], ...] = ()
    inplace: tuple[tuple[int, int], ...] = ()

    def __post_init__(self) -> None:
        for field in ("params", "constants", "inplace"):
            object.__setattr__(self, field, tuple(getattr(self, field)))
        object.__setattr__(self, "constants", tuple((i, path) for i, path in self.constants))
        object.__setattr__(self, "inplace", tuple((output, source) for output, source in self.inplace))
        self._check_kinds()
        self._check()

    def _check_kinds(self) -> None:
        for text in (self.name, *(path for _, path in self.constants)):
            if not isinstance(text, str):
                raise TypeError(f"an entry's name and the paths of its weights are text, got {text!r}")
        numbers = (
            self.output_count,
            *(i for i, _ in self.constants),
            *(i for pair in self.inplace for i in pair),
        )
        for number in numbers:
            if isinstance(number, bool) or not isinstance(number, int):
                raise TypeError(f"{self.name}: a count or index is an integer, got {number!r}")

    def _check(self) -> None:
        names = [param.name for param in self.params]
        if len(set(names)) != len(names):
            raise ValueError(f"{self.name}: parameter names repeat: {', '.join(names)}")
        if not 0 <= self.output_count <= len(names):
            raise ValueError(f"{self.name}: {self.output_count} outputs among {len(names)} parameters")
        slots = [index for index, _ in self.constants]
        if len(set(slots)) != len(slots) or not all(0 <= i < self.input_count for i in slots):
            raise ValueError(
                f"{self.name}: constants {self.constants} are no inputs; there are {self.input_count}"
            )
        for pair in self.inplace:
            self._check_inplace(*pair)
        if len({output for output, _ in self.inplace}) != len(self.inplace):
            raise ValueError(f"{self.name}: inplace {self.inplace} names an output twice")

    def _check_inplace(self, output: int, source: int) -> None:
        if not (0 <= output < self.output_count and 0 <= source < self.input_count):
            raise ValueError(
                f"{self.name}: inplace {(output, source)} is no (output, input) pair; "
                f"there are {self.output_count} outputs and {self.input_count} inputs"
            )
        given, made = self.input_params[source], self.output_params[output]
        if not made.type.same_value_type(given.type):
            raise ValueError(f"{self.name}: inplace pairs {made} with {given}, which is of another type")
        if any(index == source for index, _ in self.constants):
            raise ValueError(f"{self.name}: inplace pairs {made.name} with the weight {given.name}")

    def __str__(self) -> str:
        """One line for the entry and its dynamic extents, one for each parameter."""
        variables = {var.name: var for p in self.params for dim in p.type.shape for var in dim_vars(dim)}
        ranges = [f"{var.lo} <= {var.name} < {var.hi}" for var in variables.values()]
        notes = {index: f", weight {path}" for index, path in self.constants}
        for output, source in self.inplace:
            notes[self.input_count + output] = f", may be {self.params[source].name} itself"
        kinds = ["in "] * self.input_count + ["out"] * self.output_count
        rows = [
            f"  {kind}  {param}{notes.get(i, '')}"
            for i, (kind, param) in enumerate(zip(kinds, self.params, strict=True))
        ]
        return "\n".join([", ".join([self.name, *ranges]), *rows])

    def __repr__(self) -> str:
        return f"EntryABI<{self}>"

    @property
    def input_count(self) -> int:
        """How many leading parameters are inputs."""
        return len(self.params) - self.output_count

    @property
    def input_params(self) -> tuple[ParamABI, ...]:
        """The inputs, weights included."""
        return self.params[: self.input_count]

    @property
    def output_params(self) -> tuple[ParamABI, ...]:
        """The outputs."""
        return self.params[self.input_count :]

    @property
    def activation_params(self) -> tuple[ParamABI, ...]:
        """The inputs that are no weights, in order."""
        weights = {index for index, _ in self.constants}
        return tuple(p for i, p in enumerate(self.input_params) if i not in weights)

    def without_inputs(self, left_out: Collection[int]) -> EntryABI:
        """The ABI of a call that takes only the other inputs; it has no constants and no inplace pairs."""
        kept = tuple(p for i, p in enumerate(self.input_params) if i not in left_out)
        return EntryABI(self.name, (*kept, *self.output_params), self.output_count)


def param_abi_of(var: Var) -> ParamABI:
    """The ABI of one parameter; the only place where it is derived. Thread-safe. TypeError for a tuple-typed one."""
    return ParamABI(var.name, var.type)  # type: ignore[arg-type]  # ParamABI itself refuses what is no TensorType


def entry_abi_of(fn: Function) -> EntryABI:
    """The ABI of a value-returning implementation of ``fn``: its declared parameters, no outputs. Thread-safe."""
    if not isinstance(fn, Function):
        raise TypeError(f"entry_abi_of takes a Function (decorate it with @func), got {type(fn).__name__}")
    weights = tuple((i, p.name) for i, p in enumerate(fn.params) if p.is_const)
    return EntryABI(fn.name, tuple(param_abi_of(p) for p in fn.params), constants=weights)
