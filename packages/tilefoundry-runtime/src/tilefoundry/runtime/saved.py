"""Load a library that ``CompiledModule.save`` wrote."""

from __future__ import annotations

import json
import os
import platform
import re
from importlib.metadata import version
from typing import Any

from tilefoundry.runtime.abi_text import decode_entry, decode_kernels
from tilefoundry.runtime.compiled import CompiledModule
from tilefoundry.runtime.linking import LinkedModule, load_linked_module
from tilefoundry.runtime.processor import native_arch, runs_here
from tilefoundry.runtime.saving import ABI_FILE, FORMAT, LIBRARY_FILE, SOURCE_FILE, digest_of

# torch is imported where it is first needed: importing the runtime must not load it.

__all__ = ["load_compiled"]

_ARCHES = {"cpu": r"(?!sm_)[\w.+-]*", "cuda": r"(sm_\d{2,3}[af]?)?"}
"""Target -> what its architectures look like; an empty one says that it is not known."""


def load_compiled(directory: str) -> CompiledModule:
    """The module that ``CompiledModule.save`` wrote; everything is checked before the library is opened.

    Thread-safe; every call gives a module of its own over one library of the process.

    Raises:
        FileNotFoundError: the folder, its ``abi.json`` or the library is missing, or ``directory`` is a file.
        ValueError: another format, a damaged file, or a library for another processor or tvm-ffi.
    """
    if os.path.isfile(directory):
        raise FileNotFoundError(
            f"{directory} is a file, no folder; give the folder that CompiledModule.save wrote"
        )
    table = _read_table(os.path.join(directory, ABI_FILE))
    library = os.path.join(directory, LIBRARY_FILE)
    if not os.path.exists(library):
        raise FileNotFoundError(f"{directory} has an {ABI_FILE} but no {LIBRARY_FILE}; save the module again")
    _check_digest(library, table["sha256"])
    _check_tvm_ffi(directory, table["tvm_ffi"])
    _check_machine(directory, table["target"], table["arch"], table["machine"])
    entry = decode_entry(os.path.join(directory, ABI_FILE), table["entry"])
    source = os.path.join(directory, SOURCE_FILE)
    text = _read_text(source) if os.path.exists(source) else ""
    kernels = decode_kernels(os.path.join(directory, ABI_FILE), table.get("kernels", []))
    return load_linked_module(LinkedModule(library, text, entry, table["target"], table["arch"], kernels))


def _read_table(path: str) -> dict[str, Any]:
    if not os.path.exists(path):
        raise FileNotFoundError(f"{path} does not exist; give a folder that CompiledModule.save wrote")
    try:
        table = json.loads(_read_text(path))
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{path} is damaged: {error}") from None
    version = table.get("format") if isinstance(table, dict) else None
    if version != FORMAT or isinstance(version, bool):
        raise ValueError(f"{path} has format {version!r}, this version reads {FORMAT}; save the module again")
    kinds = {"entry": dict, "target": str, "arch": str, "machine": str, "tvm_ffi": list, "sha256": str}
    for key, kind in kinds.items():
        if not isinstance(table.get(key), kind):
            raise ValueError(f"{path} is damaged: {key} must be a {kind.__name__}, got {table.get(key)!r}")
    if not isinstance(table.get("kernels", []), list):
        raise ValueError(f"{path} is damaged: kernels must be a list, got {table['kernels']!r}")
    return table


def _check_digest(library: str, expected: str) -> None:
    actual = digest_of(library)
    if actual != expected:
        raise ValueError(
            f"{library} is not the library that was saved: sha256 {actual}, expected {expected}; copy the folder "
            "again, or write it again with CompiledModule.save"
        )


def _check_tvm_ffi(directory: str, wanted: list[Any]) -> None:
    have = version("apache-tvm-ffi")
    try:
        ok = all(_holds(have, str(bound)) for bound in wanted)
    except ValueError:
        raise ValueError(f"{directory}: {ABI_FILE} gives no version range for tvm-ffi: {wanted!r}") from None
    if not ok:
        raise ValueError(
            f"{directory} needs apache-tvm-ffi {','.join(map(str, wanted))}, {have} is installed"
        )


def _holds(have: str, bound: str) -> bool:
    for operator, test in (
        (">=", lambda a, b: a >= b),
        ("<=", lambda a, b: a <= b),
        ("==", lambda a, b: a == b),
        ("<", lambda a, b: a < b),
        (">", lambda a, b: a > b),
    ):
        if bound.startswith(operator):
            return test(_release(have), _release(bound[len(operator) :]))
    raise ValueError(bound)


def _release(version: str) -> tuple[int, ...]:
    parts = []
    for part in version.split("."):
        if not part.isdigit():
            break
        parts.append(int(part))
    if not parts:
        raise ValueError(version)
    return tuple(parts + [0] * (4 - len(parts)))


def _check_machine(directory: str, target: str, arch: str, machine: str) -> None:
    form = _ARCHES.get(target)
    if form is None:
        raise ValueError(
            f"{directory} was built for the target {target!r}, this version knows {' and '.join(_ARCHES)}; load it "
            "with the version that saved it"
        )
    if re.fullmatch(form, arch) is None:
        raise ValueError(
            f"{directory}: {arch!r} is no architecture of the target {target!r}; save the module again"
        )
    if machine != platform.machine():
        raise ValueError(f"{directory} was built on {machine}, this machine is {platform.machine()}")
    if target == "cuda" and arch:
        _check_cuda(directory, arch)
    elif target == "cpu" and not runs_here(arch):
        raise ValueError(
            f"{directory} was built for {arch}, this machine is {native_arch()}; build it again here"
        )


def _check_cuda(directory: str, arch: str) -> None:
    import torch

    # Without a GPU the library still opens; calling it is what fails then.
    if not torch.cuda.is_available():
        return
    major, minor = torch.cuda.get_device_capability()
    have, want = f"sm_{major}{minor}", arch.rstrip("af")
    # Code of one compute capability runs on later ones of the same major, unless it says "this one alone".
    later = want[:-1] == have[:-1] and int(want[-1]) <= minor and not arch.endswith("a")
    if want != have and not later:
        raise ValueError(
            f"{directory} was built for {arch}, this device is {have}; build it again for this one"
        )


def _read_text(path: str) -> str:
    with open(path, encoding="utf-8") as file:
        return file.read()
