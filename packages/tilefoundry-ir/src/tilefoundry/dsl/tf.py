"""The value-level ops by name: ``tf.add``, ``tf.softmax``, ... Each has a meaning inside a ``@func`` only.

The stub beside this file, generated from the registry, gives editors the signatures.
"""

from __future__ import annotations

from tilefoundry.dsl.ops import OpRef
from tilefoundry.ir.hir import HIR_OPS

__all__ = list(HIR_OPS)

globals().update({_name: OpRef(_op) for _name, _op in HIR_OPS.items()})
