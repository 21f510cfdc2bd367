"""lower, build, compile, jit: from a program to something that runs, as ``lower -> emit -> link -> load``."""

from tilefoundry.verbs.building import build, compile
from tilefoundry.verbs.jitting import jit
from tilefoundry.verbs.lowering import lower

__all__ = ["build", "compile", "jit", "lower"]
