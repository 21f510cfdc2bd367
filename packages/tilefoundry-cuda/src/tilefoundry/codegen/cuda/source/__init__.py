"""CUDA C++ of kernels, and C++ of the host that launches them."""

from tilefoundry.codegen.cuda.source.device import (
    device_source,
    emit_kernel,
    meets_in_turns,
    takes_dynamic_shared,
    takes_turns,
)
from tilefoundry.codegen.cuda.source.host import host_source

__all__ = [
    "device_source",
    "emit_kernel",
    "host_source",
    "meets_in_turns",
    "takes_dynamic_shared",
    "takes_turns",
]
