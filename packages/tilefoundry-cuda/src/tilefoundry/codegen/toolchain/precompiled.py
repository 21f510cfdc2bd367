"""The runtime's headers, parsed once per compiler, flags and text, in the cache directory.

Layout: ``<root>/headers/<key>/tilefoundry/runtime.h.gch``. A compiler that does not accept the file reads the headers
as they are, so it can only save time. It appears by one rename; any number of processes may build it side by side.
``TILEFOUNDRY_PRECOMPILED=0`` turns it off.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from tilefoundry.codegen.toolchain.errors import ToolchainError
from tilefoundry.codegen.toolchain.gxx import Compiler
from tilefoundry.codegen.toolchain.outside import compiler_environment

__all__ = ["VARIABLE", "PrecompiledHeaders", "clear_precompiled"]

VARIABLE = "TILEFOUNDRY_PRECOMPILED"
_HEADER = "tilefoundry/runtime.h"
_KEPT = 8
_SHOWN = 40
_ABANDONED_SECONDS = 600

# The output is named only when it is whole; the claim goes whatever happens.
_SCRIPT = (
    'out=$1; whole=$2; claim=$3; shift 3; nice "$@" -o "$out" && mv -f "$out" "$whole"; rm -f "$out" "$claim"'
)


@dataclass(frozen=True, slots=True)
class PrecompiledHeaders:
    """One precompiled header.

    Attributes:
        root: the cache directory; one that can be written.
        compiler: g++; for other compilers nothing is precompiled.
        flags: of the units that use it, include folders left out.
        includes: ``-I`` flags.
        digest: of the headers' text.
        allowed: False where the flags may name files, which would be in it as they once were.
    """

    root: Path
    compiler: Compiler
    flags: tuple[str, ...]
    includes: tuple[str, ...]
    digest: str
    allowed: bool = True

    @property
    def folder(self) -> Path:
        """Where it lies; the folder to pass with ``-I`` before all others."""
        tool = (self.compiler.path, self.compiler.version, *compiler_environment())
        parts = (*tool, *self.flags, *self.includes, self.digest)
        return self.root / "headers" / hashlib.sha256("\0".join(parts).encode()).hexdigest()[:32]

    @property
    def file(self) -> Path:
        """The file itself."""
        return self.folder / f"{_HEADER}.gch"

    @property
    def enabled(self) -> bool:
        """Whether this compiler can use one, it holds nothing that may change, and nobody turned it off."""
        return self.allowed and not self.compiler.is_clang and os.environ.get(VARIABLE, "1") != "0"

    def flag(self) -> tuple[str, ...]:
        """The flag that lets a unit use it; empty where there is none yet."""
        if not self.enabled or not self.file.is_file():
            return ()
        with suppress(OSError):
            os.utime(self.folder)
        return (f"-I{self.folder}",)

    def compile(self, arguments: list[str], folder: Path) -> None:
        """Compile a unit in ``folder``: ``arguments`` are the rest of the command, files and libraries.

        Raises:
            ToolchainError: the compiler's refusal, with its first lines.
        """
        prepared = self.flag()
        command = [self.compiler.path, *self.flags, *prepared, *self.includes, *arguments]
        done = _run(command, folder)
        if done.returncode and prepared:
            self.discard()
            done = _run([part for part in command if part not in prepared], folder)
        if not prepared:
            self.want()
        if done.returncode:
            lines = done.stderr.strip().splitlines()
            shown = "\n".join(lines[:_SHOWN]) + ("\n..." if len(lines) > _SHOWN else "")
            raise ToolchainError(
                f"{self.compiler.path} failed with code {done.returncode} on generated code:\n{shown}"
            )

    def want(self) -> None:
        """Say that a unit was compiled without it. The second one to say so starts a build behind everybody's back.

        One library alone would not pay for it. Failures are silent: nothing depends on it.
        """
        if not self.enabled or self.file.is_file():
            return
        with suppress(OSError):
            wished = self.folder / "wanted"
            if not wished.exists():
                self._prepare()
                wished.touch()
            elif self._claimed():
                self._start()

    def build(self) -> Path | None:
        """Build it now and wait; the file, or None where it is turned off.

        Raises:
            ToolchainError: the compiler refuses the headers.
        """
        if not self.enabled:
            return None
        if not self.file.is_file():
            self._prepare()
            self._start(wait=True)
            if not self.file.is_file():
                raise ToolchainError(
                    f"{self.compiler.path} did not precompile {_HEADER}; set {VARIABLE}=0 to go without"
                )
        return self.file

    def discard(self) -> None:
        """Remove it; a unit did not compile with it."""
        shutil.rmtree(self.folder, ignore_errors=True)

    def _prepare(self) -> None:
        self.file.parent.mkdir(parents=True, exist_ok=True)
        (self.folder / "all.h").write_text(f"#include <{_HEADER}>\n")
        others = sorted(self.folder.parent.iterdir(), key=lambda one: one.stat().st_mtime)
        for old in [one for one in others if one != self.folder][: -(_KEPT - 1)]:
            shutil.rmtree(old, ignore_errors=True)

    def _claimed(self) -> bool:
        """True for the one process that is to build it; a claim that is too old counts for nothing."""
        claim = self.folder / "claim"
        with suppress(OSError):
            if time.time() - claim.stat().st_mtime > _ABANDONED_SECONDS:
                claim.unlink()
        try:
            os.close(os.open(claim, os.O_CREAT | os.O_EXCL | os.O_WRONLY))
        except OSError:
            return False
        return True

    def _start(self, *, wait: bool = False) -> None:
        out = self.folder / f"building-{os.getpid()}-{time.monotonic_ns()}"
        source = str(self.folder / "all.h")
        command = [self.compiler.path, *self.flags, *self.includes, "-x", "c++-header", source]
        places = [str(out), str(self.file), str(self.folder / "claim")]
        process = subprocess.Popen(
            ["/bin/sh", "-c", _SCRIPT, "sh", *places, *command],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        if wait:
            process.wait()
        else:
            # It outlives this process where need be; reaping it is left to whoever is its parent then.
            _running.append(process)


_running: list[subprocess.Popen[bytes]] = []
"""Builds that this process started: held, so that the interpreter does not complain of them."""


def _run(command: list[str], folder: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command, capture_output=True, text=True, errors="replace", check=False, cwd=folder)


def clear_precompiled(root: Path) -> int:
    """Remove every precompiled header under ``root``; the number removed."""
    folders = [one for one in root.glob("headers/*") if one.is_dir()]
    for folder in folders:
        shutil.rmtree(folder, ignore_errors=True)
    return len(folders)
