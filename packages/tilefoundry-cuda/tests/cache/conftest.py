"""Caches of these tests live for a moment: nothing is to be precompiled for them."""

import pytest


@pytest.fixture(autouse=True)
def no_precompiled_headers(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also for the processes that a test starts."""
    monkeypatch.setenv("TILEFOUNDRY_PRECOMPILED", "0")
