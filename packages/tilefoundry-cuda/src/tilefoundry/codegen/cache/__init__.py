"""Built libraries on disk, shared by all processes of a user."""

from tilefoundry.codegen.cache.disk import DiskCache, facts_of, keep_beside
from tilefoundry.codegen.cache.libraries import built_library, kept_library
from tilefoundry.codegen.cache.notes import Status, noted, status_of
from tilefoundry.codegen.cache.place import cache_directory, configured_directory
from tilefoundry.codegen.cache.programs import ProgramIndex

__all__ = [
    "DiskCache",
    "ProgramIndex",
    "Status",
    "built_library",
    "cache_directory",
    "configured_directory",
    "facts_of",
    "keep_beside",
    "kept_library",
    "noted",
    "status_of",
]
