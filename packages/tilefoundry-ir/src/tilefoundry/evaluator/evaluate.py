"""Evaluate a function: bind its arguments, then run its plan over torch tensors."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

from tilefoundry.evaluator.bind import bind_arguments
from tilefoundry.evaluator.context import ConstantLookup, EvalContext
from tilefoundry.evaluator.dtypes import torch_dtype
from tilefoundry.evaluator.instances import per_instance
from tilefoundry.evaluator.observe import record_call
from tilefoundry.evaluator.plan import CallStep, LoopStep, OpStep, Plan, Step, plan_of
from tilefoundry.ir.core.expr import tensor_type
from tilefoundry.ir.errors import EvaluationError
from tilefoundry.ir.hir.conversion import convert
from tilefoundry.ir.hir.function import Function
from tilefoundry.ir.tir.function import PrimFunction
from tilefoundry.ir.types import DType, TupleType

# torch is imported where it is first needed: importing the evaluator must not load it.

__all__ = ["EvalContext", "evaluate"]


def evaluate(
    function: Any, *tensors: Any, constants: ConstantLookup | None = None, device: Any | None = None
) -> Any:
    """The value of ``function`` on torch tensors, one per declared parameter, weights included.

    Arguments are checked against the declared dtypes and shapes before anything runs, and are never written
    to; a result may be a view of one. The run happens on the device of the tensors; gradients are not
    recorded. Intermediates are dropped at their last use. Thread-safe.

    Args:
        function: a HIR ``Function``, or a Module that holds exactly one.
        tensors: one per parameter.
        constants: how to find the weights of child modules that the body calls into; a ``LoadedModule``
            gives this.
        device: where a function without tensor arguments runs; the CPU by default.

    Returns:
        A tensor, or a (nested) tuple of tensors for a ``TupleType`` result.

    Raises:
        TypeError: no Function, or a wrong number of arguments.
        ModuleNotFoundError: torch is not installed, as the extra ``eval`` would have it.
        EvaluationError: an argument that disagrees with its declaration; an index, window or divisor that is
            only wrong for these values. A note on the error says which statement failed.
    """
    try:
        import torch
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError(
            "evaluate computes with torch, which is not installed; install it with: "
            "pip install 'tilefoundry-ir[eval]'",
            name=error.name,
        ) from error

    with torch.no_grad():
        return _run_function(_the_function(function), tensors, constants, torch.device(device or "cpu"))


def _the_function(given: Any) -> Function:
    if isinstance(given, Function):
        return given
    # A Module sits above the evaluator, so it is known here by what it holds.
    members = getattr(given, "functions", None)
    if not isinstance(members, tuple):
        raise TypeError(f"evaluate takes a Function (decorate it with @func), got {type(given).__name__}")
    if len(members) == 1 and isinstance(members[0], Function):
        return members[0]
    names = ", ".join(member.name for member in members) or "none"
    raise TypeError(
        f"evaluate takes one Function; the module {given.name!r} holds {names}: "
        f"call {given.name}.<function>(...), or pass {given.name}.lookup(name)"
    )


def _run_function(
    function: Function, tensors: tuple[Any, ...], constants: ConstantLookup | None, default: Any
) -> Any:
    env = bind_arguments(function.name, function.params, tensors)
    chosen = _select_variant(function, env)
    if chosen.body is None:
        raise EvaluationError(
            f"{function.name} has no body and no variant; add one with @{function.name}.specialize"
        )
    ctx = EvalContext(function.name, env, _device(function, tensors, default), constants=constants)
    results = _run_plan(plan_of(chosen, chosen.body), tensors, ctx)
    one_tuple = len(results) == 1 and isinstance(results[0], tuple)
    value = results if isinstance(function.result, TupleType) and not one_tuple else results[0]
    record_call(function, tensors, value)
    return value


def _select_variant(function: Function, env: Mapping[str, int]) -> Function:
    if not function.variants:
        return function
    for variant in function.variants:
        name = variant.pattern.name
        if name in env and variant.pattern.matches(env[name]):
            # A variant has variants where lowering found two extents to choose by.
            return _select_variant(variant.function, env)
    ranges = ", ".join(f"{v.pattern.name} in [{v.pattern.lo}, {v.pattern.hi})" for v in function.variants)
    given = ", ".join(f"{name} = {value}" for name, value in env.items()) or "no DimVar"
    raise EvaluationError(f"{function.name}: no variant covers {given}; the variants cover {ranges}")


def _device(function: Function, tensors: tuple[Any, ...], default: Any) -> Any:
    devices = {t.device: p.name for p, t in zip(function.params, tensors, strict=True)}
    if len(devices) > 1:
        listed = ", ".join(f"{name} on {device}" for device, name in devices.items())
        raise EvaluationError(f"{function.name}: arguments must sit on one device, got {listed}")
    return next(iter(devices), default)


def _run_plan(plan: Plan, tensors: tuple[Any, ...], ctx: EvalContext) -> tuple[Any, ...]:
    values: list[Any] = [None] * plan.size
    for slot, tensor in zip(plan.params, tensors, strict=True):
        values[slot] = tensor
    for slot, literal in plan.constants:
        values[slot] = _literal(literal.value, tensor_type(literal).dtype, ctx.device)
    _run_steps(plan.steps, values, ctx)
    return tuple(values[slot] for slot in plan.results)


def _literal(value: Any, dtype: DType, device: Any) -> Any:
    """A literal as a tensor, rounded once from the double that Python holds."""
    import torch

    if not dtype.is_float:
        return torch.tensor(value, dtype=torch_dtype(dtype), device=device)
    return convert(torch.tensor(float(value), dtype=torch.float64, device=device), DType.f64, dtype)


def _run_steps(steps: tuple[Step, ...], values: list[Any], ctx: EvalContext) -> None:
    for step in steps:
        try:
            if isinstance(step, OpStep):
                _run_op(step, values, ctx)
            elif isinstance(step, CallStep):
                _run_call(step, values, ctx)
            else:
                _run_loop(step, values, ctx)
        except Exception as error:
            error.add_note(f"in {ctx.function}, evaluating {step.name}")
            raise
        for slot in step.dead:
            values[slot] = None


def _run_op(step: OpStep, values: list[Any], ctx: EvalContext) -> None:
    ctx.result_type = step.result_type
    ctx.operand_types = step.operand_types
    args = tuple(values[slot] for slot in step.args)
    run = step.op.evaluate if step.mesh is None else partial(per_instance, step)
    values[step.target] = run(ctx, args, step.attrs)


def _run_call(step: CallStep, values: list[Any], ctx: EvalContext) -> None:
    call = step.call
    if isinstance(call.callee, PrimFunction):
        raise EvaluationError(
            f"{'.'.join(call.path)} is a @prim_func: its statements are compiled, not evaluated; evaluate the program "
            "with the @func that it stands for"
        )
    args = tuple(values[slot] for slot in step.args)
    if not call.enters_child:
        values[step.target] = _run_function(call.callee, args, ctx.constants, ctx.device)
        return
    prefix, lookup = call.path[:-1], ctx.constants
    if lookup is None and call.callee.constants:
        raise EvaluationError(
            f"{'.'.join(call.path)} needs the weights of the child module {'.'.join(prefix)}; "
            "load a checkpoint with module.load(resource) and call the LoadedModule"
        )
    given = iter(args)
    full = tuple(
        lookup(prefix, param.name) if lookup is not None and param.is_const else next(given)
        for param in call.callee.params
    )
    nested = None if lookup is None else (lambda path, name: lookup(prefix + path, name))
    values[step.target] = _run_function(call.callee, full, nested, ctx.device)


def _run_loop(step: LoopStep, values: list[Any], ctx: EvalContext) -> None:
    import torch

    loop, name = step.loop, step.loop.index.name
    start, stop, stride = ctx.dim(loop.start), ctx.dim(loop.stop), ctx.dim(loop.step)
    if stride < 1:
        raise EvaluationError(
            f"{ctx.function}: the loop over {name} has the step {stride}; 1 or more is needed"
        )
    index_dtype = torch_dtype(tensor_type(loop.index).dtype)
    carried = [values[slot] for slot in step.initial]
    for i in range(start, stop, stride):
        ctx.env[name] = i
        if loop.window is not None:
            ctx.env[loop.window.name] = min(stride, stop - i)
        values[step.index] = torch.tensor(i, dtype=index_dtype, device=ctx.device)
        for slot, value in zip(step.inner, carried, strict=True):
            values[slot] = value
        _run_steps(step.body, values, ctx)
        carried = [values[slot] for slot in step.yields]
    for bound in (name, "" if loop.window is None else loop.window.name):
        ctx.env.pop(bound, None)
    for slot, value in zip(step.results, carried, strict=True):
        values[slot] = value
