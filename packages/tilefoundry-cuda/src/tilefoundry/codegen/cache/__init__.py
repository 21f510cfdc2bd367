"""Built libraries on disk, shared by all processes of a user."""

from tilefoundry.codegen.cache.disk import DiskCache, facts_of, keep_beside
from tilefoundry.codegen.cache.notes import Status, noted, status_of
from tilefoundry.codegen.cache.place import cache_directory, configured_directory
from tilefoundry.codegen.cache.programs import ProgramIndex

__all__ = [
    "DiskCache",
    "ProgramIndex",
    "Status",
    "cache_directory",
    "configured_directory",
    "facts_of",
    "keep_beside",
    "noted",
    "status_of",
]
