"""Settings that every test run shares: GPU tests only where there is a GPU, and Hypothesis profiles."""

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
    """Deselect tests marked ``gpu`` on a machine without a GPU."""
    marked = [item for item in items if item.get_closest_marker("gpu")]
    if marked and not _has_gpu():
        config.hook.pytest_deselected(items=marked)
        items[:] = [item for item in items if item not in marked]
