"""A twin whose kernels are compiled from the Module itself."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tilefoundry.ir.core.module import Module
from tilefoundry.ir.hir.function import Function
from tilefoundry.runtime.compiled import CompiledModule
from tilefoundry.runtime.decorator import runtime_module
from tilefoundry.runtime.function import RuntimeFunction
from tilefoundry.verbs import jit

if TYPE_CHECKING:
    from tilefoundry.runtime.twin import Twin

__all__ = ["CompiledFunction", "compiled_twin"]


class CompiledFunction(RuntimeFunction):
    """A compiled entry as the body of one function; takes its inputs and gives its value.

    Args:
        compiled: the entry. Threads and streams are the entry's.
    """

    def __init__(self, compiled: CompiledModule) -> None:
        super().__init__(compiled.type)
        self.compiled = compiled

    def __call__(self, *acts: Any) -> Any:
        """The entry's value; outputs are allocated through torch."""
        return self.compiled.forward(*acts)


def compiled_twin(module: Module, *, target: str = "cuda", options: Any | None = None) -> type[Twin]:
    """A twin class of ``module`` whose every function is compiled, so that no kernel has to be written.

    Orchestration methods stay Python; each function is compiled as an entry of its own, equal ones once.
    The class is used like any other twin: instantiate, ``load``, call; threads and streams are as for
    ``CompiledModule``.

    Args:
        module: a tree of HIR functions.
        target: the back end's name, or a Target.
        options: CompilerOptions for every function.

    Raises:
        TypeError: no Module, or a ``@prim_func``, which is no entry of its own.
        LoweringError: no compiler is installed (the message names the wheel), or the target refuses a function.
    """
    if not isinstance(module, Module):
        raise TypeError(f"compiled_twin takes a Module (decorate a class with @module), got {module!r}")
    body: dict[str, Any] = {
        child.name: compiled_twin(child, target=target, options=options) for child in module.modules
    }
    for function in module.functions:
        body[function.name] = CompiledFunction(_compiled(module, function, target, options))
    plain = type(f"Compiled{module.name}", (), {"__doc__": f"{module.name}, compiled.", **body})
    return runtime_module(module)(plain)


def _compiled(module: Module, function: Any, target: str, options: Any | None) -> CompiledModule:
    if not isinstance(function, Function):
        raise TypeError(
            f"{module.name}.{function.name} is a @prim_func; only a @func becomes an entry of its own"
        )
    compiled = jit(_as_entry(module, function), target=target, options=options)
    if not isinstance(compiled, CompiledModule):
        raise TypeError(
            f"the back end {target!r} gave {compiled!r} for {function.name}; a CompiledModule is needed"
        )
    return compiled


def _as_entry(module: Module, function: Function) -> Module:
    """A root of its own in which ``function`` is the entry; levels and target as they are in force."""
    copy = module.cloned()
    # One name for every copy of a layer, so that the verbs' cache sees one program.
    return Module(
        f"{function.name}_alone",
        copy.functions,
        function.name,
        copy.modules,
        target=module.root.target,
        topologies=module.effective_topologies(),
        metadata=copy.metadata,
        methods=copy.methods,
    )
