"""What the package puts into the tables that dispatch and autograd consult."""

from __future__ import annotations

from ...autograd.accumulate import GradientRules, register_gradients
from ..definition import CarrierDefinition, install_definition
from . import direct
from .accumulate import accumulate, begin, copy
from .carrier import TiledEvictable
from .facet import TiledResidencyFacet
from .gradients import adopt

DEFINITION = CarrierDefinition(
    storage=TiledEvictable,
    kernels=dict.fromkeys(direct.NAMES, direct.execute),
    facets=(TiledResidencyFacet,),
)


def install() -> None:
    """Install the definition and what becomes of gradients; called once, by the package."""
    install_definition(DEFINITION)
    register_gradients(TiledEvictable, GradientRules(accumulate, adopt, begin, copy))
