"""Write a twin as a plain class: kernels are tagged methods, children are classes, the rest comes from the Module."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from tilefoundry.ir.core.module import Module
from tilefoundry.runtime.correspondence import names_difference, structure_difference
from tilefoundry.runtime.function import RuntimeFunction
from tilefoundry.runtime.kernel import KernelAccess, Signature, signature_of
from tilefoundry.runtime.module import RuntimeModule
from tilefoundry.runtime.twin import Twin, build_twin

__all__ = ["runtime_func", "runtime_module"]

F = TypeVar("F", bound=Callable[..., Any])

_TAG = "__tilefoundry_kernel__"
_RESERVED = ("module", "name", "entry", "modules", "load")
_RESERVED_MEMBERS = (*_RESERVED, "forward")


def runtime_func(fn: F) -> F:
    """Tag a method as the kernel of the semantic function of the same name.

    It takes that function's parameters in that function's order, weights included; callers pass activations
    alone. It runs on the threads of its callers; work on a GPU belongs on the framework's current stream.
    TypeError for anything but a plain method.
    """
    tagged: Any = fn
    if not inspect.isfunction(tagged):
        raise TypeError(f"@runtime_func tags a plain method, got {fn!r}")
    setattr(tagged, _TAG, True)
    return fn


def runtime_module(sem: Module) -> Callable[[type], type[Twin]]:
    """A class decorator: the class becomes the runtime twin of ``sem``.

    The class holds one ``@runtime_func`` method, or one ``RuntimeFunction`` instance, per function of ``sem``,
    and one RuntimeModule subclass per child (as an attribute of the child's name, or in a dict attribute from
    names to classes). Orchestration methods are taken over from ``sem``; an own ``forward`` is kept. An own
    ``__init__(self)`` runs once the instance has its structure. Instances share nothing but ``sem`` and
    RuntimeFunction instances; threads and streams of each are as for ``RuntimeModule``.

    Raises:
        TypeError: anything missing, extra or of another signature, or a name in ``sem`` that a twin needs.
    """
    if not isinstance(sem, Module):
        raise TypeError(f"@runtime_module takes the Module that the class is the twin of, got {sem!r}")
    _check_reserved(sem)

    def decorate(cls: type) -> type[Twin]:
        if not inspect.isclass(cls):
            raise TypeError(f"@runtime_module({sem.name}) decorates a class, got {cls!r}")
        members = _members(cls)
        kernels = {name: value for name, value in members.items() if _is_kernel(value)}
        children = _child_classes(cls, members)
        _check_members(sem, cls, members, kernels, children)
        return _generated_class(sem, cls, kernels, children)

    return decorate


def _check_reserved(sem: Module) -> None:
    members = [f.name for f in sem.functions] + [m.name for m in sem.modules]
    taken = [name for name in members if name in _RESERVED_MEMBERS]
    taken += [name for name in sem.methods if name in _RESERVED]
    if taken:
        raise TypeError(
            f"module {sem.name!r} names a member {', '.join(taken)}, which a twin needs for itself "
            f"(reserved: {', '.join(_RESERVED)}, and forward but for a method); rename it in the Module"
        )


def _members(cls: type) -> dict[str, Any]:
    """Attributes of ``cls`` and its bases, the most derived first in force; none of the runtime's own."""
    found: dict[str, Any] = {}
    for base in reversed(cls.__mro__):
        if base not in (object, *Twin.__mro__):
            found.update(vars(base))
    return found


def _is_kernel(value: object) -> bool:
    return isinstance(value, RuntimeFunction) or getattr(value, _TAG, False) is True


def _child_classes(cls: type, members: Mapping[str, Any]) -> dict[str, type[RuntimeModule]]:
    found: dict[str, type[RuntimeModule]] = {}
    for name, value in members.items():
        if isinstance(value, RuntimeModule):
            raise TypeError(
                f"{cls.__name__}.{name} is an instance of {type(value).__name__}; give the class, "
                "each twin builds instances of its own"
            )
        if inspect.isclass(value) and issubclass(value, RuntimeModule):
            found[name] = value
        elif isinstance(value, Mapping) and value and all(_is_child_class(item) for item in value.values()):
            found.update(value)
    return found


def _is_child_class(value: object) -> bool:
    return inspect.isclass(value) and issubclass(value, RuntimeModule)


def _check_members(
    sem: Module,
    cls: type,
    members: Mapping[str, Any],
    kernels: Mapping[str, Any],
    children: Mapping[str, type[RuntimeModule]],
) -> None:
    functions = {f.name: signature_of(f) for f in sem.functions}
    problems = [
        names_difference("functions", kernels, functions),
        names_difference("children", children, [m.name for m in sem.modules]),
        *(_untagged(name, members) for name in functions if name not in kernels),
        *(_rewritten(name, members) for name in sem.methods if name != "forward"),
    ]
    found = [problem for problem in problems if problem]
    if not found:
        found = [
            *(_kernel_problem(functions[name], kernel) for name, kernel in kernels.items()),
            *(_child_problem(sem.child(name), child) for name, child in children.items()),
        ]
    found = [problem for problem in found if problem]
    if found:
        raise TypeError(f"{cls.__name__} is no twin of module {sem.name!r}: " + "; ".join(found))


def _untagged(name: str, members: Mapping[str, Any]) -> str | None:
    value = members.get(name)
    if inspect.isfunction(value):
        return f"{name} is a plain method, tag it with @runtime_func"
    if inspect.isclass(value) and issubclass(value, RuntimeFunction):
        return f"{name} is a RuntimeFunction class, give an instance"
    return None


def _rewritten(name: str, members: Mapping[str, Any]) -> str | None:
    if name in members:
        return f"{name} is an orchestration method of the Module and serves the twin as it is; remove it from the class"
    return None


def _kernel_problem(signature: Signature, kernel: Any) -> str | None:
    want = [p.name for p in signature.params]
    if isinstance(kernel, RuntimeFunction):
        return _abi_problem(signature, kernel)
    have = list(inspect.signature(kernel).parameters.values())[1:]
    if len(have) == 1 and have[0].kind is inspect.Parameter.VAR_POSITIONAL:
        return None
    optional = [
        p for p in have[len(want) :] if p.default is inspect.Parameter.empty and p.kind in _POSITIONAL
    ]
    if [p.name for p in have[: len(want)]] != want or optional:
        return f"{signature.name} takes ({', '.join(map(str, have))}), the Module's takes ({', '.join(want)})"
    return None


_POSITIONAL = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)


def _abi_problem(signature: Signature, kernel: RuntimeFunction) -> str | None:
    inputs = kernel.type.input_params
    count = len(signature.params)
    same = len(inputs) >= count and all(
        have.name == want.name and have.type.same_value_type(want.type)
        for have, want in zip(inputs, signature.params, strict=False)
    )
    weights = {index for index, _ in kernel.type.constants}
    if same and all(index in weights for index in range(count, len(inputs))):
        return None
    want = ", ".join(f"{p.name}: {p.type}" for p in signature.params)
    return f"{signature.name}'s ABI takes ({', '.join(map(str, inputs))}), the Module's takes ({want})"


def _child_problem(child: Module, cls: type[RuntimeModule]) -> str | None:
    if not issubclass(cls, Twin):
        return None
    difference = structure_difference(cls._twin_semantic, child)
    return f"{cls.__name__} does not fit the child {child.name!r}: {difference}" if difference else None


def _generated_class(
    sem: Module, cls: type, kernels: Mapping[str, Any], children: Mapping[str, type[RuntimeModule]]
) -> type[Twin]:
    own_init = None if _inherits_init(cls) else cls.__init__

    def __init__(self: Twin, ir: Module | None = None) -> None:
        build_twin(self, ir)
        if own_init is not None:
            own_init(self)

    body: dict[str, Any] = {
        **{name: method for name, method in sem.methods.items() if name != "forward"},
        **{name: KernelAccess(name) for name in kernels},
        "__init__": __init__,
        "__doc__": cls.__doc__,
        "__module__": cls.__module__,
        "__qualname__": cls.__qualname__,
        "_twin_semantic": sem,
        "_twin_kernels": dict(kernels),
        "_twin_children": dict(children),
    }
    return type(cls.__name__, (cls, Twin), body)


def _inherits_init(cls: type) -> bool:
    return cls.__init__ in (object.__init__, RuntimeModule.__init__, Twin.__init__)
