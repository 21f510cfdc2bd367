"""Settings that every test run shares: what runs where, and Hypothesis profiles.

Tests marked ``gpu`` run where there is a GPU. Those marked ``emulated`` take a quarter of an hour of one core and run
where ``TILEFOUNDRY_EMULATED=1`` asks for them (``make emulate``).
"""

from __future__ import annotations

import os

import pytest
from hypothesis import HealthCheck, settings

settings.register_profile("dev", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("ci", parent=settings.get_profile("dev"), print_blob=True)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "dev"))


def _has_gpu() -> bool:
    try:
        import torch
    except ImportError:
        return False
    return torch.cuda.is_available()


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Deselect what this machine cannot run or was not asked to."""
    if os.environ.get("TILEFOUNDRY_EMULATED") != "1":
        _deselect(config, items, "emulated")
    if any(item.get_closest_marker("gpu") for item in items) and not _has_gpu():
        _deselect(config, items, "gpu")


def _deselect(config: pytest.Config, items: list[pytest.Item], marker: str) -> None:
    marked = [item for item in items if item.get_closest_marker(marker)]
    if marked:
        config.hook.pytest_deselected(items=marked)
        items[:] = [item for item in items if not item.get_closest_marker(marker)]
