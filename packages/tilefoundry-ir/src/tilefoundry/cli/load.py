"""``FILE:MODULE`` arguments: import a model file and find what it defines."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

from tilefoundry.cli.command import CommandError
from tilefoundry.ir.core.module import Module, select
from tilefoundry.ir.hir.function import Function
from tilefoundry.ir.tir.function import PrimFunction

__all__ = ["Node", "load_node"]

Node = Module | Function | PrimFunction


def load_node(spec: str) -> Node:
    """What ``FILE:NAME`` names, such as ``model.py:MiniLM`` or ``model.py:MiniLM.layer0.attention``.

    ``FILE`` is a path, or a dotted module name that Python can import. Without ``:NAME`` the file must define
    exactly one Module. The file's own folder is importable while it loads.

    Raises:
        CommandError: no such file, name, or more than one Module to choose from; whatever the file raises while
            it runs comes out as it is.
    """
    target, _, path = spec.partition(":")
    module = _import(target)
    if not path:
        return _only_module(target, module)
    name, _, rest = path.partition(".")
    node = vars(module).get(name)
    if not isinstance(node, (Module, Function, PrimFunction)):
        raise CommandError(f"{target} defines no Module or Function {name!r}; it defines {_listed(module)}")
    if not rest:
        return node
    if not isinstance(node, Module):
        raise CommandError(f"{name} is a function and holds nothing called {rest!r}")
    selected = select(node, rest)
    last = rest.rpartition(".")[2]
    return selected.lookup(last) if selected.function_named(last) and selected.entry == last else selected


def _import(target: str) -> ModuleType:
    path = Path(target)
    if path.suffix != ".py":
        if path.exists():
            raise CommandError(f"{target} is no Python file; name a .py file or an importable module")
        try:
            return importlib.import_module(target)
        except ModuleNotFoundError as error:
            if error.name and target.startswith(error.name):
                raise CommandError(f"there is neither a file nor a module {target!r}") from None
            raise
    if not path.is_file():
        raise CommandError(f"there is no file {target}")
    return _import_file(path.resolve())


def _import_file(path: Path) -> ModuleType:
    name = f"_tilefoundry_file_{path.stem}"
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    sys.path.insert(0, str(path.parent))
    try:
        spec.loader.exec_module(module)
    finally:
        sys.path.remove(str(path.parent))
    return module


def _only_module(target: str, module: ModuleType) -> Module:
    found = {name: value for name, value in vars(module).items() if isinstance(value, Module)}
    different = {id(value): value for value in found.values()}
    if len(different) == 1:
        return next(iter(different.values()))
    raise CommandError(f"name what to show, as in {target}:NAME; {target} defines {_listed(module)}")


def _listed(module: ModuleType) -> str:
    kinds = (Module, Function, PrimFunction)
    names = [name for name, value in vars(module).items() if isinstance(value, kinds)]
    return ", ".join(names) or "none at all"
