"""Tiled carriers: selections, residency, projection and scatter of tiles that move between memory tiers."""

from .awaiting import AwaitProjection, AwaitResidency
from .budget import Bundle, DeviceBudget
from .carrier import TiledEvictable
from .definition import install
from .facet import TiledResidencyFacet
from .hold import Hold
from .plan import PURPOSES, ResidencyPlan, ResidencyPolicy
from .policies import LFU, LRU, PinSet
from .prefetch import Prefetcher
from .selection import TileSelection
from .stats import Stats
from .table import TileState
from .tile_set import TileSet

install()

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
    "Hold",
    # policies, prefetch, sharing
    "LRU",
    "LFU",
    "PinSet",
    "Prefetcher",
    "Bundle",
    "DeviceBudget",
]
