"""Every rule has a test, every marker a rule, and README.md says so. Oracle: the markers in the sources."""

import pytest
from spec_rules import RULES
from spec_table import HERE, ROOT, marked_tests, table

pytestmark = pytest.mark.skipif(
    not (ROOT / "tests-integration" / "downstream").is_dir(), reason="the table spans the repository"
)


def test_every_rule_has_a_test_and_every_marker_a_rule():
    assert sorted(set(RULES) - set(marked_tests())) == []
    # The ir's tests carry marks of other contracts as well.
    assert sorted(set(marked_tests((HERE,))) - set(RULES)) == []


def test_the_table_is_up_to_date():
    assert (HERE / "README.md").read_text(encoding="utf-8") == table(marked_tests()), "run spec_table.py"
