"""Orchestration methods by their Python source, with the imports and plain constants that it names."""

from __future__ import annotations

import inspect
import re
import textwrap
from collections.abc import Callable, Iterator
from types import CodeType, FunctionType, ModuleType
from typing import Any

from tilefoundry.inspection.names import Header

__all__ = ["method_lines"]

_PLAIN = (bool, int, float, str, bytes, type(None))


def method_lines(owner: str, name: str, method: Callable[..., Any], header: Header) -> list[str]:
    """The source of ``method`` as a ``def`` called ``name``, unindented.

    Global and enclosing names that are modules, importable objects or plain constants are declared at the top
    of the script; any other name is left to whoever runs the method.

    Raises:
        ValueError: Python kept no source for it.
    """
    try:
        source = textwrap.dedent(inspect.getsource(method))
    except (OSError, TypeError) as error:
        raise ValueError(
            f"{owner}.{name}: Python keeps no source for this method ({error}); "
            "define it in a file, or print the program alone"
        ) from None
    if isinstance(method, FunctionType):
        for line in _needs(method):
            header.require(line)
    renamed = re.sub(r"^(\s*(?:async\s+)?def\s+)\w+", rf"\g<1>{name}", source, count=1, flags=re.MULTILINE)
    return renamed.rstrip().split("\n")


def _needs(method: FunctionType) -> Iterator[str]:
    scope = {**method.__globals__, **inspect.getclosurevars(method).nonlocals}
    for name in sorted(set(_global_names(method.__code__)) | set(method.__code__.co_freevars)):
        if name in scope:
            yield from _declaration(name, scope[name])


def _global_names(code: CodeType) -> Iterator[str]:
    yield from code.co_names
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _global_names(constant)


def _declaration(name: str, value: Any) -> Iterator[str]:
    if isinstance(value, ModuleType):
        yield f"import {value.__name__}" if value.__name__ == name else f"import {value.__name__} as {name}"
    elif isinstance(value, _PLAIN):
        yield f"{name} = {value!r}"
    elif (
        getattr(value, "__qualname__", None) == name
        and getattr(value, "__module__", "__main__") != "__main__"
    ):
        yield f"from {value.__module__} import {name}"
