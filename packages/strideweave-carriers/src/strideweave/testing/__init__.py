"""For tests of carriers: conformance classes to derive from, faults and gates at the provider seam.

Nothing here is needed to use the package. The conformance classes need pytest, so they load with their first use.
"""

from typing import TYPE_CHECKING

from .faults import Fault, Gate, fail_at, gated, sweep

if TYPE_CHECKING:
    from .conformance import CarrierConformance, ComputeConformance
    from .tiled_conformance import TiledConformance

__all__ = [
    "CarrierConformance",
    "ComputeConformance",
    "Fault",
    "Gate",
    "TiledConformance",
    "fail_at",
    "gated",
    "sweep",
]


def __getattr__(name: str) -> object:
    if name in ("CarrierConformance", "ComputeConformance"):
        from . import conformance as module
    elif name == "TiledConformance":
        from . import tiled_conformance as module
    else:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(module, name)
