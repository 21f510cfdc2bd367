"""What a runtime twin shares with its Module: how a bare call is carried out, and how weights are found and checked."""

from tilefoundry.ir.core.forward import run_forward
from tilefoundry.ir.core.loading import WeightSlot, read_slots, weight_slots
from tilefoundry.ir.core.runners import check_activation_count

__all__ = ["WeightSlot", "check_activation_count", "read_slots", "run_forward", "weight_slots"]
