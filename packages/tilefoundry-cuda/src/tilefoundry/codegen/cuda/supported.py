"""What the host of a CUDA library answers without a kernel."""

from __future__ import annotations

from tilefoundry.codegen.cpu.partition import is_view
from tilefoundry.ir.core.expr import Call

__all__ = ["host_answers"]


def host_answers(call: Call) -> bool:
    """Whether the host answers ``call`` with a view; a window whose start lies on the device is copied there."""
    if call.op.name == "slice" and len(call.args) > 1:
        return False
    return is_view(call)
