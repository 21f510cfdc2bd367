"""Modules: named trees of functions, children and orchestration methods; pure IR without data."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType, MethodType
from typing import Any, Union

from tilefoundry.ir.core.forward import run_forward
from tilefoundry.ir.core.loaded import LoadedModule
from tilefoundry.ir.core.loading import load_module
from tilefoundry.ir.core.membership import check_members
from tilefoundry.ir.core.prepare import prepare_module
from tilefoundry.ir.core.resource import RuntimeResource, require_resource
from tilefoundry.ir.core.retarget import retarget_calls
from tilefoundry.ir.core.runners import ModuleRunner
from tilefoundry.ir.core.weight_table import WeightTable
from tilefoundry.ir.errors import CheckpointError, UnknownNameError, briefly
from tilefoundry.ir.hir.function import Function
from tilefoundry.ir.tir.function import PrimFunction
from tilefoundry.ir.types import TensorType

__all__ = ["AnyFunction", "LoadedModule", "Module", "WeightTable", "select", "unowned_copy"]

AnyFunction = Union[Function, PrimFunction]


class Module:
    """A named node: functions, children, methods, and what its subtree inherits.

    Args:
        name: the node's name; an attached child carries the name of the attribute it sits under.
        functions: HIR ``Function`` or TIR ``PrimFunction`` objects, in definition order.
        entry: the function that a bare call runs, or None.
        modules: children, already named.
        target: the Target of the whole tree; only a root declares one.
        topologies: None inherits the owner's levels, ``()`` means none, a tuple replaces them whole.
        metadata: free string-keyed facts; not part of the program.
        methods: plain Python functions bound at access (``forward``, ``init_caches``, ...).

    A Module is immutable; it seals its functions. A child that already has an owner is copied, so that the
    first owner's subtree stays as it was. ``mod.<name>`` resolves functions (as runners over every declared
    parameter), then children, then methods. Equality is structural; methods count by name.

    Raises:
        TypeError: a member, level or target of another kind.
        ValueError: clashing names, an unknown entry, repeated level names, a child that declares a target.
    """

    def __init__(
        self,
        name: str,
        functions: tuple[AnyFunction, ...] = (),
        entry: str | None = None,
        modules: tuple[Module, ...] = (),
        target: Any | None = None,
        topologies: tuple[Any, ...] | None = None,
        metadata: Mapping[str, Any] | None = None,
        methods: Mapping[str, Callable[..., Any]] | None = None,
    ) -> None:
        fields = {
            "name": name,
            "functions": tuple(functions),
            "entry": entry,
            "target": target,
            "topologies": None if topologies is None else tuple(topologies),
            "metadata": MappingProxyType(dict(metadata or {})),
            "methods": MappingProxyType(dict(methods or {})),
            "_owner": None,
            "_cache": {},
        }
        for key, value in fields.items():
            object.__setattr__(self, key, value)
        object.__setattr__(self, "modules", tuple(modules))
        check_members(self)
        object.__setattr__(self, "modules", tuple(_attached(self, child) for child in modules))
        for function in self.functions:
            function.seal()

    name: str
    functions: tuple[AnyFunction, ...]
    entry: str | None
    modules: tuple[Module, ...]
    target: Any | None
    topologies: tuple[Any, ...] | None
    metadata: Mapping[str, Any]
    methods: Mapping[str, Callable[..., Any]]
    _owner: Module | None
    _cache: dict[str, Any]

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(
            f"module {self.name!r} is immutable; build another Module instead of setting {name!r}"
        )

    def __delattr__(self, name: str) -> None:
        raise AttributeError(f"module {self.name!r} is immutable; {name!r} cannot be deleted")

    @property
    def owner(self) -> Module | None:
        """The Module this one is attached to, or None for a root."""
        return self._owner

    @property
    def root(self) -> Module:
        """The outermost owner; the module itself where it has none."""
        node = self
        while node._owner is not None:
            node = node._owner
        return node

    @property
    def path(self) -> str:
        """Dotted path below the root; empty for the root."""
        parts = []
        node = self
        while node._owner is not None:
            parts.append(node.name)
            node = node._owner
        return ".".join(reversed(parts))

    @property
    def weights(self) -> WeightTable:
        """The union of all functions' weight parameters, in (function, parameter) order.

        Raises ValueError where one name is declared with two types.
        """
        found: dict[str, TensorType] = {}
        for function in self.functions:
            for param in function.params:
                if param.is_const:
                    _add_weight(self, found, function.name, param)
        return WeightTable(found)

    def function_named(self, name: str) -> tuple[AnyFunction, ...]:
        """The function called ``name`` as a tuple of one, or an empty tuple."""
        return tuple(f for f in self.functions if f.name == name)

    def lookup(self, name: str) -> AnyFunction:
        """The function called ``name``; KeyError listing the functions there are otherwise."""
        found = self.function_named(name)
        if not found:
            raise UnknownNameError(f"module {self.name!r} has no function {name!r}; {self.callables()}")
        return found[0]

    def child(self, name: str) -> Module:
        """The child called ``name``; KeyError listing the children there are otherwise."""
        for child in self.modules:
            if child.name == name:
                return child
        names = ", ".join(c.name for c in self.modules) or "none"
        raise UnknownNameError(f"module {self.name!r} has no child {name!r}; children: {names}")

    def entry_function(self) -> AnyFunction:
        """The entry; ValueError listing what can be called where the module has none."""
        if self.entry is None:
            raise ValueError(f"module {self.name!r} has no entry; {self.callables()}")
        return self.lookup(self.entry)

    def callables(self) -> str:
        """One sentence that lists functions, children and methods, for messages."""
        groups = (
            ("functions", [f.name for f in self.functions]),
            ("children", [m.name for m in self.modules]),
            ("methods", list(self.methods)),
        )
        return "; ".join(f"{label}: {', '.join(names) or 'none'}" for label, names in groups)

    def effective_topologies(self) -> tuple[Any, ...]:
        """The levels in force here: the nearest declaration on the way to the root, or none."""
        node: Module | None = self
        while node is not None:
            if node.topologies is not None:
                return node.topologies
            node = node._owner
        return ()

    def resolve_topology(self, name: str) -> Any:
        """The level called ``name`` in force here; KeyError listing the levels there are otherwise."""
        levels = self.effective_topologies()
        for level in levels:
            if level.name == name:
                return level
        names = ", ".join(level.name for level in levels) or "none"
        raise UnknownNameError(f"module {self.name!r} has no topology {name!r}; levels in force: {names}")

    def resolve_target(self) -> Any:
        """The Target that the root declares, the identical instance; ValueError where nobody declared one."""
        target = self.root.target
        if target is None:
            raise ValueError(
                f"module {self.root.name!r} declares no target; give @module(target=...) or pass target= to the verb"
            )
        return target

    def load(self, resource: RuntimeResource) -> LoadedModule:
        """Read every weight of the tree by name and give a reading; the Module itself is left as it is.

        Args:
            resource: the scope that holds this node's weights under their bare names; children are read from
                its subtrees. The tensors stay where the resource put them.

        Raises:
            TypeError: something that is no resource.
            KeyError: a weight that the checkpoint does not hold.
            CheckpointError: tensors that disagree with their declarations, or a damaged file.
        """
        require_resource(f"{self.name}.load", resource)
        return briefly((UnknownNameError, CheckpointError), lambda: load_module(self, resource))

    def forward(self, *args: Any) -> Any:
        """Run the ``forward`` method if there is one, else the entry, with one argument per parameter.

        Raises:
            TypeError: the Module has neither, or another number of arguments.
            EvaluationError: an argument that disagrees with its declaration, or weights of children needed.
        """
        entry = None if self.entry is None else ModuleRunner(self.name, self.entry_function())
        return run_forward(
            self, args, name=self.name, methods=self.methods, entry=entry, callables=self.callables
        )

    __call__ = forward

    def prepare(self, raw: RuntimeResource, out_dir: str, *, device: str = "cpu") -> None:
        """Convert a published checkpoint to one that both this Module and its twins load.

        Writes one safetensors shard and its index, keyed by dotted paths, streamed weight by weight into a
        temporary folder that then takes ``out_dir``'s place in one step.

        Args:
            raw: the checkpoint under its own names.
            out_dir: a new or empty folder, or one that an earlier run wrote.
            device: where converters run.

        Raises:
            TypeError: ``raw`` is no resource.
            ValueError: ``out_dir`` is, holds or lies in the raw folder, or holds other files.
            KeyError: a tensor that the checkpoint does not hold.
            CheckpointError: a result that disagrees with the weight's declaration.
        """
        require_resource(f"{self.name}.prepare", raw)
        kinds = (UnknownNameError, CheckpointError)
        briefly(kinds, lambda: prepare_module(self, raw, out_dir, device=device))

    def cloned(self) -> Module:
        """A copy: functions, bodies and children are copies, internal calls reach the copies.

        It is no member of its owner, and resolves levels and target through it like the original.
        """
        return _owned_by(self._owner, unowned_copy(self, self.name))

    def renamed(self, name: str) -> Module:
        """``cloned()`` under another name: one definition, many layers."""
        return _owned_by(self._owner, unowned_copy(self, name))

    def __getattr__(self, name: str) -> Any:
        # Reached only for names that are no field; names with a leading underscore never resolve to members.
        if name.startswith("_"):
            raise AttributeError(name)
        return resolve_member(self, name)

    def __dir__(self) -> list[str]:
        members = [f.name for f in self.functions] + [m.name for m in self.modules] + list(self.methods)
        return sorted({*object.__dir__(self), *members})

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Module):
            return NotImplemented
        return self is other or _structure(self) == _structure(other)

    def __hash__(self) -> int:
        return hash(
            (
                self.name,
                self.entry,
                tuple(f.name for f in self.functions),
                tuple(m.name for m in self.modules),
            )
        )

    def __repr__(self) -> str:
        return f"Module({self.name!r}; {self.callables()})"


def select(module: Module, path: str) -> Module:
    """The module that the dotted ``path`` leads to through children.

    A last part that names a function enters the module before it there: the result is that module with the
    function as its entry, in the same surroundings (levels, target), and with all its weights and siblings.

    Raises KeyError naming the part that does not resolve.
    """
    node = module
    parts = path.split(".")
    for part in parts[:-1]:
        node = node.child(part)
    last = parts[-1]
    if not node.function_named(last):
        for child in node.modules:
            if child.name == last:
                return child
        raise UnknownNameError(
            f"module {node.name!r} has neither a child nor a function {last!r}; {node.callables()}"
        )
    return node if node.entry == last else _owned_by(node.owner, unowned_copy(node, node.name, entry=last))


def resolve_member(module: Module, name: str) -> Any:
    """What ``module.<name>`` is: a function runner, a child, or a bound method."""
    found = module.function_named(name)
    if found:
        return ModuleRunner(module.name, found[0])
    for child in module.modules:
        if child.name == name:
            return child
    if name in module.methods:
        return MethodType(module.methods[name], module)
    raise AttributeError(f"module {module.name!r} has no member {name!r}; {module.callables()}")


def _structure(module: Module) -> tuple[Any, ...]:
    return (
        module.name,
        module.functions,
        module.entry,
        module.target,
        module.topologies,
        dict(module.metadata),
        tuple(module.methods),
        module.modules,
    )


def _add_weight(module: Module, found: dict[str, TensorType], function: str, param: Any) -> None:
    known = found.setdefault(param.name, param.type)
    if known != param.type:
        raise ValueError(
            f"module {module.name!r}: the weight {param.name!r} is declared {known} and, in {function}, "
            f"{param.type}; one name has one type"
        )


def _attached(owner: Module, child: Module) -> Module:
    return _owned_by(owner, child if child._owner is None else unowned_copy(child, child.name))


def _owned_by(owner: Module | None, module: Module) -> Module:
    object.__setattr__(module, "_owner", owner)
    return module


def unowned_copy(module: Module, name: str, *, entry: str | None = None) -> Module:
    """A copy of ``module`` called ``name`` that inherits nothing, entered at ``entry`` where one is given."""
    children = tuple(unowned_copy(child, child.name) for child in module.modules)
    return Module(
        name,
        retarget_calls(module.functions, children),
        entry or module.entry,
        children,
        module.target,
        module.topologies,
        module.metadata,
        module.methods,
    )
