"""Evaluate a function: bind, then run its statements in order over torch tensors."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from tilefoundry.evaluator.bind import bind_arguments
from tilefoundry.evaluator.dtypes import torch_dtype
from tilefoundry.ir.core.expr import (
    Atom,
    Bind,
    Block,
    Call,
    Constant,
    For,
    FunctionCall,
    MeshScope,
    Stmt,
    tensor_type,
)
from tilefoundry.ir.errors import EvaluationError
from tilefoundry.ir.hir.function import Function
from tilefoundry.ir.types import Dim, TensorType, TupleType, Type, evaluate_dim

# torch is imported where it is first needed: importing the evaluator must not load it.

__all__ = ["EvalContext", "evaluate"]

ConstantLookup = Callable[[tuple[str, ...], str], Any]


@dataclass(slots=True)
class EvalContext:
    """What an op's evaluator may ask for.

    Attributes:
        env: DimVar and loop-index values of the running function.
        device: the torch device of the run.
        result_type: the inferred type of the op being evaluated.
        operand_types: the types of its operands; a tensor alone does not tell ``f4e2m1`` codes from ``u8``.
        constants: finds a child's weight by (path from the caller's module, name); None on a bare function.
    """

    env: dict[str, int]
    device: Any
    result_type: Type | None = None
    operand_types: tuple[Type, ...] = ()
    constants: ConstantLookup | None = None
    values: dict[str, Any] = field(default_factory=dict)

    def dim(self, dim: Dim) -> int:
        """The integer that ``dim`` has in this run."""
        return evaluate_dim(dim, self.env)

    def shape(self, type_: TensorType) -> tuple[int, ...]:
        """The concrete shape of ``type_`` in this run."""
        return type_.concrete_shape(self.env)


def evaluate(
    function: Function, *tensors: Any, constants: ConstantLookup | None = None, device: Any | None = None
) -> Any:
    """The value of ``function`` on torch tensors, one per declared parameter, weights included.

    Arguments are checked against the declared dtypes and shapes before anything runs, and are never written
    to. The run happens on the device of the tensors; gradients are not recorded. Thread-safe.

    Args:
        function: a HIR ``Function``.
        tensors: one per parameter.
        constants: how to find the weights of child modules that the body calls into; a ``LoadedModule``
            gives this.
        device: where a function without tensor arguments runs; the CPU by default.

    Returns:
        A tensor, or a (nested) tuple of tensors for a ``TupleType`` result.

    Raises:
        TypeError: no Function, or a wrong number of arguments.
        EvaluationError: an argument that disagrees with its declaration.
    """
    import torch

    if not isinstance(function, Function):
        raise TypeError(f"evaluate takes a Function (decorate it with @func), got {type(function).__name__}")
    with torch.no_grad():
        return _run_function(function, tensors, constants, torch.device(device or "cpu"))


def _run_function(
    function: Function, tensors: tuple[Any, ...], constants: ConstantLookup | None, default: Any
) -> Any:
    env = bind_arguments(function.name, function.params, tensors)
    chosen = _select_variant(function, env)
    ctx = EvalContext(env, _device(function, tensors, default), constants=constants)
    ctx.values.update((p.name, t) for p, t in zip(chosen.params, tensors, strict=True))
    if chosen.body is None:
        raise EvaluationError(
            f"{function.name} has no body and no variant; add one with @{function.name}.specialize"
        )
    results = _run_block(chosen.body, ctx)
    return results if isinstance(function.result, TupleType) else results[0]


def _select_variant(function: Function, env: Mapping[str, int]) -> Function:
    if not function.variants:
        return function
    for variant in function.variants:
        name = variant.pattern.name
        if name in env and variant.pattern.matches(env[name]):
            return variant.function
    ranges = ", ".join(f"{v.pattern.name} in [{v.pattern.lo}, {v.pattern.hi})" for v in function.variants)
    raise EvaluationError(f"{function.name}: no variant covers {dict(env)}; the variants cover {ranges}")


def _device(function: Function, tensors: tuple[Any, ...], default: Any) -> Any:
    devices = {t.device: p.name for p, t in zip(function.params, tensors, strict=True)}
    if len(devices) > 1:
        listed = ", ".join(f"{name} on {device}" for device, name in devices.items())
        raise EvaluationError(f"{function.name}: arguments must sit on one device, got {listed}")
    return next(iter(devices), default)


def _run_block(block: Block, ctx: EvalContext) -> tuple[Any, ...]:
    for stmt in block.stmts:
        _run_stmt(stmt, ctx)
    return tuple(_atom(atom, ctx) for atom in block.results)


def _run_stmt(stmt: Stmt, ctx: EvalContext) -> None:
    if isinstance(stmt, Bind):
        ctx.values[stmt.target.name] = _run_value(stmt.value, ctx)
    elif isinstance(stmt, MeshScope):
        for inner in stmt.stmts:
            _run_stmt(inner, ctx)
    else:
        _run_loop(stmt, ctx)


def _run_value(value: Call | FunctionCall, ctx: EvalContext) -> Any:
    args = tuple(_atom(arg, ctx) for arg in value.args)
    if isinstance(value, FunctionCall):
        return _call_function(value, args, ctx)
    ctx.result_type = value.type
    ctx.operand_types = tuple(arg.type for arg in value.args)
    return value.op.evaluate(ctx, args, dict(value.attrs))


def _call_function(call: FunctionCall, args: tuple[Any, ...], ctx: EvalContext) -> Any:
    if not call.enters_child:
        return _run_function(call.callee, args, ctx.constants, ctx.device)
    prefix = call.path[:-1]
    lookup = ctx.constants
    if lookup is None and _needs_constants(call.callee):
        raise EvaluationError(
            f"{'.'.join(call.path)} needs the weights of the child module {'.'.join(prefix)}; "
            "load a checkpoint with module.load(resource) and call the LoadedModule"
        )
    given = iter(args)
    full = tuple(lookup(prefix, p.name) if p.is_const else next(given) for p in call.callee.params)  # type: ignore[misc]  # a callee with weights was refused above
    nested = None if lookup is None else (lambda path, name: lookup(prefix + path, name))
    return _run_function(call.callee, full, nested, ctx.device)


def _needs_constants(function: Function) -> bool:
    return bool(function.constants)


def _run_loop(loop: For, ctx: EvalContext) -> None:
    import torch

    carried = [_atom(carry.initial, ctx) for carry in loop.carries]
    for i in range(ctx.dim(loop.start), ctx.dim(loop.stop), ctx.dim(loop.step)):
        ctx.env[loop.index.name] = i
        ctx.values[loop.index.name] = torch.tensor(
            i, dtype=torch_dtype(tensor_type(loop.index).dtype), device=ctx.device
        )
        ctx.values.update((c.inner.name, v) for c, v in zip(loop.carries, carried, strict=True))
        carried = list(_run_block(loop.body, ctx))
    ctx.env.pop(loop.index.name, None)
    ctx.values.update((c.result.name, v) for c, v in zip(loop.carries, carried, strict=True))


def _atom(atom: Atom, ctx: EvalContext) -> Any:
    import torch

    if isinstance(atom, Constant):
        return torch.tensor(atom.value, dtype=torch_dtype(tensor_type(atom).dtype), device=ctx.device)
    return ctx.values[atom.name]
