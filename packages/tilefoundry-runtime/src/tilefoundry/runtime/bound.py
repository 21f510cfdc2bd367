"""A compiled entry with its weights fixed."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from tilefoundry.ir.core.module import LoadedModule
from tilefoundry.ir.core.resource import RuntimeResource
from tilefoundry.ir.errors import UnknownNameError
from tilefoundry.ir.twins import WeightSlot, read_slots
from tilefoundry.runtime.abi import EntryABI
from tilefoundry.runtime.allocation import explain_mismatch
from tilefoundry.runtime.arguments import obstacle
from tilefoundry.runtime.call_path import CALL_SIGNATURE, write_call
from tilefoundry.runtime.near_names import near_names

if TYPE_CHECKING:
    from tilefoundry.runtime.compiled import CompiledModule

# torch and tvm_ffi are imported where they are first needed: importing the runtime must not load them.

__all__ = ["BoundModule", "gathered"]


class BoundModule:
    """A compiled entry whose weights are fixed; called with activations, or with activations and outputs.

    Made by ``CompiledModule.bind``. Keeps the weights alive. Threads and streams as for ``CompiledModule``.

    Attributes:
        compiled: the entry.
        type: its ABI.
        constants: dotted path -> weight.
    """

    # As in CompiledModule, each instance has a call of its own.
    __slots__ = ("__call__", "__dict__")

    def __init__(self, compiled: CompiledModule, constants: Mapping[int, Any]) -> None:
        self.compiled = compiled
        self.type = compiled.type
        self.constants = {path: constants[index] for index, path in compiled.type.constants}
        self._weights = constants
        self._passed = {index: _converted(tensor) for index, tensor in constants.items()}
        self.__signature__ = CALL_SIGNATURE
        self.__call__: Callable[..., Any] = write_call(
            self.type, compiled._fn, self.forward, self._explain, self._passed
        )

    def forward(self, *acts: Any) -> Any:
        """The entry's value; a call does the same.

        Raises:
            TypeError, ValueError: as ``CompiledModule.forward``.
        """
        taken = self.type.input_count - len(self._weights)
        outputs = acts[taken:]
        if len(acts) < taken or len(outputs) not in (0, self.type.output_count):
            raise TypeError(self._wrong_count(len(acts)))
        shapes, args = self._filled(acts, self._weights), self._filled(acts, self._passed)
        if outputs:
            return self.compiled.into([*args, *outputs], outputs)
        self.compiled.check_torch(shapes)
        return self.compiled.allocating(shapes, args)

    def _filled(self, acts: tuple[Any, ...], weights: Mapping[int, Any]) -> list[Any]:
        given = iter(acts)
        return [weights[i] if i in weights else next(given) for i in range(self.type.input_count)]

    def _explain(self, acts: Sequence[Any], cause: Exception) -> None:
        taken = self.type.input_count - len(self._weights)
        inputs = self._filled(tuple(acts[:taken]), self._weights)
        self.compiled.explain([*inputs, *acts[taken:]], cause)

    def _wrong_count(self, count: int) -> str:
        names = ", ".join(p.name for p in self.type.activation_params) or "none"
        outputs = ", ".join(p.name for p in self.type.output_params) or "none"
        return (
            f"{self.type.name} takes its activations alone ({names}), or those and its outputs "
            f"({outputs}), got {count} arguments; its weights are bound"
        )

    def __repr__(self) -> str:
        return f"BoundModule({self.type.name!r}; {len(self.constants)} weights)"


def _converted(tensor: Any) -> Any:
    """``tensor`` as the foreign function interface passes it, so that no call has to convert it again."""
    import tvm_ffi

    return tvm_ffi.from_dlpack(tensor.detach())


def gathered(type: EntryABI, constants: LoadedModule | RuntimeResource | Mapping[str, Any]) -> dict[int, Any]:
    """Input index -> weight, all checked; raises as ``CompiledModule.bind`` says."""
    if isinstance(constants, LoadedModule):
        found = {index: constants.constant(path) for index, path in type.constants}
    elif isinstance(constants, Mapping):
        _require_all(type, constants)
        found = {index: constants[path] for index, path in type.constants}
    elif isinstance(constants, RuntimeResource):
        found = _read(type, constants)
    else:
        raise TypeError(
            f"{type.name}: bind takes a LoadedModule, a resource or a mapping of tensors, got "
            f"{constants.__class__.__name__}; give it what the Module's load(resource) returns, or, without the "
            "Module, SafetensorsResource(folder) of a prepared checkpoint or a dict by the weights' dotted paths"
        )
    _check_constants(type, found)
    return found


def _require_all(type: EntryABI, given: Mapping[str, Any]) -> None:
    """UnknownNameError naming the weights that ``given`` lacks, each with the nearest names that it has."""
    missing = [path for _, path in type.constants if path not in given]
    if not missing:
        return
    wanted = {path for _, path in type.constants}
    others = [name for name in given if isinstance(name, str) and name not in wanted]
    listed = ", ".join(path + _hint(near_names(path, others)) for path in missing)
    raise UnknownNameError(
        f"{type.name}: the mapping lacks {listed}; give a tensor for each weight by its dotted path"
    )


def _hint(near: list[str]) -> str:
    return f" (it holds {', '.join(near)})" if near else ""


def _read(type: EntryABI, resource: RuntimeResource) -> dict[int, Any]:
    """The weights of a prepared checkpoint, whose keys are the paths that the entry knows them by."""
    slots = {}
    for index, path in type.constants:
        *scopes, name = path.split(".")
        declared = type.params[index].type
        # No Module is at hand that could convert: what disagrees is to come from the folder that prepare wrote.
        slots[index] = WeightSlot(tuple(scopes), name, declared, type.name, converted=True)
    tensors = read_slots(type.name, tuple(slots.values()), resource)
    return {index: tensors[slot.path, slot.name] for index, slot in slots.items()}


def _check_constants(type: EntryABI, found: Mapping[int, Any]) -> None:
    import torch

    where: dict[Any, str] = {}
    for index, tensor in found.items():
        param = type.params[index]
        if not isinstance(tensor, torch.Tensor):
            raise TypeError(f"{type.name}: the weight {param.name} must be a torch.Tensor, got {tensor!r}")
        why = obstacle(tensor)
        if why is not None:
            raise TypeError(f"{type.name}: the weight {param.name} {why}")
        explain_mismatch(EntryABI(type.name, (param,)), (tensor,))
        if param.type.layout is None and not tensor.is_contiguous():
            raise ValueError(
                f"{type.name}: the weight {param.name} is not contiguous; bind {param.name}.contiguous()"
            )
        where.setdefault(tensor.device, param.name)
    if len(where) > 1:
        listed = ", ".join(f"{name} on {device}" for device, name in where.items())
        raise ValueError(f"{type.name}: weights must sit on one device, got {listed}")
