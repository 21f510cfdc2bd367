"""What ``node.<function>`` gives: over every parameter on a Module, over activations on a reading."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from tilefoundry.evaluator import evaluate
from tilefoundry.ir.core.reach import child_constants
from tilefoundry.ir.errors import EvaluationError
from tilefoundry.ir.hir.function import Function
from tilefoundry.ir.tir.function import PrimFunction

__all__ = ["LoadedRunner", "ModuleRunner", "check_activation_count"]


@dataclass(frozen=True, slots=True)
class ModuleRunner:
    """A function of a bare Module; takes one tensor per declared parameter, weights included. Thread-safe.

    Attributes:
        owner: the module's name, for messages.
        function: what runs.
    """

    owner: str
    function: Function | PrimFunction

    def __call__(self, *args: Any) -> Any:
        """The function's value.

        Raises:
            TypeError: another number of arguments, or a ``@prim_func``.
            EvaluationError: an argument that disagrees with its declaration, or weights of children needed.
        """
        function = _evaluable(self.owner, self.function)
        if len(args) != len(function.params):
            raise TypeError(self._wrong_count(function, len(args)))
        below = child_constants(function)
        if below:
            path, weight = below[0]
            raise EvaluationError(
                f"{self.owner}.{function.name} reads {'.'.join((*path, weight.name))}, a child's weight, which a "
                f"bare Module does not hold; read a checkpoint with .load(resource) and call it there"
            )
        return evaluate(function, *args)

    def _wrong_count(self, function: Function, got: int) -> str:
        label = f"{self.owner}.{function.name}"
        text = f"{label} takes every declared parameter ({_names(function.params)}), got {got}"
        if function.constants and got == len(function.activations):
            return (
                f"{text}, the activations alone; a reading fills the weights: "
                f"{self.owner}.load(resource).{function.name}({_names(function.activations)})"
            )
        return text

    def __repr__(self) -> str:
        return f"<{self.owner}.{self.function.name}({_names(self.function.params)}) of a Module>"


@dataclass(frozen=True, slots=True)
class LoadedRunner:
    """A function of one reading; takes activations alone, its weights filled by name. Thread-safe.

    Attributes:
        owner: the module's name, for messages.
        function: what runs.
        weight: ``weight(path, name)``, the tensor of this reading's child at ``path``.
        placement: device -> name of one weight there, over the weights that must agree.
    """

    owner: str
    function: Function | PrimFunction
    weight: Callable[[tuple[str, ...], str], Any]
    placement: Callable[[Function], Mapping[Any, str]]

    def __call__(self, *acts: Any) -> Any:
        """The function's value on ``acts``, run on the one device where they and the weights sit.

        Raises:
            TypeError: another number of arguments, or a ``@prim_func``.
            EvaluationError: tensors on several devices, or an argument that disagrees with its declaration.
        """
        function = _evaluable(self.owner, self.function)
        check_activation_count(self.owner, function, len(acts), f"{self.owner}'s Module (loaded.module)")
        device = _agreed_device(f"{self.owner}.{function.name}", self.placement(function), function, acts)
        given = iter(acts)
        args = [self.weight((), p.name) if p.is_const else next(given) for p in function.params]
        return evaluate(function, *args, constants=self.weight, device=device)

    def __repr__(self) -> str:
        return f"<{self.owner}.{self.function.name}({_names(_activations(self.function))}) of a reading>"


def check_activation_count(owner: str, function: Any, got: int, full: str) -> None:
    """Raise TypeError unless ``got`` activations fit; ``full`` says what takes every parameter."""
    acts = function.activations
    if got == len(acts):
        return
    text = f"{owner}.{function.name} takes its activations alone ({_names(acts)}), got {got}"
    if function.constants and got == len(function.params):
        text += (
            f", one per declared parameter; the weights ({_names(function.constants)}) are filled in here, "
            f"call {full} to pass them yourself"
        )
    raise TypeError(text)


def _evaluable(owner: str, function: Function | PrimFunction) -> Function:
    if isinstance(function, Function):
        return function
    raise TypeError(f"{owner}.{function.name} is a @prim_func, which the evaluator does not run; compile it")


def _agreed_device(label: str, weights: Mapping[Any, str], function: Function, acts: tuple[Any, ...]) -> Any:
    import torch  # here, not at the top: importing the IR must not load torch

    where = dict(weights)
    for param, value in zip(function.activations, acts, strict=True):
        if isinstance(value, torch.Tensor):
            where.setdefault(value.device, param.name)
    if len(where) > 1:
        listed = ", ".join(f"{name} on {device}" for device, name in where.items())
        raise EvaluationError(
            f"{label}: weights and activations must sit on one device, got {listed}; "
            "build the activations where the resource put the weights"
        )
    return next(iter(where), None)


def _activations(function: Function | PrimFunction) -> tuple[Any, ...]:
    return function.activations if isinstance(function, Function) else function.params


def _names(params: tuple[Any, ...]) -> str:
    return ", ".join(p.name for p in params) or "none"
