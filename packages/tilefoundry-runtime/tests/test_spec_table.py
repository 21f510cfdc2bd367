"""Every rule has a test, every marker a rule, and README.md says so. Oracle: the markers in the sources."""

import pytest
from spec_rules import RULES
from spec_table import HERE, ROOT, marked_tests, table

pytestmark = pytest.mark.skipif(
    not (ROOT / "packages" / "tilefoundry-ir" / "tests").is_dir(), reason="the table spans the repository"
)


def test_every_rule_has_a_test_and_every_marker_a_rule():
    found = marked_tests()
    assert sorted(set(RULES) - set(found)) == []
    assert sorted(set(found) - set(RULES)) == []


def test_the_table_is_up_to_date():
    assert (HERE / "README.md").read_text(encoding="utf-8") == table(marked_tests()), "run spec_table.py"
