"""Built libraries on disk, shared by all processes of a user."""

from tilefoundry.codegen.cache.disk import DiskCache, facts_of, keep_beside
from tilefoundry.codegen.cache.place import cache_directory, configured_directory

__all__ = ["DiskCache", "cache_directory", "configured_directory", "facts_of", "keep_beside"]
