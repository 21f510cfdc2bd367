"""For tests of carriers: conformance classes to derive from, faults and gates at the provider seam.

Nothing here is needed to use the package; the conformance classes need pytest.
"""

from .faults import Fault, Gate, fail_at, gated, sweep

__all__ = ["Fault", "Gate", "fail_at", "gated", "sweep"]
