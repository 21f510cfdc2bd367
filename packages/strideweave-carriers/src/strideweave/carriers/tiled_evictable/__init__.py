"""Tiled carriers: selections, residency, projection and scatter of tiles that move between memory tiers."""

from .awaiting import AwaitProjection, AwaitResidency
from .carrier import TiledEvictable
from .facet import TiledResidencyFacet
from .plan import PURPOSES, ResidencyPlan, ResidencyPolicy
from .selection import TileSelection
from .stats import Stats
from .table import TileState
from .tile_set import TileSet

__all__ = [
    # values
    "TileSelection",
    "TileSet",
    "ResidencyPlan",
    "ResidencyPolicy",
    "PURPOSES",
    "TileState",
    "Stats",
    # carrier and handles
    "TiledEvictable",
    "TiledResidencyFacet",
    "AwaitProjection",
    "AwaitResidency",
]
