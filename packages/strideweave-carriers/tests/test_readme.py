"""The README's examples do what they show. Oracle: the output printed there."""

from __future__ import annotations

import doctest
from pathlib import Path

import pytest

pytestmark = pytest.mark.spec("documentation")

README = Path(__file__).parents[1] / "README.md"


def test_examples_print_what_they_show():
    result = doctest.testfile(str(README), module_relative=False, optionflags=doctest.NORMALIZE_WHITESPACE)
    assert result.attempted > 8 and result.failed == 0
