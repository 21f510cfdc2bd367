"""Programs as text and pictures: canonical scripts, digests for cache keys, SVG and HTML."""

from tilefoundry.inspection.digests import digest
from tilefoundry.inspection.pictures import View, view
from tilefoundry.inspection.script import as_script

__all__ = ["View", "as_script", "digest", "view"]
