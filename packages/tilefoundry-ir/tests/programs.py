"""Random programs of the DSL, as source text that types and evaluates, for round trips and differential tests.

``generate(seed)`` is deterministic: the same seed gives the same text. Values stay bounded (products are
followed by saturating functions), so that results can be compared across back ends.
"""

from __future__ import annotations

import linecache
import random
from dataclasses import dataclass, field
from functools import cache
from itertools import count
from typing import Any

from program_bodies import FLOATS, UNARY, Callee, FunctionText, Value, annotation

_scripts = count()


@dataclass(frozen=True)
class Program:
    """A generated program.

    Attributes:
        source: an importable file.
        root: the name that it defines; a Function, or a Module where ``is_module``.
        dims: value of each DimVar for a run.
    """

    source: str
    root: str
    is_module: bool
    dims: dict[str, int] = field(default_factory=dict)


def read_back(source: str) -> dict[str, Any]:
    """The names that ``source`` defines, run as a file whose text Python keeps."""
    filename = f"<program {next(_scripts)}>"
    linecache.cache[filename] = (len(source), None, source.splitlines(True), filename)
    names: dict[str, Any] = {"__name__": "generated"}
    exec(compile(source, filename, "exec"), names)
    return names


class ProgramText:
    """Writes one file: headers, functions and modules."""

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)
        self.meshes = True

    def parameters(self) -> list[Value]:
        shapes: list[tuple[str | int, ...]] = [
            ("N", 4),
            (3, 4),
            ("N", 4),
            (4, 6),
            ("N", 2, 4),
            (4,),
            ("M", 6),
        ]
        if self.rng.random() < 0.5:  # what callers have at hand, so that calls are frequent
            return [Value(name, ("N", 4), "f32") for name in ("n", "x")[: self.rng.randrange(1, 3)]]
        names = self.rng.sample(("x", "y", "h", "mask", "a", "q", "S", "i"), self.rng.randrange(1, 4))
        params = [Value(name, self.rng.choice(shapes), self.rng.choice(FLOATS)) for name in names]
        return [Value("n", ("N", 4), "f32"), *params]

    def function(
        self, name: str, callees: list[Callee], weights: bool, indent: str
    ) -> tuple[list[str], Callee]:
        """A function, perhaps with a weight and its converter, or with a body per range of N."""
        params = self.parameters()
        consts = [Value(f"w_{name}", (6, 4), "f32")] if weights and self.rng.random() < 0.6 else []
        listed = [f"{p.name}: {annotation(p)}" for p in params]
        listed += [f"{c.name}: {annotation(c, 'ConstTensor')}" for c in consts]
        if self.rng.random() < 0.15:
            return self._specialised(name, params, consts, listed, indent)
        text = FunctionText(self.rng, [*params, *consts], callees, self.meshes)
        result = text.finish(self.rng.randrange(1, 9))
        lines = ["@func", f"def {name}({', '.join(listed)}) -> {annotation(result)}:", *text.lines]
        for const in consts:
            if self.rng.random() < 0.5:
                lines += [
                    "",
                    f'@{name}.converter("{const.name}")',
                    f'def {name}_raw(raw_{name}: Tensor[(4, 6), "f32"]):',
                ]
                lines += [f"    return tf.transpose(raw_{name}, (1, 0))"]
        return [indent + line if line else "" for line in lines], Callee(name, (*params, *consts), result)

    def _specialised(
        self, name: str, params: list[Value], consts: list[Value], listed: list[str], indent: str
    ) -> tuple[list[str], Callee]:
        result = params[0]
        head = f"({', '.join(listed)}) -> {annotation(result)}:"
        lines = ["@func", f"def {name}{head}", "    pass"]
        cut = self.rng.randrange(2, 8)
        for i, (lo, hi) in enumerate(((1, cut), (cut, 9))):
            op = self.rng.choice(UNARY[:5])
            lines += ["", f'@{name}.specialize(DimVarRangePat("N", {lo}, {hi}))', f"def {name}_{i}{head}"]
            lines += [f"    return {op}({result.name}) * 0.5"]
        return [indent + line if line else "" for line in lines], Callee(name, (*params, *consts), result)

    def module(
        self, name: str, indent: str, depth: int, outer: list[Callee]
    ) -> tuple[list[str], list[Callee]]:
        """A class with functions and, at depth, children; what a caller outside can call of it."""
        lines: list[str] = []
        callees: list[Callee] = []
        outside, levels = self.meshes, ""
        if self.rng.random() < 0.3:
            levels = self.rng.choice(('topologies=(Topology("cta", 6),)', "topologies=()"))
            self.meshes = levels != "topologies=()"
        inner = indent + "    "
        reach: list[Callee] = []
        if depth:
            for child in range(self.rng.randrange(3)):
                text, reached = self.module(f"{name.lower()}{child}", inner, depth - 1, [])
                lines += [*text, ""]
                reach += [Callee(f"{name.lower()}{child}.{c.name}", c.params, c.result) for c in reached]
                if self.rng.random() < 0.4:
                    copy = f"{name.lower()}{child}_copy"
                    lines += [f'{inner}{copy} = {name.lower()}{child}.renamed("{copy}")', ""]
                    reach += [Callee(f"{copy}.{c.name}", c.params, c.result) for c in reached]
        for index in range(self.rng.randrange(1, 4)):
            text, callee = self.function(f"f{index}", [*callees, *reach, *outer], True, inner)
            lines += [*text, ""]
            callees.append(callee)
        entry = f'entry="{callees[-1].name}"' if self.rng.random() < 0.8 else ""
        arguments = ", ".join(part for part in (entry, levels) if part)
        if self.rng.random() < 0.3:
            lines += [f"{inner}def helper(self, x):", f"{inner}    return self.f0(x)", ""]
        self.meshes = outside
        head = [
            f"{indent}@module({arguments})" if arguments else f"{indent}@module",
            f"{indent}class {name}:",
        ]
        # A weight belongs to the child: callers pass activations alone.
        seen = [
            Callee(c.name, tuple(p for p in c.params if not p.name.startswith("w_")), c.result)
            for c in callees
        ]
        return [*head, *lines[:-1]], seen


HEADER = [
    "from tilefoundry.dsl import *",
    "",
    'N = DimVar("N", 1, 9)',
    'M = DimVar("M", 2, 17)',
    "",
]


def generate(seed: int) -> Program:
    """The program of ``seed``: a function with callees, or a module with children."""
    writer = ProgramText(seed)
    lines = list(HEADER)
    free: list[Callee] = []
    for index in range(writer.rng.randrange(3)):
        text, callee = writer.function(f"free{index}", list(free), False, "")
        lines += ["", *text, ""]
        free.append(callee)
    is_module = writer.rng.random() < 0.6
    if is_module:
        text, _ = writer.module("Net", "", writer.rng.randrange(3), free)
    else:
        text, _ = writer.function("root", free, False, "")
    dims = {"N": writer.rng.randrange(1, 9), "M": writer.rng.randrange(2, 17)}
    return Program("\n".join([*lines, "", *text]) + "\n", "Net" if is_module else "root", is_module, dims)


@cache
def parsed(seed: int) -> tuple[Program, Any]:
    """The program of ``seed`` and the node that it defines; read once per process, since nodes are immutable."""
    program = generate(seed)
    return program, read_back(program.source)[program.root]


def random_arguments(function: Any, dims: dict[str, int], seed: int) -> tuple[Any, ...]:
    """One torch tensor per parameter of ``function``, normal values of its declared type under ``dims``."""
    import torch

    made = torch.Generator().manual_seed(seed)
    dtypes = {"f32": torch.float32, "bf16": torch.bfloat16, "f64": torch.float64}
    return tuple(
        torch.randn(param.type.concrete_shape(dims), generator=made).to(dtypes[param.type.dtype.name])
        for param in function.params
    )
