"""lower, build, compile, jit: from a program to something that runs, as ``lower -> emit -> link -> load``.

``as_module`` and ``resolved_target`` are how the verbs read their arguments, for tools beside them.
"""

from tilefoundry.verbs.building import build, compile
from tilefoundry.verbs.jitting import jit
from tilefoundry.verbs.lowering import as_module, lower, resolved_target

__all__ = ["as_module", "build", "compile", "jit", "lower", "resolved_target"]
