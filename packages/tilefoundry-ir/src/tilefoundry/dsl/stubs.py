"""The text of ``tf.pyi``: one signature per registered op, for editors and type checkers."""

from __future__ import annotations

import textwrap

from tilefoundry.dsl.ops import OTHER_NAMES
from tilefoundry.ir.core.op import REQUIRED, Attr, Op
from tilefoundry.ir.hir import HIR_OPS

__all__ = ["tf_stub_text"]

_HEAD = '''"""Signatures of the ops. Generated from the registry by tools/gen_tf_stubs.py; do not edit."""

from typing import Any

from tilefoundry.dsl.ranges import tile as tile

Value = Any
"""A tensor inside a program, or a number beside tensors."""

'''


def tf_stub_text() -> str:
    """The whole stub; equal to the file beside ``tf.py`` unless an op changed since it was generated."""
    listed = "".join(f'    "{name}",\n' for name in (*HIR_OPS, "tile"))
    others = "".join(f"\n{name} = {op}\n" for name, op in OTHER_NAMES.items())
    signatures = "\n".join(_signature(op) for op in HIR_OPS.values())
    return f"{_HEAD}__all__ = [\n{listed}]\n\n{signatures}{others}"


def _signature(op: Op) -> str:
    params = ",\n".join(f"    {param}" for param in [*_operands(op), *map(_attr, op.attrs)])
    doc = textwrap.indent(textwrap.fill(f'"""{op.doc}"""', 100), "    ")
    return (
        f"def {op.name}(\n{params},\n) -> Value:\n{doc}\n"
        if params
        else f"def {op.name}() -> Value:\n{doc}\n"
    )


def _operands(op: Op) -> list[str]:
    if op.variadic:
        return [*(f"{name}: Value" for name in op.operands[:-1]), f"*{op.operands[-1]}: Value"]
    required = len(op.operands) - op.optional
    return [f"{name}: Value" + (" = ..." if i >= required else "") for i, name in enumerate(op.operands)]


def _attr(attr: Attr) -> str:
    # An attribute after an operand that may be left out needs a default to be valid Python.
    default = "..." if attr.default is REQUIRED else repr(attr.default).replace("'", '"')
    plain = attr.default is None or isinstance(attr.default, (bool, int, float, str, tuple))
    return f"{attr.name}: Any = {default if plain else '...'}"
