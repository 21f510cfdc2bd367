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


def doc_of(name):
    """The object's docstring; a class's goes on with those of its bases."""
    public = PUBLIC[name]
    bases = [base for base in getattr(public, "__mro__", ()) if base.__module__.startswith("tilefoundry")]
    return "\n".join(inspect.getdoc(item) or "" for item in (bases or [public]))


@pytest.mark.parametrize("name", PUBLIC)
def test_threads_are_spoken_of(name):
    assert SAYS.search(doc_of(name)), doc_of(name)


@pytest.mark.parametrize(
    "name",
    ["RuntimeModule", "RuntimeFunction", "CompiledModule", "BoundModule", "SafetensorsResource", "graphed"],
)
def test_streams_are_spoken_of_where_work_is_queued(name):
    assert "stream" in (inspect.getdoc(PUBLIC[f"tilefoundry.runtime.{name}"]) or "")
