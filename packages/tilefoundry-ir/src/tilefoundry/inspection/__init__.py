"""Programs as text and pictures: canonical scripts, digests for cache keys, SVG and HTML."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from tilefoundry.inspection.digests import digest
from tilefoundry.inspection.script import as_script

if TYPE_CHECKING:
    from tilefoundry.inspection.pictures import View, view

__all__ = ["View", "as_script", "digest", "view"]


def __getattr__(name: str) -> Any:
    """Pictures are loaded when one is asked for: compiling reads programs as text alone."""
    if name in ("View", "view"):
        return getattr(import_module("tilefoundry.inspection.pictures"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
