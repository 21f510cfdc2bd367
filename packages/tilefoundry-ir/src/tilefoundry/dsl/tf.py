"""The value-level ops by name: ``tf.add``, ``tf.softmax``, ... Each has a meaning inside a ``@func`` only.

The stub beside this file, generated from the registry, gives editors the signatures.
"""

from __future__ import annotations

from tilefoundry.dsl.ops import OTHER_NAMES, OpRef
from tilefoundry.dsl.ranges import tile as tile  # the loop, by the name that model files give it
from tilefoundry.ir.hir import HIR_OPS

# Without the second names: a star import leaves Python's own max and min alone.
__all__ = [*HIR_OPS, "tile"]

globals().update({_name: OpRef(_op) for _name, _op in HIR_OPS.items()})
globals().update({_name: OpRef(HIR_OPS[_op]) for _name, _op in OTHER_NAMES.items()})
