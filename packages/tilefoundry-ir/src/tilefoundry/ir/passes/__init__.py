"""Passes over modules, target-neutral ones included; each takes valid IR and gives valid IR."""

from tilefoundry.ir.passes.canonicalise import Canonicalise
from tilefoundry.ir.passes.dead_code import RemoveDeadCode
from tilefoundry.ir.passes.inline import InlineCalls
from tilefoundry.ir.passes.pipeline import Pass, Pipeline
from tilefoundry.ir.passes.unroll import UnrollLoops
from tilefoundry.ir.passes.verify import verify_module

__all__ = [
    "Canonicalise",
    "InlineCalls",
    "Pass",
    "Pipeline",
    "RemoveDeadCode",
    "UnrollLoops",
    "verify_module",
]
