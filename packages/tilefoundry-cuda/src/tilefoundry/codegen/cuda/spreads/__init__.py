"""Which instance holds which elements of a kernel's values: what schedules do, said by layouts and read back."""

from tilefoundry.codegen.cuda.spreads.flattening import flattened
from tilefoundry.codegen.cuda.spreads.following import follow
from tilefoundry.codegen.cuda.spreads.spread import Spread, chosen_spread, spread_over
from tilefoundry.codegen.cuda.spreads.writing import with_layouts

__all__ = ["Spread", "chosen_spread", "flattened", "follow", "spread_over", "with_layouts"]
