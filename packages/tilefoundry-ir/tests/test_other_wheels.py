"""Names of the package that no installed wheel brings. Oracle: the wheels' own names."""

from __future__ import annotations

import pytest

import tilefoundry


@pytest.mark.parametrize(
    ("name", "wheel"), [("runtime", "tilefoundry-runtime"), ("codegen", "tilefoundry-cuda")]
)
def test_a_part_that_another_wheel_brings_is_asked_for_by_that_wheels_name(monkeypatch, name, wheel):
    monkeypatch.delattr(tilefoundry, name, raising=False)
    monkeypatch.setattr(tilefoundry, "find_spec", lambda asked: None)
    with pytest.raises(
        AttributeError, match=rf"'{name}'; it comes with the wheel {wheel}: pip install {wheel}"
    ):
        getattr(tilefoundry, name)
    assert not hasattr(tilefoundry, name)


def test_a_part_that_is_there_and_was_not_imported_says_how(monkeypatch):
    monkeypatch.delattr(tilefoundry, "runtime", raising=False)
    monkeypatch.setattr(tilefoundry, "find_spec", lambda asked: asked)
    with pytest.raises(AttributeError, match=r"'runtime' before it is imported: import tilefoundry\.runtime"):
        _ = tilefoundry.runtime


def test_other_names_are_unknown():
    with pytest.raises(AttributeError, match=r"has no attribute 'nothing'$"):
        _ = tilefoundry.nothing  # type: ignore[attr-defined]  # that is the point
