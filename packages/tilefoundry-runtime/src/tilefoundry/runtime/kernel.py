"""One function of a twin: its kernel, its parameters, and how weights are filled into a call."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tilefoundry.ir.core.expr import Var
from tilefoundry.ir.twins import check_activation_count
from tilefoundry.runtime.function import RuntimeFunction

if TYPE_CHECKING:
    from tilefoundry.ir.core.module import AnyFunction

__all__ = ["BoundKernel", "KernelPlan", "Signature", "signature_of"]


@dataclass(frozen=True, slots=True)
class Signature:
    """What a kernel of one semantic function takes, in that function's own order."""

    name: str
    params: tuple[Var, ...]

    @property
    def activations(self) -> tuple[Var, ...]:
        """The parameters that a caller passes."""
        return tuple(p for p in self.params if not p.is_const)

    @property
    def constants(self) -> tuple[Var, ...]:
        """The weights."""
        return tuple(p for p in self.params if p.is_const)


def signature_of(function: AnyFunction) -> Signature:
    """The inputs of ``function``; a kernel returns its value, so outputs of a ``@prim_func`` are left out."""
    outputs = getattr(function, "output_count", 0)
    return Signature(function.name, function.params[: len(function.params) - outputs])


@dataclass(frozen=True, slots=True)
class KernelPlan:
    """A kernel with its weights in place.

    Attributes:
        signature: what it takes.
        kernel: called with every input; a method also gets the twin first.
        method: True for a method.
        template: the inputs, weights filled in and None where an activation goes.
        slots: where activations go.
    """

    signature: Signature
    kernel: Callable[..., Any]
    method: bool
    template: list[Any]
    slots: tuple[int, ...]

    @staticmethod
    def of(signature: Signature, kernel: Any, weight: Callable[[str], Any]) -> KernelPlan:
        """Fill in weights; ``weight`` gives the tensor at a dotted path below the twin."""
        template = [weight(p.name) if p.is_const else None for p in signature.params]
        slots = tuple(i for i, p in enumerate(signature.params) if not p.is_const)
        method = not isinstance(kernel, RuntimeFunction)
        if not method:
            # A compiled body also takes the weights of children that it calls into, after its own parameters.
            template += [
                weight(path) for index, path in kernel.type.constants if index >= len(signature.params)
            ]
        return KernelPlan(signature, kernel, method, template, slots)


class BoundKernel:
    """``twin.<function>``: takes activations alone. Threads and streams as the kernel says."""

    __slots__ = ("_plan", "_twin")

    def __init__(self, twin: Any, plan: KernelPlan) -> None:
        self._twin = twin
        self._plan = plan

    def __call__(self, *acts: Any) -> Any:
        """The kernel's value; TypeError for another number of arguments."""
        plan = self._plan
        if len(acts) != len(plan.slots):
            owner = self._twin.name
            check_activation_count(owner, plan.signature, len(acts), f"{owner}'s Module (twin.module)")
        args = plan.template.copy()
        for slot, value in zip(plan.slots, acts, strict=True):
            args[slot] = value
        if plan.method:
            return plan.kernel(self._twin, *args)
        return plan.kernel(*args)

    def __repr__(self) -> str:
        names = ", ".join(p.name for p in self._plan.signature.activations) or "none"
        return f"<{self._twin.name}.{self._plan.signature.name}({names}) of a twin>"


class KernelAccess:
    """Class attribute that stands for a kernel; gives a ``BoundKernel`` on an instance."""

    __slots__ = ("name",)

    def __init__(self, name: str) -> None:
        self.name = name

    def __get__(self, twin: Any, owner: type | None = None) -> Any:
        return self if twin is None else BoundKernel(twin, twin._twin_plan(self.name))

    def __repr__(self) -> str:
        return f"<kernel {self.name}>"


def bound_weights(owner: str, found: Mapping[str, Any] | None, name: str) -> Any:
    """The weight ``name``; RuntimeError where nothing was loaded yet."""
    if found is None:
        raise RuntimeError(
            f"{owner} needs the weight {name!r}, and nothing is loaded; call load(resource) first"
        )
    return found[name]
