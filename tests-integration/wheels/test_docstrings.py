"""Every public name explains itself. Oracle: each door's ``__all__`` and the docstrings that its classes own."""

from __future__ import annotations

import importlib
import inspect
import pkgutil
from collections.abc import Iterator

import pytest

import strideweave
import tilefoundry

SHORTEST = 10


def _doors() -> Iterator[str]:
    """Public packages and modules of both namespaces that list their names."""
    for package in (tilefoundry, strideweave):
        yield package.__name__
        for info in pkgutil.walk_packages(package.__path__, package.__name__ + "."):
            if info.ispkg and not any(part.startswith("_") for part in info.name.split(".")):
                yield info.name


DOORS = sorted(name for name in set(_doors()) if hasattr(importlib.import_module(name), "__all__"))


def _explained(value: object) -> bool:
    return len((getattr(value, "__doc__", None) or "").strip()) >= SHORTEST


def _own(value: object) -> bool:
    module = getattr(value, "__module__", None) or ""
    return module.split(".")[0] in ("tilefoundry", "strideweave")


def _generated(cls: type) -> bool:
    """Whether the class has only the signature that ``dataclass`` writes where no docstring is given."""
    return (cls.__doc__ or "").startswith(f"{cls.__name__}(")


def _silent_members(cls: type) -> list[str]:
    """Public methods and properties that the class defines, neither explained nor overriding an explained one."""
    found = []
    for name, member in vars(cls).items():
        if name.startswith("_") or not (inspect.isfunction(member) or isinstance(member, property)):
            continue
        if not _own(member if inspect.isfunction(member) else member.fget):
            continue
        if not inspect.getdoc(getattr(cls, name)):
            found.append(f"{cls.__qualname__}.{name}")
    return found


def test_the_doors_are_found():
    wanted = {"tilefoundry", "tilefoundry.dsl", "tilefoundry.runtime", "tilefoundry.codegen", "strideweave"}
    assert wanted <= set(DOORS)


@pytest.mark.parametrize("door", DOORS)
def test_every_public_name_has_a_docstring(door):
    module = importlib.import_module(door)
    assert _explained(module), f"{door} itself says nothing"
    silent: list[str] = []
    for name in module.__all__:
        value = getattr(module, name)
        if inspect.isclass(value) and _own(value):
            if not _explained(value) or _generated(value):
                silent.append(name)
            silent += _silent_members(value)
        elif inspect.isroutine(value) and _own(value) and not _explained(value):
            silent.append(name)
    assert not silent, f"{door}: without docstring: {', '.join(sorted(set(silent)))}"
