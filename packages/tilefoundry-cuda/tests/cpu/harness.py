"""Build programs by hand, compile several in one library, and compare with the evaluator.

Oracle: ``tilefoundry.evaluate``, which has its own tests against torch and numpy.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch

from tilefoundry import CompilerOptions, jit
from tilefoundry.evaluator import evaluate as reference
from tilefoundry.evaluator.bounds import unit_roundoff
from tilefoundry.ir.core.expr import Atom, Bind, Block, Constant, FunctionCall, Var
from tilefoundry.ir.core.module import Module
from tilefoundry.ir.hir import HIR_OPS
from tilefoundry.ir.hir.function import Function
from tilefoundry.ir.passes.copying import substitute_type
from tilefoundry.ir.types import DimVar, DType, TensorType, TupleType, Type, scalar

__all__ = ["RUNNER", "Program", "compare", "constant", "random_tensor", "together"]

EPSILON = {
    name: 2 * unit_roundoff(DType.from_name(name))
    for name in ("f32", "f64", "f16", "bf16", "fp8e4m3", "fp8e5m2")
}
"""Spacing of numbers from 1 on, by the table that all comparisons share."""


def constant(dtype: str, value: Any) -> Constant:
    """A literal."""
    return Constant(scalar(dtype), value)


@dataclass
class Program:
    """Collects binds; ``p(op, ...)`` appends a call, ``p.done(...)`` gives the Function."""

    name: str = "f"
    params: list[Var] = field(default_factory=list)
    stmts: list[Any] = field(default_factory=list)

    def param(self, name: str, shape: tuple[Any, ...], dtype: str = "f32") -> Var:
        """A parameter."""
        var = Var(TensorType(shape, dtype), name)
        self.params.append(var)
        return var

    def __call__(self, op: str, *args: Atom, **attrs: Any) -> Var:
        call = HIR_OPS[op].call(args, attrs)
        var = Var(call.type, f"v{len(self.stmts)}")
        self.stmts.append(Bind(var, call))
        return var

    def items(self, group: Var) -> list[Var]:
        """The elements of a tuple."""
        assert isinstance(group.type, TupleType)
        return [self("tuple_get_item", group, index=i) for i in range(len(group.type.elements))]

    def done(self, *results: Atom) -> Function:
        """The function that returns ``results``."""
        type_: Type = results[0].type if len(results) == 1 else TupleType(tuple(r.type for r in results))
        return Function(self.name, tuple(self.params), type_, Block(tuple(self.stmts), tuple(results)))


def random_tensor(shape: tuple[int, ...], dtype: str, seed: int) -> torch.Tensor:
    """Values of moderate size; integers are small, so that sums of products stay exact."""
    generator = torch.Generator().manual_seed(seed)
    kind = DType.from_name(dtype)
    torch_type = torch.uint8 if kind.torch_name is None else getattr(torch, kind.torch_name)
    if kind.is_bool:
        return torch.randint(0, 2, shape, generator=generator).to(torch.bool)
    if kind.is_integer:
        low = 0 if kind.kind == "uint" else -9
        return torch.randint(low, 10, shape, generator=generator).to(torch_type)
    return torch.randn(shape, generator=generator).to(torch_type)


def together(functions: Sequence[Function]) -> Module:
    """One module whose entry computes every function on arguments of its own."""
    params: list[Var] = []
    stmts: list[Bind] = []
    results: list[Var] = []
    renamed: list[Function] = []
    for i, function in enumerate(functions):
        copy = Function(f"f{i}", function.params, function.result, function.body, variants=function.variants)
        dims = {v.name: DimVar(f"{v.name}_{i}", v.lo, v.hi) for v in function.dim_vars()}
        own = tuple(Var(substitute_type(p.type, dims), f"p{i}_{p.name}") for p in function.params)
        value = Var(substitute_type(function.result, dims), f"r{i}")
        stmts.append(Bind(value, FunctionCall(value.type, copy, (copy.name,), own)))
        if isinstance(value.type, TupleType):
            for k in range(len(value.type.elements)):
                item = HIR_OPS["tuple_get_item"].call((value,), {"index": k})
                results.append(Var(item.type, f"r{i}_{k}"))
                stmts.append(Bind(results[-1], item))
        else:
            results.append(value)
        params.extend(own)
        renamed.append(copy)
    result: Type = results[0].type if len(results) == 1 else TupleType(tuple(r.type for r in results))
    entry = Function("main", tuple(params), result, Block(tuple(stmts), tuple(results)))
    return Module("programs", (*renamed, entry), "main")


def run_on_cpu(
    module: Module, tensors: Sequence[torch.Tensor], options: CompilerOptions
) -> list[torch.Tensor] | None:
    """The outputs of ``module``, compiled for the CPU; None from a runner that only compiles."""
    outputs = jit(module, target="cpu", options=options)(*tensors)
    return list(outputs) if isinstance(outputs, tuple) else [outputs]


RUNNER: list[Callable[[Module, Sequence[torch.Tensor], CompilerOptions], "list[torch.Tensor] | None"]] = [
    run_on_cpu
]
"""How ``compare`` computes; the last one counts, so that other targets' tests run the same programs."""


def compare(
    cases: Sequence[tuple[Function, Sequence[torch.Tensor]]],
    *,
    length: int = 64,
    opt_level: int = 1,
    floor: float = 1e-30,
) -> None:
    """Compile all functions into one library and compare every output with the evaluator's.

    ``opt_level`` is low where many programs are compiled; the model tests run at the default. ``length`` is the
    longest reduction in the programs; the float bound is ``8 * eps * sqrt(length)`` relative
    to the output's largest magnitude, or to ``floor`` where that is larger: a chain of ops can cancel values of size
    one down to their rounding. Integers and bools are equal.
    """
    options = CompilerOptions(opt_level=opt_level)
    flat = [tensor for _, tensors in cases for tensor in tensors]
    given = [tensor.clone() for tensor in flat]
    outputs = RUNNER[-1](together([function for function, _ in cases]), flat, options)
    if outputs is None:
        return
    for tensor, before in zip(flat, given, strict=True):
        assert torch.equal(_bits(tensor), _bits(before)), "an input was written to"
    for function, tensors in cases:
        wanted = reference(function, *tensors)
        for want in wanted if isinstance(wanted, tuple) else (wanted,):
            assert_close(outputs.pop(0), want, length, repr(function), floor)


def _bits(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.contiguous().view(torch.uint8) if tensor.dim() else tensor.reshape(1).view(torch.uint8)


def assert_close(got: torch.Tensor, want: torch.Tensor, length: int, label: str, floor: float) -> None:
    """Equal shape and dtype, NaN and infinities in the same places, finite values within the bound."""
    assert got.shape == want.shape, f"{label}: shape {tuple(got.shape)}, expected {tuple(want.shape)}"
    assert got.dtype == want.dtype, f"{label}: {got.dtype}, expected {want.dtype}"
    if not want.dtype.is_floating_point:
        assert torch.equal(got, want), f"{label}: {got} is not {want}"
        return
    g, w = got.double(), want.double()
    assert torch.equal(g.isnan(), w.isnan()), f"{label}: NaN at other places: {g} is not {w}"
    assert torch.equal(g[g.isinf()], w[w.isinf()]) and torch.equal(g.isinf(), w.isinf()), (
        f"{label}: infinities differ: {g} is not {w}"
    )
    finite = w.isfinite()
    if not finite.any():
        return
    scale = max(float(w[finite].abs().max()), floor)
    error = float((g[finite] - w[finite]).abs().max()) / scale
    names = {v: k for k, v in _TORCH_NAMES.items()}
    bound = 8 * EPSILON[names[want.dtype]] * max(1.0, length**0.5)
    assert error <= bound, f"{label}: error {error:.3g} of the largest magnitude, bound {bound:.3g}"


_TORCH_NAMES = {
    "f32": torch.float32,
    "f64": torch.float64,
    "f16": torch.float16,
    "bf16": torch.bfloat16,
    "fp8e4m3": torch.float8_e4m3fn,
    "fp8e5m2": torch.float8_e5m2,
}
