"""From a linked library to a callable module; a door for code generators."""

from tilefoundry.runtime.linking.linked import LinkedModule
from tilefoundry.runtime.linking.loader import load_linked_module

__all__ = ["LinkedModule", "load_linked_module"]
