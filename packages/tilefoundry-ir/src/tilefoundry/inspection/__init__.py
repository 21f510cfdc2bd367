"""Programs as text: canonical scripts, digests for cache keys, pictures."""

from tilefoundry.inspection.digest import digest
from tilefoundry.inspection.script import as_script

__all__ = ["as_script", "digest"]
