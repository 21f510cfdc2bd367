"""Every public object says what threads may do with it, and on which stream it works. Oracle: its docstring."""

import inspect
import re
from importlib import import_module

import pytest

DOORS = ("tilefoundry.runtime", "tilefoundry.runtime.linking", "tilefoundry.runtime.resource")
SAYS = re.compile(r"\b[Tt]hread|\b[Ii]mmutable\b")
VALUES = {"AliasValue", "PREDICATES"}  # a union of types and a table: no docstring of their own

PUBLIC = {
    f"{door}.{name}": getattr(import_module(door), name)
    for door in DOORS
    for name in import_module(door).__all__
    if name not in VALUES
}


@pytest.mark.parametrize("name", PUBLIC)
def test_threads_are_spoken_of(name):
    text = inspect.getdoc(PUBLIC[name]) or ""
    assert SAYS.search(text), text


@pytest.mark.parametrize(
    "name",
    ["RuntimeModule", "RuntimeFunction", "CompiledModule", "BoundModule", "SafetensorsResource", "graphed"],
)
def test_streams_are_spoken_of_where_work_is_queued(name):
    text = inspect.getdoc(PUBLIC[f"tilefoundry.runtime.{name}"]) or ""
    assert "stream" in text, text
