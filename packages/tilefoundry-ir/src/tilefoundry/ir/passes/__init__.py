"""Passes over modules, target-neutral ones included; each takes valid IR and gives valid IR.

A back end writes its own passes with the pieces here: ``Copier`` and ``Names`` copy statements under fresh names,
``map_functions`` and ``with_body`` rebuild modules, ``solve`` finds a DimVar from an extent.
"""

from tilefoundry.ir.passes.bind_shapes import BindShapes
from tilefoundry.ir.passes.canonicalise import Canonicalise
from tilefoundry.ir.passes.copying import Copier, Names, substitute_type, substitute_value
from tilefoundry.ir.passes.dead_code import RemoveDeadCode
from tilefoundry.ir.passes.expand_tiles import ExpandTiles
from tilefoundry.ir.passes.inline import PARAM_PATHS, InlineCalls
from tilefoundry.ir.passes.pipeline import Pass, Pipeline
from tilefoundry.ir.passes.rebuild import map_functions, with_body
from tilefoundry.ir.passes.solving import is_solvable, linear_in, solve
from tilefoundry.ir.passes.unroll import UnrollLoops
from tilefoundry.ir.passes.verify import verify_module

__all__ = [
    "PARAM_PATHS",
    "BindShapes",
    "Canonicalise",
    "Copier",
    "ExpandTiles",
    "InlineCalls",
    "Names",
    "Pass",
    "Pipeline",
    "RemoveDeadCode",
    "UnrollLoops",
    "is_solvable",
    "linear_in",
    "map_functions",
    "solve",
    "substitute_type",
    "substitute_value",
    "verify_module",
    "with_body",
]
