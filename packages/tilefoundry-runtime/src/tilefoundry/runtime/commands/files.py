"""Python values, alias tables and tensors that commands take from files."""

from __future__ import annotations

import importlib.util
import json
import sys
from collections.abc import Mapping
from pathlib import Path
from types import ModuleType
from typing import Any

from tilefoundry.cli import CommandError, UsageError
from tilefoundry.runtime.resource import Absolute, AliasValue

# torch and safetensors are imported where they are first needed: importing the runtime must not load them.

__all__ = ["load_alias", "load_inputs", "load_value"]


def load_value(spec: str) -> Any:
    """What ``FILE.py:NAME`` names; dots after the name go through attributes.

    Raises:
        CommandError: no such file or name; UsageError: a spec of another form.
    """
    file, _, path = spec.rpartition(":")
    if not file.endswith(".py") or not path:
        raise UsageError(f"{spec} is no FILE.py:NAME")
    value: Any = _imported(Path(file))
    for part in path.split("."):
        if not hasattr(value, part):
            raise CommandError(f"{file} defines no {path}")
        value = getattr(value, part)
    return value


def _imported(path: Path) -> ModuleType:
    if not path.is_file():
        raise CommandError(f"there is no file {path}")
    name = f"_tilefoundry_file_{path.resolve().stem}"
    spec = importlib.util.spec_from_file_location(name, path.resolve())
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    sys.path.insert(0, str(path.resolve().parent))
    try:
        spec.loader.exec_module(module)
    finally:
        sys.path.remove(str(path.resolve().parent))
    return module


def load_alias(spec: str | None) -> Mapping[str, AliasValue] | None:
    """An alias table: ``FILE.py:NAME``, or a JSON object.

    In JSON a string is a name, a list a group, and ``{"absolute": "name"}`` a whole key.
    """
    if spec is None:
        return None
    if not spec.endswith(".json"):
        return load_value(spec)
    try:
        table = json.loads(Path(spec).read_text(encoding="utf-8"))
    except ValueError as error:
        raise CommandError(f"{spec} is no JSON: {error}") from None
    if not isinstance(table, dict):
        raise CommandError(f"{spec} must hold an object from names to raw names")
    return {name: _alias_value(spec, name, value) for name, value in table.items()}


def _alias_value(spec: str, name: str, value: Any) -> AliasValue:
    if isinstance(value, str):
        return value
    if isinstance(value, list) and all(isinstance(part, str) for part in value):
        return tuple(value)
    if isinstance(value, dict) and set(value) == {"absolute"} and isinstance(value["absolute"], str):
        return Absolute(value["absolute"])
    raise CommandError(
        f'{spec}: {name} must be a string, a list of strings or {{"absolute": "..."}}, got {value!r}'
    )


def load_inputs(spec: str, names: tuple[str, ...], device: str) -> tuple[Any, ...]:
    """Activations: a safetensors file that holds one tensor per name, or ``FILE.py:NAME`` with a tuple.

    Raises:
        CommandError: a file that lacks one, or a value of another kind.
    """
    import torch
    from safetensors.torch import load_file

    if spec.endswith(".safetensors"):
        found = load_file(spec, device=device)
        missing = [name for name in names if name not in found]
        if missing:
            raise CommandError(f"{spec} holds {', '.join(found) or 'nothing'}, but not {', '.join(missing)}")
        return tuple(found[name] for name in names)
    value = load_value(spec)
    value = value() if callable(value) and not isinstance(value, torch.Tensor) else value
    if isinstance(value, torch.Tensor):
        value = (value,)
    if not isinstance(value, tuple):
        raise CommandError(f"{spec} must be a tensor or a tuple of tensors, got {type(value).__name__}")
    return tuple(_moved(item, device) for item in value)


def _moved(value: Any, device: str) -> Any:
    return tuple(_moved(item, device) for item in value) if isinstance(value, tuple) else value.to(device)
