"""Every rule has a test, every marker a rule, and README.md says so. Oracle: the markers in the sources."""

import runpy
from pathlib import Path

import pytest

TOOL = Path(__file__).resolve().parents[3] / "tools" / "spec_table.py"
PACKAGE = Path(__file__).resolve().parents[1].name

pytestmark = pytest.mark.skipif(not TOOL.is_file(), reason="the table spans the repository")


@pytest.fixture(scope="module")
def tool():
    return runpy.run_path(str(TOOL))


def test_every_rule_has_a_test_and_every_marker_a_rule(tool):
    assert tool["faults"](tool["rules_of"](PACKAGE)) == []


def test_the_table_is_up_to_date(tool):
    rules = tool["rules_of"](PACKAGE)
    assert rules.readme.read_text(encoding="utf-8") == tool["table"](rules), (
        f"run tools/spec_table.py {PACKAGE}"
    )
