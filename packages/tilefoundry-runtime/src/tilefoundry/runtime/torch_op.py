"""A compiled entry as a torch operator."""

from __future__ import annotations

import keyword
import re
import threading
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from tilefoundry.evaluator import torch_dtype
from tilefoundry.ir.types import Dim, DimVar, dim_vars
from tilefoundry.runtime.abi import EntryABI
from tilefoundry.runtime.allocation import Allocator
from tilefoundry.runtime.extents import extent_of, extent_sources

if TYPE_CHECKING:
    from tilefoundry.runtime.compiled import CompiledModule

# torch is imported where it is first needed: importing the runtime must not load it.

__all__ = ["register_op"]

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*::[A-Za-z_][A-Za-z0-9_]*")
_lock = threading.Lock()
_registered: dict[str, tuple[CompiledModule, Any, Callable[..., Any]]] = {}


def register_op(module: CompiledModule, name: str) -> Callable[..., Any]:
    """What ``CompiledModule.as_torch_op`` does; see there."""
    plain = isinstance(name, str) and _NAME.fullmatch(name)
    if not plain or any(keyword.iskeyword(part) for part in name.split("::")):
        raise ValueError(
            f"{module.name}: an operator's name is 'namespace::op', two identifiers that are no Python keywords, "
            f"got {name!r}"
        )
    refusal = Allocator(module.type).refusal()
    if refusal is not None:
        raise TypeError(refusal)
    with _lock:
        if name not in _registered:
            _registered[name] = (module, *_define(module, name))
        owner, _, operator = _registered[name]
    if owner is not module:
        raise ValueError(
            f"{module.name}: the operator {name} is another compiled module's; give this one its own name"
        )
    return operator


def _define(module: CompiledModule, name: str) -> tuple[Any, Callable[..., Any]]:
    """The library that keeps the registration alive, and the operator."""
    import torch

    namespace, op = name.split("::")
    if hasattr(getattr(torch.ops, namespace), op):
        raise ValueError(f"{module.name}: torch has an operator {name} already; take another name")
    library = torch.library.Library(namespace, "FRAGMENT")
    library.define(op + _schema(module.type), tags=(torch.Tag.pt2_compliant_tag,))
    library.impl(op, module.forward, "CompositeExplicitAutograd")
    torch.library.register_fake(name, _fake(module.type), lib=library)
    operator = getattr(getattr(torch.ops, namespace), op).default

    def outside_of_autograd(*args: Any) -> Any:
        with torch._C._AutoDispatchBelowAutograd():
            return operator(*args)

    library.impl(op, outside_of_autograd, "Autograd")
    return library, operator


def _schema(type: EntryABI) -> str:
    names = _argument_names([param.name for param in type.input_params])
    given = ", ".join(f"Tensor {name}" for name in names)
    made = ", ".join(["Tensor"] * type.output_count)
    return f"({given}) -> {made if type.output_count == 1 else f'({made})'}"


def _argument_names(names: Sequence[str]) -> list[str]:
    """``names`` as a schema takes them: identifiers, all different."""
    out: list[str] = []
    for index, name in enumerate(names):
        plain = re.sub(r"\W", "_", name, flags=re.ASCII)
        usable = plain.isidentifier() and not keyword.iskeyword(plain) and plain not in (*out, "self")
        out.append(plain if usable else f"input_{index}")
    return out


def _fake(type: EntryABI) -> Callable[..., Any]:
    """Outputs without data, shaped as a call would; extents may be symbols."""
    allocate = Allocator(type)

    def fake(*args: Any) -> Any:
        _check_kinds(type, args)
        _check_extents(type, args)
        outputs = allocate(args)
        return outputs[0] if len(outputs) == 1 else tuple(outputs)

    return fake


def _check_kinds(type: EntryABI, args: Sequence[Any]) -> None:
    for param, value in zip(type.input_params, args, strict=True):
        if value.dim() != param.type.rank or value.dtype is not torch_dtype(param.type.dtype):
            raise ValueError(
                f"{type.name}: {param.name} is {value.dtype} of rank {value.dim()}, declared {param.type}"
            )


def _check_extents(type: EntryABI, args: Sequence[Any]) -> None:
    """Hold every extent against its declaration; where they are symbols, torch guards what follows from it."""
    env = {name: read(args) for name, read in extent_sources(type).items()}
    for param, value in zip(type.input_params, args, strict=True):
        for axis, dim in enumerate(param.type.shape):
            if isinstance(dim, DimVar):
                _require(
                    dim.lo <= value.shape[axis] and value.shape[axis] < dim.hi,
                    f"{type.name}: {param.name} gives {dim.name} = {value.shape[axis]}, "
                    f"outside its range [{dim.lo}, {dim.hi})",
                )
            if all(var.name in env for var in dim_vars(dim)):
                expected = extent_of(dim, env)
                _require(
                    value.shape[axis] == expected,
                    f"{type.name}: axis {axis} of {param.name} is {value.shape[axis]}, expected {_sum(dim, expected)}",
                )


def _sum(dim: Dim, value: Any) -> str:
    return str(dim) if isinstance(dim, int) else f"{dim} = {value}"


def _require(condition: Any, message: str) -> None:
    import torch

    torch._check_value(condition, lambda: message)
