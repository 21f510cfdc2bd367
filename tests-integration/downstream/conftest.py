"""Tests marked ``two_gpus`` run where there are two: ``pytest tests-integration/downstream -m two_gpus``."""

from __future__ import annotations

import pytest


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "two_gpus: needs two NVIDIA GPUs; deselected where there are fewer")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    marked = [item for item in items if item.get_closest_marker("two_gpus")]
    if marked and _gpus() < 2:
        config.hook.pytest_deselected(items=marked)
        items[:] = [item for item in items if item not in marked]


def _gpus() -> int:
    import torch

    return torch.cuda.device_count()
