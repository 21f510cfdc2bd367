"""Folders of NVIDIA's wheels, found without importing them."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from importlib.util import find_spec
from pathlib import Path

__all__ = ["wheel_folders"]


@cache
def wheel_folders() -> tuple[Path, ...]:
    """Every folder that the namespace package ``nvidia`` spans, such as ``site-packages/nvidia``."""
    return tuple(_folders())


def _folders() -> Iterator[Path]:
    try:
        spec = find_spec("nvidia")
    except (ImportError, ValueError):
        return
    if spec is not None and spec.submodule_search_locations is not None:
        yield from map(Path, spec.submodule_search_locations)
