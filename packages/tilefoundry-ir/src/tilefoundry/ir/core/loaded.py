"""One reading of a Module: its weights as tensors, and its functions as callables on activations."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType, MethodType
from typing import TYPE_CHECKING, Any

from tilefoundry.ir.core.forward import run_forward
from tilefoundry.ir.core.reach import child_constants
from tilefoundry.ir.core.runners import LoadedRunner
from tilefoundry.ir.errors import UnknownNameError
from tilefoundry.ir.hir.function import Function

if TYPE_CHECKING:
    import torch

    from tilefoundry.ir.core.module import Module

__all__ = ["LoadedModule"]


class LoadedModule:
    """A Module together with one checkpoint's tensors; made by ``Module.load``.

    Attribute access mirrors the Module's: ``loaded.<function>`` takes activations alone, ``loaded.<child>``
    is the child's reading, ``loaded.<method>`` is bound to the reading.

    Args:
        module: the Module that was read.
        constants: weight name -> tensor, for this node.
        modules: the children's readings, in the Module's order.

    Immutable and thread-safe as long as nobody writes to its tensors; nothing here does.
    """

    __slots__ = ("_children", "_placements", "constants", "module", "modules")

    module: Module
    constants: Mapping[str, torch.Tensor]
    modules: tuple[LoadedModule, ...]

    def __init__(
        self, module: Module, constants: Mapping[str, torch.Tensor], modules: tuple[LoadedModule, ...] = ()
    ) -> None:
        fields = {
            "module": module,
            "constants": MappingProxyType(dict(constants)),
            "modules": tuple(modules),
            "_children": {child.module.name: child for child in modules},
            "_placements": {},
        }
        for name, value in fields.items():
            object.__setattr__(self, name, value)

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"a reading is immutable; {name!r} cannot be set, load again for other weights")

    @property
    def name(self) -> str:
        """The Module's name."""
        return self.module.name

    @property
    def entry(self) -> str | None:
        """The name of the function that a bare call runs, or None."""
        return self.module.entry

    def forward(self, *acts: Any) -> Any:
        """Run the ``forward`` method if the class body defined one, else the entry, on activations alone.

        Raises:
            TypeError: the Module has neither, or a wrong number of activations.
            EvaluationError: tensors on several devices, or one that disagrees with its declaration.
        """
        module = self.module
        entry = None if module.entry is None else self._runner(module.entry_function())
        return run_forward(
            self, acts, name=module.name, methods=module.methods, entry=entry, callables=module.callables
        )

    __call__ = forward

    def constant(self, path: str) -> torch.Tensor:
        """The weight at the dotted ``path`` (``"layer0.attention.wq"``); KeyError naming what there is."""
        *parts, name = path.split(".")
        return self._weight(tuple(parts), name)

    def _weight(self, path: tuple[str, ...], name: str) -> Any:
        node = self
        for part in path:
            if part not in node._children:
                children = ", ".join(node._children) or "none"
                raise UnknownNameError(f"{node.module.name} has no child {part!r}; children: {children}")
            node = node._children[part]
        if name not in node.constants:
            raise UnknownNameError(
                f"{node.module.name} has no weight {name!r}; weights: {', '.join(node.constants) or 'none'}"
            )
        return node.constants[name]

    def _runner(self, function: Any) -> LoadedRunner:
        return LoadedRunner(self.module.name, function, self._weight, self._placement)

    def _placement(self, function: Function) -> Mapping[Any, str]:
        # Two threads may both fill an entry; they find the same.
        known = self._placements.get(function.name)
        if known is None:
            known = self._placements[function.name] = self._find_placement(function)
        return known

    def _find_placement(self, function: Function) -> dict[Any, str]:
        where: dict[Any, str] = {}
        for name, tensor in self.constants.items():
            where.setdefault(tensor.device, name)
        for path, var in child_constants(function):
            where.setdefault(self._weight(path, var.name).device, ".".join((*path, var.name)))
        return where

    def __getattr__(self, name: str) -> Any:
        # Reached only for names that are no field; names with a leading underscore never resolve to members.
        if name.startswith("_"):
            raise AttributeError(name)
        found = self.module.function_named(name)
        if found:
            return self._runner(found[0])
        if name in self._children:
            return self._children[name]
        if name in self.module.methods:
            return MethodType(self.module.methods[name], self)
        raise AttributeError(
            f"the reading of {self.module.name!r} has no member {name!r}; {self.module.callables()}"
        )

    def __dir__(self) -> list[str]:
        module = self.module
        members = [f.name for f in module.functions] + list(self._children) + list(module.methods)
        return sorted({*object.__dir__(self), *members})

    def __repr__(self) -> str:
        return f"LoadedModule({self.module.name!r}; {len(self.constants)} weights; {self.module.callables()})"
