"""Emit kernels that differ in names alone once."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, replace

from tilefoundry.codegen.cpu.emit.source import emit_kernel
from tilefoundry.codegen.launch_paths import KERNEL, with_launches
from tilefoundry.codegen.writer import Writer
from tilefoundry.ir.core.module import Module
from tilefoundry.ir.tir import Comment, Launch, PrimFunction

__all__ = ["ShareKernels"]

_DECLARED = re.compile(
    r"(?:index_t|bool|f32|f64|f16|bf16|fp8e4m3|fp8e5m2|f8e8m0|f4e2m1|i8|i16|i32|i64|u8|int|IndexFault|Scratch<\w+>)"
    r"\*?(?: __restrict__)?(?: const)? (\w+)"
)
_FUNCTION = re.compile(r"\bvoid\s+([\w\s]+)\(")
"""A kernel, and the function of its work where that stands apart."""

_COMMENT = re.compile(r"^\s*//.*$", re.MULTILINE)
_WORD = re.compile(r"[A-Za-z_]\w*")


@dataclass(frozen=True, slots=True)
class ShareKernels:
    """Of kernels that are equal but for the names in them, the first stays and all launches go to it.

    Attributes:
        emit: writes a kernel's source.
    """

    emit: Callable[[PrimFunction, Writer], None] = emit_kernel

    def run(self, module: Module) -> Module:
        """``module`` with one kernel per distinct body."""
        entry = module.entry_function()
        assert isinstance(entry, PrimFunction)
        if len(module.functions) <= 2:
            return module  # nothing to share with; writing sources takes longer than all the other passes
        first: dict[str, str] = {}
        stands_for: dict[str, str] = {}
        kept: list[PrimFunction] = []
        for function in module.functions:
            if function is entry:
                continue
            assert isinstance(function, PrimFunction)
            known = first.setdefault(_shape_of(function, self.emit), function.name)
            stands_for[function.name] = known
            if known == function.name:
                kept.append(function)

        def redirected(launch: Launch) -> Launch:
            known = stands_for[launch.callee]
            if known == launch.callee:
                return launch
            return replace(launch, callee=known, attributes=(*launch.attributes, (KERNEL, launch.callee)))

        host = replace(entry, body=with_launches(entry.body, redirected))
        return Module(
            module.name, (*kept, host), host.name, (), module.target, module.topologies, module.metadata
        )


def _shape_of(function: PrimFunction, emit: Callable[[PrimFunction, Writer], None]) -> str:
    """The kernel's source without comments, its names numbered in order of appearance."""
    body = tuple(stmt for stmt in function.body if not isinstance(stmt, Comment))
    out = Writer()
    emit(replace(function, body=body), out)
    own = _own_names(function, emit)
    numbers: dict[str, str] = {}

    def renamed(match: re.Match[str]) -> str:
        word = match[0]
        return numbers.setdefault(word, f"@{len(numbers)}") if word in own else word

    # Folding depends on the length of names, so line breaks do not count.
    return re.sub(r"\s+", " ", _WORD.sub(renamed, _COMMENT.sub("", out.text())))


def _own_names(function: PrimFunction, emit: Callable[[PrimFunction, Writer], None]) -> set[str]:
    """Words of the source that the program chose, not the emitter."""
    out = Writer()
    emit(function, out)
    text = out.text()
    declared = _DECLARED.findall(text)
    functions = [head.split()[-1] for head in _FUNCTION.findall(text)]
    return {*declared, *functions}
