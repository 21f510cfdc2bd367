"""Turn a published checkpoint into one that a Module and its twins load: converters run once, offline."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from tilefoundry.evaluator import evaluate
from tilefoundry.ir.core.loading import WeightSlot, check_tensor, describe_tensor, weight_slots
from tilefoundry.ir.core.publish import check_destination, staged_folder
from tilefoundry.ir.core.resource import RuntimeResource
from tilefoundry.ir.core.shard_file import write_checkpoint
from tilefoundry.ir.errors import CheckpointError, EvaluationError, UnknownNameError
from tilefoundry.ir.types import DType

if TYPE_CHECKING:
    from tilefoundry.ir.core.module import Module
    from tilefoundry.ir.hir.function import Function

# torch and tqdm are imported where they are first needed: importing the IR must not load them.

__all__ = ["prepare_module"]


def prepare_module(module: Module, raw: RuntimeResource, out_dir: str, *, device: str = "cpu") -> None:
    """What ``Module.prepare`` does; see there."""
    target = check_destination(out_dir, getattr(raw, "folder", None))
    # Wide elements first: every tensor then begins at a multiple of its element's size.
    slots = sorted(weight_slots(module), key=lambda slot: -slot.type.dtype.itemsize)
    layout = [(slot.key, _code(slot), _static_shape(slot)) for slot in slots]
    with staged_folder(target) as folder:
        write_checkpoint(folder, layout, _values(module, slots, raw, device))


def _code(slot: WeightSlot) -> str:
    # f4e2m1 is kept as one byte code per element, as the evaluator holds it.
    dtype = slot.type.dtype
    code = "U8" if dtype is DType.f4e2m1 else dtype.safetensors
    assert code is not None
    return code


def _static_shape(slot: WeightSlot) -> tuple[int, ...]:
    if not slot.type.is_static:
        raise CheckpointError(
            f"{slot.key} is declared {slot.type}; a prepared weight has one shape, give it integers"
        )
    return slot.type.concrete_shape({})


def _values(module: Module, slots: list[WeightSlot], raw: RuntimeResource, device: str) -> Iterator[Any]:
    from tqdm import tqdm

    for slot in tqdm(slots, desc=f"prepare {module.name}", unit="weight", disable=None):
        yield _value(_node(module, slot.path), slot, _scope(raw, slot.path), device)
        _return_freed_memory()


def _return_freed_memory() -> None:
    """Give freed pages back to the system; glibc keeps one weight's hole below every long-lived allocation."""
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None) if os.name == "posix" else None
    if trim is not None:
        trim(0)


def _node(module: Module, path: tuple[str, ...]) -> Module:
    for part in path:
        module = module.child(part)
    return module


def _scope(raw: RuntimeResource, path: tuple[str, ...]) -> RuntimeResource:
    for part in path:
        raw = raw.subtree(part)
    return raw


def _value(node: Module, slot: WeightSlot, scope: RuntimeResource, device: str) -> Any:
    converter = _converter(node, slot)
    if converter is None:
        value = _raw_tensor(slot, scope, slot.name)
        problem = check_tensor(slot, value)
    else:
        value = _converted(slot, converter, scope, device)
        problem = _check_converted(slot, converter, value)
    if problem:
        raise CheckpointError(problem)
    return value.detach().cpu()


def _converter(node: Module, slot: WeightSlot) -> Function | None:
    found = [f for f in node.functions if slot.name in getattr(f, "converters", {})]
    if len(found) > 1:
        names = " and ".join(f.name for f in found)
        raise CheckpointError(f"{slot.key} has a converter in {names}; keep one")
    return found[0].converters[slot.name] if found else None  # type: ignore[union-attr]  # only a HIR Function has converters


def _converted(slot: WeightSlot, converter: Function, scope: RuntimeResource, device: str) -> Any:
    args = [_raw_tensor(slot, scope, param.name).to(device) for param in converter.params]
    for param, arg in zip(converter.params, args, strict=True):
        held, declared = describe_tensor(arg), str(param.type)
        if held.partition("[")[0] != declared.partition("[")[0]:
            raise CheckpointError(
                f"{slot.key}: checkpoint holds {param.name} as {held}, its converter declares {declared}; "
                "declare what the checkpoint stores and cast in the converter's body"
            )
    try:
        return evaluate(converter, *args, device=device)
    except EvaluationError as error:
        raise CheckpointError(f"{slot.key}: its converter does not fit the checkpoint: {error}") from error


def _raw_tensor(slot: WeightSlot, scope: RuntimeResource, name: str) -> Any:
    try:
        return _read_raw(slot, scope, name)
    except KeyError as error:
        raise UnknownNameError(f"{slot.key}: {error}") from None


def _read_raw(slot: WeightSlot, scope: RuntimeResource, name: str) -> Any:
    import torch

    group = scope.load_group(name)
    if group is None:
        return scope.load(name)
    kinds = list(dict.fromkeys(describe_tensor(tensor) for tensor in group))
    if len(kinds) != 1:
        raise CheckpointError(
            f"{slot.key}: the group {name!r} stacks tensors of one type, got {', '.join(kinds)}"
        )
    return torch.stack(group)


def _check_converted(slot: WeightSlot, converter: Function, value: Any) -> str | None:
    if not check_tensor(slot, value):
        return None
    return f"{slot.key}: its converter {converter.name} gives {describe_tensor(value)}, declared {slot.type}"
