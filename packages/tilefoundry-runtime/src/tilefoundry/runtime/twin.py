"""The machinery of generated twins: structure from a Module, weights from a resource, kernels from a class."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, ClassVar

from tilefoundry.ir.core.resource import require_resource
from tilefoundry.ir.errors import CheckpointError, UnknownNameError, briefly
from tilefoundry.ir.twins import WeightSlot, read_slots, run_forward, weight_slots
from tilefoundry.runtime.correspondence import structure_difference
from tilefoundry.runtime.kernel import BoundKernel, KernelPlan, bound_weights, signature_of
from tilefoundry.runtime.module import RuntimeModule

if TYPE_CHECKING:
    from tilefoundry.ir.core.module import Module
    from tilefoundry.ir.core.resource import RuntimeResource

__all__ = ["Twin"]

Path = tuple[str, ...]


class Twin(RuntimeModule):
    """Base of the classes that ``runtime_module`` generates.

    Args:
        ir: the Module that the instance stands for; the decorated one where left out. It must have the same
            functions and children, so that one class serves every copy of a layer.

    ``load`` reads and checks the whole tree before it binds anything, so that a failure leaves the weights
    that were there. ``load`` must not overlap with calls of the same instance.
    """

    _twin_semantic: ClassVar[Module]
    _twin_kernels: ClassVar[Mapping[str, Any]]
    _twin_children: ClassVar[Mapping[str, type[RuntimeModule]]]

    def __init__(self, ir: Module | None = None) -> None:
        build_twin(self, ir)

    def forward(self, *args: Any) -> Any:
        """Run the Module's ``forward`` method if it has one, else the entry's kernel, on activations alone.

        Raises:
            TypeError: the Module has neither, or a wrong number of activations.
        """
        ir = self.__dict__["module"]
        entry = None if ir.entry is None else BoundKernel(self, self._twin_plan(ir.entry))
        return run_forward(self, args, name=ir.name, methods=ir.methods, entry=entry, callables=ir.callables)

    def load(self, resource: RuntimeResource) -> None:
        """Read every weight of the tree by name, check all of them, then bind.

        Raises:
            TypeError: ``resource`` is none.
            KeyError: a weight that the checkpoint does not hold.
            CheckpointError: tensors that disagree with their declarations, or a damaged file.
        """
        require_resource(f"{self.name}.load", resource)
        briefly((UnknownNameError, CheckpointError), lambda: self._twin_load(resource))

    def _twin_load(self, resource: RuntimeResource) -> None:
        nodes = dict(_generated(self, ()))
        slots: list[WeightSlot] = []
        for path, node in nodes.items():
            slots += weight_slots(node.__dict__["module"], path, deep=False)
        tensors = read_slots(self.name, slots, resource)
        # A hand-written child may fail as well, so it goes before anything is bound here.
        for path, child in _handwritten(self, ()):
            child.load(_scope(resource, path))
        for path, node in nodes.items():
            _bind(node, {name: tensor for (at, name), tensor in tensors.items() if at == path})

    def _twin_plan(self, name: str) -> KernelPlan:
        # Two threads may both fill an entry; they make the same.
        plans = self.__dict__["_twin_plans"]
        if name not in plans:
            function = self.__dict__["module"].lookup(name)
            plans[name] = KernelPlan.of(
                signature_of(function), type(self)._twin_kernels[name], self._twin_weight
            )
        return plans[name]

    def _twin_weight(self, path: str) -> Any:
        *parts, name = path.split(".")
        node: Any = self
        for part in parts:
            node = next(child for child in node.modules if child.name == part)
        if not isinstance(node, Twin):
            raise RuntimeError(
                f"{self.name}: {path} belongs to {node!r}, which is written by hand and keeps its own"
            )
        return bound_weights(node.name, node.__dict__["_twin_weights"], name)


def build_twin(twin: Twin, ir: Module | None) -> None:
    """Give a fresh instance its name, children and Module; TypeError where ``ir`` is another program."""
    semantic = type(twin)._twin_semantic
    node = semantic if ir is None else ir
    if node is not semantic and (difference := structure_difference(semantic, node)):
        raise TypeError(
            f"{type(twin).__name__} stands for {semantic.name!r}, not for {node.name!r}: {difference}"
        )
    classes = type(twin)._twin_children
    children = tuple(classes[child.name](ir=child) for child in node.modules)  # type: ignore[call-arg]  # child classes take ir=
    RuntimeModule.__init__(twin, node.name, node.entry, children)
    twin.module = node
    # The class holds the children's classes under the same names.
    twin.__dict__.update({child.name: child for child in children})
    twin.__dict__.update(_twin_weights=None, _twin_plans={})


def _bind(twin: Twin, weights: Mapping[str, Any]) -> None:
    twin.__dict__["_twin_weights"] = dict(weights)
    twin.__dict__["_twin_plans"] = {}


def _scope(resource: RuntimeResource, path: Path) -> RuntimeResource:
    for part in path:
        resource = resource.subtree(part)
    return resource


def _generated(node: RuntimeModule, path: Path) -> Iterator[tuple[Path, Twin]]:
    if isinstance(node, Twin):
        yield path, node
        for child in node.modules:
            yield from _generated(child, (*path, child.name))


def _handwritten(node: RuntimeModule, path: Path) -> Iterator[tuple[Path, RuntimeModule]]:
    for child in node.modules:
        below = (*path, child.name)
        if isinstance(child, Twin):
            yield from _handwritten(child, below)
        else:
            yield below, child
