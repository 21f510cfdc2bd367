"""Run DSL source that a test holds as text, as a file or a notebook cell would run it."""

from __future__ import annotations

import itertools
import linecache
import textwrap
from collections.abc import Callable
from typing import Any

import pytest

PRELUDE = "from __future__ import annotations\nfrom tilefoundry.dsl import *\n"
_COUNT = itertools.count()


@pytest.fixture
def run() -> Callable[..., dict[str, Any]]:
    """``run(text)`` executes ``text`` after the prelude and gives its namespace; lines count from the prelude."""

    def run_text(text: str, **names: Any) -> dict[str, Any]:
        source = PRELUDE + textwrap.dedent(text)
        filename = f"<cell {next(_COUNT)}>"
        linecache.cache[filename] = (len(source), None, source.splitlines(keepends=True), filename)
        namespace: dict[str, Any] = {"__name__": "cell", **names}
        exec(compile(source, filename, "exec"), namespace)
        return namespace

    return run_text
