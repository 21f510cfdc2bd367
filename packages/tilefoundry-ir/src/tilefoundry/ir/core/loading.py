"""Read a Module's weights from a resource, checked against their declarations."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tilefoundry.evaluator.dtypes import dtype_of_tensor, torch_dtype
from tilefoundry.ir.core.loaded import LoadedModule
from tilefoundry.ir.core.resource import RuntimeResource
from tilefoundry.ir.errors import CheckpointError, EvaluationError, UnknownNameError
from tilefoundry.ir.types import TensorType, bounds

if TYPE_CHECKING:
    from tilefoundry.ir.core.module import Module

__all__ = ["WeightSlot", "check_tensor", "describe_tensor", "load_module", "read_slots", "weight_slots"]

_LISTED = 8


@dataclass(frozen=True, slots=True)
class WeightSlot:
    """One declared weight of a tree.

    Attributes:
        path: the child segments from the tree's root.
        name: the weight's name in its module.
        type: its declaration.
        function: the first function that declares it.
        converted: True where that function has a converter for it.
    """

    path: tuple[str, ...]
    name: str
    type: TensorType
    function: str
    converted: bool

    @property
    def key(self) -> str:
        """The dotted path, which is its key in a prepared checkpoint."""
        return ".".join((*self.path, self.name))


def weight_slots(module: Module, path: tuple[str, ...] = (), *, deep: bool = True) -> Iterator[WeightSlot]:
    """Every declared weight of ``module`` and, with ``deep``, of its children; parents first, in order."""
    declared_by = {p.name: f for f in reversed(module.functions) for p in f.params if p.is_const}
    for name, type_ in module.weights.items():
        function = declared_by[name]
        converted = any(name in getattr(f, "converters", {}) for f in module.functions)
        yield WeightSlot(path, name, type_, function.name, converted)
    if deep:
        for child in module.modules:
            yield from weight_slots(child, (*path, child.name))


def load_module(module: Module, resource: RuntimeResource) -> LoadedModule:
    """A reading of ``module``; the Module itself stays as it is.

    Raises:
        KeyError: a weight that the checkpoint does not hold.
        CheckpointError: tensors that disagree with their declarations, all named, or a damaged file.
    """
    tensors = read_slots(module.name, tuple(weight_slots(module)), resource)
    return _assemble(module, (), tensors)


def read_slots(
    owner: str, slots: Sequence[WeightSlot], resource: RuntimeResource
) -> Mapping[tuple[tuple[str, ...], str], Any]:
    """(path, name) -> tensor for every slot, read through ``resource.read_many`` where it has that.

    Raises as ``load_module`` does; nothing is kept on failure.
    """
    many = getattr(resource, "read_many", None)
    if many is None:
        tensors = list(_read_singly(slots, resource))
    else:
        found = many([slot.key for slot in slots])
        tensors = [found[slot.key] for slot in slots]
    problems = [
        text for slot, tensor in zip(slots, tensors, strict=True) if (text := check_tensor(slot, tensor))
    ]
    if problems:
        raise CheckpointError(_listed(owner, problems))
    return {(slot.path, slot.name): tensor for slot, tensor in zip(slots, tensors, strict=True)}


def _read_singly(slots: Iterable[WeightSlot], resource: RuntimeResource) -> Iterator[Any]:
    scopes: dict[tuple[str, ...], RuntimeResource] = {(): resource}

    def scope(path: tuple[str, ...]) -> RuntimeResource:
        if path not in scopes:
            scopes[path] = scope(path[:-1]).subtree(path[-1])
        return scopes[path]

    for slot in slots:
        try:
            yield scope(slot.path).load(slot.name)
        except KeyError as error:
            raise UnknownNameError(f"{slot.key}: {error}") from None


def check_tensor(slot: WeightSlot, tensor: Any) -> str | None:
    """What is wrong with ``tensor`` as the weight of ``slot``, with the remedy; None where nothing is."""
    declared = slot.type
    if tensor.dtype is torch_dtype(declared.dtype) and _fits(tensor.shape, declared):
        return None
    remedy = (
        "its converter is applied by prepare: load from the folder that prepare wrote"
        if slot.converted
        else f'add a converter with @{slot.function}.converter("{slot.name}")'
    )
    return f"{slot.key}: checkpoint holds {describe_tensor(tensor)}, declared {declared}; {remedy}"


def describe_tensor(tensor: Any) -> str:
    """``bf16[512, 4096]``; torch's own name for an element type that the IR has none for."""
    try:
        dtype = dtype_of_tensor(tensor).name
    except EvaluationError:
        dtype = str(tensor.dtype).removeprefix("torch.")
    return f"{dtype}[{', '.join(map(str, tensor.shape))}]"


def _fits(shape: Sequence[int], declared: TensorType) -> bool:
    if len(shape) != declared.rank:
        return False
    for extent, dim in zip(shape, declared.shape, strict=True):
        low, high = (dim, dim) if isinstance(dim, int) else bounds(dim)
        if not low <= extent <= high:
            return False
    return True


def _listed(owner: str, problems: Sequence[str]) -> str:
    if len(problems) == 1:
        return problems[0]
    more = len(problems) - _LISTED
    shown = [*problems[:_LISTED], *([f"... and {more} more"] if more > 0 else [])]
    return f"{owner}: {len(problems)} weights disagree with their declarations:\n  " + "\n  ".join(shown)


def _assemble(
    module: Module, path: tuple[str, ...], tensors: Mapping[tuple[tuple[str, ...], str], Any]
) -> LoadedModule:
    constants = {name: tensors[path, name] for name in module.weights}
    children = tuple(_assemble(child, (*path, child.name), tensors) for child in module.modules)
    return LoadedModule(module, constants, children)
