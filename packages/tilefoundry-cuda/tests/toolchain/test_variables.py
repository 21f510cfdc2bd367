"""Variables of the environment that the compiler reads. Oracle: the page that tells users of them."""

from __future__ import annotations

import re
from pathlib import Path

import tilefoundry.codegen

CODE = Path(tilefoundry.codegen.__file__).parent
PAGE = Path(__file__).parents[4] / "docs" / "compile.md"


def test_every_variable_of_ours_is_documented_and_every_documented_one_is_read():
    quoted = re.compile(r'"(TILEFOUNDRY_[A-Z_]+)"')
    read = {
        name
        for file in CODE.rglob("*.py")
        if "environ" in (text := file.read_text())
        for name in quoted.findall(text)
    }
    told = set(re.findall(r"`(TILEFOUNDRY_[A-Z_]+)", PAGE.read_text()))
    assert read == told and "TILEFOUNDRY_CACHE_LIMIT" in read
