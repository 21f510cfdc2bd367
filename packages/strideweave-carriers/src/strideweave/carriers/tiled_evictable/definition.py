"""What the package puts into the tables that dispatch and autograd consult."""

from __future__ import annotations

from ...autograd.accumulate import register_gradients
from ..definition import CarrierDefinition, install_definition
from . import direct
from .accumulate import accumulate, begin
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
    register_gradients(TiledEvictable, accumulate, adopt, begin)
