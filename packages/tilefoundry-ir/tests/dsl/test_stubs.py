"""The stub of the op namespace matches the registry."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

import tilefoundry.dsl.tf as tf
from tilefoundry.dsl.stubs import tf_stub_text
from tilefoundry.ir.hir import HIR_OPS

STUB = Path(tf.__file__).with_suffix(".pyi")


@pytest.mark.spec("ops.stubs")
def test_the_stub_is_what_the_registry_gives():
    assert STUB.read_text() == tf_stub_text(), "run python tools/gen_tf_stubs.py"


def test_the_stub_is_python_with_one_signature_per_op():
    tree = ast.parse(STUB.read_text())
    defs = {node.name: node for node in tree.body if isinstance(node, ast.FunctionDef)}
    assert list(defs) == list(HIR_OPS)
    for name, op in HIR_OPS.items():
        given = [*defs[name].args.args, *defs[name].args.kwonlyargs]
        named = {arg.arg for arg in given} | (
            {defs[name].args.vararg.arg} if defs[name].args.vararg else set()
        )
        assert named == {*op.operands, *(attr.name for attr in op.attrs)}
        assert ast.get_docstring(defs[name])


def test_the_namespace_holds_every_op_and_lists_it():
    assert sorted(tf.__all__) == sorted([*HIR_OPS, "tile"])
    assert all(getattr(tf, name).op is op for name, op in HIR_OPS.items())
    assert "tf.add(lhs, rhs): lhs + rhs" in tf.add.__doc__
