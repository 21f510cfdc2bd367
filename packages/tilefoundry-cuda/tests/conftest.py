"""Options of this wheel's tests."""

from __future__ import annotations

import pytest


def pytest_addoption(parser: pytest.Parser) -> None:
    """``--update-golden`` writes the golden sources anew instead of comparing with them."""
    parser.addoption("--update-golden", action="store_true", help="write golden sources instead of comparing")


@pytest.fixture
def update_golden(request: pytest.FixtureRequest) -> bool:
    """Whether golden files are to be written."""
    return request.config.getoption("--update-golden", default=False)
