"""From a linked library to a callable module; a door for code generators."""

from tilefoundry.runtime.kernel_record import KernelRecord
from tilefoundry.runtime.linking.linked import LinkedModule
from tilefoundry.runtime.linking.linked_text import decode_linked, encode_linked
from tilefoundry.runtime.linking.loader import load_linked_module
from tilefoundry.runtime.processor import native_arch, runs_here

__all__ = [
    "KernelRecord",
    "LinkedModule",
    "decode_linked",
    "encode_linked",
    "load_linked_module",
    "native_arch",
    "runs_here",
]
