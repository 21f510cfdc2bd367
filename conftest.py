"""Settings that every test run shares: what runs where, and Hypothesis profiles.

Tests marked ``gpu`` run where there is a GPU, those marked ``two_gpus`` where there are two. Those marked
``emulated`` take a quarter of an hour of one core and run where ``TILEFOUNDRY_EMULATED=1`` asks for them
(``make emulate``).

The Hypothesis profile ``ci`` draws the same examples for the same tests every time, so that the same commit always
gets the same answer; ``dev`` draws new ones each time, and ``explore`` many more (``make explore``).
"""

from __future__ import annotations

import os
import signal

import pytest
from hypothesis import HealthCheck, settings

settings.register_profile("dev", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("ci", parent=settings.get_profile("dev"), derandomize=True, print_blob=True)
settings.register_profile("explore", parent=settings.get_profile("dev"), max_examples=2000, print_blob=True)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "dev"))


def pytest_configure(config: pytest.Config) -> None:
    """Register the marker that no wheel's own options name; let interrupts interrupt, which tests send themselves."""
    # A shell starts what it runs in the background with Ctrl-C ignored, and Python leaves that as it is.
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    config.addinivalue_line("markers", "two_gpus: needs two NVIDIA GPUs; deselected where there are fewer")


def _gpus() -> int:
    try:
        import torch
    except ImportError:
        return 0
    return torch.cuda.device_count() if torch.cuda.is_available() else 0


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Deselect what this machine cannot run or was not asked to."""
    if os.environ.get("TILEFOUNDRY_EMULATED") != "1":
        _deselect(config, items, "emulated")
    for needed, marker in ((1, "gpu"), (2, "two_gpus")):
        if any(item.get_closest_marker(marker) for item in items) and _gpus() < needed:
            _deselect(config, items, marker)


def _deselect(config: pytest.Config, items: list[pytest.Item], marker: str) -> None:
    marked = [item for item in items if item.get_closest_marker(marker)]
    if marked:
        config.hook.pytest_deselected(items=marked)
        items[:] = [item for item in items if not item.get_closest_marker(marker)]
