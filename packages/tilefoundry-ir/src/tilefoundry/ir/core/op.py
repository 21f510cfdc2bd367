"""Op schemas and their registry: one ``Op`` holds name, operands, attributes, type rule and evaluator."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tilefoundry.ir.core.expr import Call
from tilefoundry.ir.errors import TypeRuleError, UnknownNameError
from tilefoundry.ir.types import Type

if TYPE_CHECKING:
    from tilefoundry.ir.core.expr import Atom

__all__ = ["REQUIRED", "Attr", "Op", "OpRegistry"]


class _Required:
    """Marks an attribute without default."""

    def __repr__(self) -> str:
        return "REQUIRED"


REQUIRED = _Required()


@dataclass(frozen=True, slots=True)
class Attr:
    """A compile-time argument of an op.

    Attributes:
        name: keyword in the call.
        default: value where the call gives none; ``REQUIRED`` for none.
        convert: normalises what the author wrote (say a list to a tuple) or raises; None keeps it.
    """

    name: str
    default: Any = REQUIRED
    convert: Callable[[Any], Any] | None = None


@dataclass(frozen=True, slots=True, eq=False)
class Op:
    """An operation. Instances live in a registry; identity is equality.

    Attributes:
        name: spelling under ``tf.``.
        operands: names of the tensor operands; with ``variadic`` the last one repeats (one or more times).
        attrs: compile-time arguments, positional after the operands or by keyword.
        infer: ``infer(types, attrs) -> Type``; the type rule, raises ``TypeRuleError``.
        evaluate: ``evaluate(ctx, values, attrs) -> tensor | tuple``; reference semantics on torch tensors.
            ``ctx.dim(d)`` gives a dim's integer, ``ctx.device`` the device, ``ctx.result_type`` the inferred
            type. It must not write to its operands, and may return views of them.
        optional: how many trailing operands a call may leave out.
        normalize: ``normalize(types, attrs) -> attrs`` puts attributes into their one canonical form (negative
            axes, defaults that depend on the operands) before typing; None where they are canonical already.
        doc: the formula, one line.
    """

    name: str
    operands: tuple[str, ...]
    infer: Callable[[tuple[Type, ...], Mapping[str, Any]], Type]
    evaluate: Callable[[Any, tuple[Any, ...], Mapping[str, Any]], Any]
    attrs: tuple[Attr, ...] = ()
    variadic: bool = False
    optional: int = 0
    normalize: Callable[[tuple[Type, ...], Mapping[str, Any]], dict[str, Any]] | None = None
    doc: str = ""

    def __repr__(self) -> str:
        return f"Op({self.name!r})"

    def bind_attrs(self, given: Mapping[str, Any]) -> dict[str, Any]:
        """``given`` with defaults filled in and values normalised, in schema order.

        Raises:
            TypeRuleError: an unknown attribute, a missing one, or a value that its converter refuses.
        """
        names = [attr.name for attr in self.attrs]
        for name in given:
            if name not in names:
                takes = ", ".join(names) or "none"
                raise TypeRuleError(f"tf.{self.name} has no attribute {name!r}; its attributes: {takes}")
        return {attr.name: self._bound(attr, given) for attr in self.attrs}

    def _bound(self, attr: Attr, given: Mapping[str, Any]) -> Any:
        value = given.get(attr.name, attr.default)
        if value is REQUIRED:
            raise TypeRuleError(f"tf.{self.name} needs the attribute {attr.name!r}")
        if attr.convert is None:
            return value
        try:
            return attr.convert(value)
        except (TypeError, ValueError) as error:
            raise TypeRuleError(f"tf.{self.name}: attribute {attr.name}={value!r}: {error}") from None

    def call(self, args: Sequence[Atom], attrs: Mapping[str, Any] | None = None) -> Call:
        """A typed ``Call`` of this op.

        Raises:
            TypeRuleError: a wrong operand count, attribute or operand type.
        """
        self.check_arity(len(args))
        bound = self.bind_attrs(attrs or {})
        types = tuple(arg.type for arg in args)
        if self.normalize is not None:
            bound = self.normalize(types, bound)
        type_ = self.infer(types, bound)
        return Call(type_, self, tuple(args), tuple(bound.items()))

    def check_arity(self, count: int) -> None:
        """Raise TypeRuleError where a call with ``count`` operands does not fit the schema."""
        most = len(self.operands)
        least = most - self.optional
        if count < least or (count > most and not self.variadic):
            want = (
                f"{least} or more" if self.variadic else f"{least}" if least == most else f"{least} to {most}"
            )
            names = ", ".join(self.operands)
            raise TypeRuleError(f"tf.{self.name}({names}) takes {want} tensor operands, got {count}")


class OpRegistry(Mapping[str, Op]):
    """Ops by name, in registration order."""

    def __init__(self, label: str) -> None:
        self.label = label
        self._ops: dict[str, Op] = {}

    def register(self, op: Op) -> Op:
        """Add ``op`` and return it; a second op of one name is a ValueError."""
        if op.name in self._ops:
            raise ValueError(f"the {self.label} op {op.name!r} is registered twice")
        self._ops[op.name] = op
        return op

    def __getitem__(self, name: str) -> Op:
        try:
            return self._ops[name]
        except KeyError:
            raise UnknownNameError(
                f"there is no {self.label} op {name!r}; ops: {', '.join(self._ops)}"
            ) from None

    def __iter__(self) -> Any:
        return iter(self._ops)

    def __len__(self) -> int:
        return len(self._ops)
