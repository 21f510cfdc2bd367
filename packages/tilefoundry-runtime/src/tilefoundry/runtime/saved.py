"""A built library on disk with everything that loading it must check."""

from __future__ import annotations

import hashlib
import json
import os
import platform
import shutil
from typing import TYPE_CHECKING, Any

from tilefoundry.runtime.abi_text import decode_entry, encode_entry

if TYPE_CHECKING:
    from tilefoundry.runtime.compiled import CompiledModule
    from tilefoundry.runtime.linking import LinkedModule

__all__ = ["load_compiled", "save_linked"]

FORMAT = 1
ABI_FILE = "abi.json"
LIBRARY_FILE = "library.so"
SOURCE_FILE = "source.txt"
TVM_FFI = (">=0.1.10", "<0.2")


def save_linked(linked: LinkedModule, directory: str) -> None:
    """Write library, source text and ``abi.json`` into ``directory``; the last file makes the rest valid."""
    os.makedirs(directory, exist_ok=True)
    library = os.path.join(directory, LIBRARY_FILE)
    abi = os.path.join(directory, ABI_FILE)
    # Without abi.json no reader takes a library that is half written.
    if os.path.exists(abi):
        os.unlink(abi)
    _replace(library, lambda path: shutil.copyfile(linked.library_path, path))
    _replace(os.path.join(directory, SOURCE_FILE), lambda path: _write_text(path, linked.source))
    table = {
        "format": FORMAT,
        "entry": encode_entry(linked.entry),
        "target": linked.target,
        "arch": linked.arch,
        "tvm_ffi": list(TVM_FFI),
        "sha256": _digest(library),
    }
    _replace(abi, lambda path: _write_text(path, json.dumps(table, indent=2) + "\n"))


def load_compiled(directory: str) -> CompiledModule:
    """The module that ``CompiledModule.save`` wrote; everything is checked before the library is opened.

    Raises:
        FileNotFoundError: the folder, its ``abi.json`` or the library is missing.
        ValueError: another format, a damaged file, or a library for another processor or tvm-ffi.
    """
    from tilefoundry.runtime.linking import LinkedModule, load_linked_module

    table = _read_table(os.path.join(directory, ABI_FILE))
    library = os.path.join(directory, LIBRARY_FILE)
    if not os.path.exists(library):
        raise FileNotFoundError(f"{directory} has an {ABI_FILE} but no {LIBRARY_FILE}; save the module again")
    _check_digest(library, table["sha256"])
    _check_tvm_ffi(directory, table["tvm_ffi"])
    _check_arch(directory, table["target"], table["arch"])
    entry = decode_entry(os.path.join(directory, ABI_FILE), table["entry"])
    source = os.path.join(directory, SOURCE_FILE)
    text = _read_text(source) if os.path.exists(source) else ""
    return load_linked_module(LinkedModule(library, text, entry, table["target"], table["arch"]))


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
    kinds = {"entry": dict, "target": str, "arch": str, "tvm_ffi": list, "sha256": str}
    for key, kind in kinds.items():
        if not isinstance(table.get(key), kind):
            raise ValueError(f"{path} is damaged: {key} must be a {kind.__name__}, got {table.get(key)!r}")
    return table


def _check_digest(library: str, expected: str) -> None:
    actual = _digest(library)
    if actual != expected:
        raise ValueError(f"{library} is not the library that was saved: sha256 {actual}, expected {expected}")


def _check_tvm_ffi(directory: str, wanted: list[Any]) -> None:
    from importlib.metadata import version

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


def _check_arch(directory: str, target: str, arch: str) -> None:
    if target == "cpu" and arch and arch != platform.machine():
        raise ValueError(f"{directory} was built for {arch}, this machine is {platform.machine()}")
    if target == "cuda" and arch:
        _check_cuda(directory, arch)


def _check_cuda(directory: str, arch: str) -> None:
    import torch

    # Without a GPU the library still opens; calling it is what fails then.
    if not torch.cuda.is_available():
        return
    major, minor = torch.cuda.get_device_capability()
    have, want = f"sm_{major}{minor}", arch.rstrip("af")
    exact = arch != want
    same_line = want[:-1] == have[:-1] and int(want[-1]) <= minor
    if want != have and (exact or not same_line):
        raise ValueError(f"{directory} was built for {arch}, this device is {have}")


def _digest(path: str) -> str:
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _replace(path: str, write: Any) -> None:
    """Write beside ``path`` and rename, so that a process that has the old file open keeps it whole."""
    temporary = f"{path}.{os.getpid()}"
    try:
        write(temporary)
        os.replace(temporary, path)
    finally:
        if os.path.exists(temporary):
            os.unlink(temporary)


def _write_text(path: str, text: str) -> None:
    with open(path, "w", encoding="utf-8") as file:
        file.write(text)


def _read_text(path: str) -> str:
    with open(path, encoding="utf-8") as file:
        return file.read()
