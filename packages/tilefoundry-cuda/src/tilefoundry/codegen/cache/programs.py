"""Which library a program was compiled to: found without lowering it again.

A library lies under the digest of its source, which takes lowering to know. A record lies under the digest of the
program and of everything that lowering and compiling depend on, the compiler's own code included:
``<root>/programs/<key>.json``. It holds its own digest, and the library that it names is verified when it is read.
"""

from __future__ import annotations

import hashlib
import json
import os
import tempfile
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

__all__ = ["PROGRAMS", "ProgramIndex"]

PROGRAMS = "programs"


@dataclass(frozen=True, slots=True)
class ProgramIndex:
    """The records of the cache at ``root``. Any number of threads and processes may use one."""

    root: Path

    def find(self, key: str) -> dict[str, Any] | None:
        """What was kept under ``key``, where it lies there undamaged; marks it as used."""
        file = self._file(key)
        try:
            digest, _, text = file.read_text(encoding="utf-8").partition("\n")
            if digest != _sealed(key, text):
                return None
            record = json.loads(text)
        except (OSError, ValueError):
            return None
        # A cache that cannot be written still serves; it only forgets what was used last.
        with suppress(OSError):
            os.utime(file)
        return record

    def keep(self, key: str, record: Mapping[str, Any]) -> None:
        """Keep ``record``, JSON values, under ``key``; a cache that cannot be written stays as it is."""
        text = json.dumps(record)
        with suppress(OSError):
            self._folder.mkdir(parents=True, exist_ok=True)
            with tempfile.NamedTemporaryFile(
                "w", dir=self._folder, delete=False, encoding="utf-8"
            ) as written:
                written.write(f"{_sealed(key, text)}\n{text}")
            os.replace(written.name, self._file(key))

    def prune(self, most: int) -> int:
        """Remove the least recently used records down to ``most`` bytes; the bytes that are left."""
        found = []
        with suppress(OSError), os.scandir(self._folder) as entries:
            for entry in entries:
                with suppress(OSError):
                    status = entry.stat()
                    found.append((status.st_mtime, status.st_size, entry.path))
        total = sum(size for _, size, _ in found)
        for _, size, path in sorted(found):
            if total <= most:
                break
            with suppress(OSError):
                os.unlink(path)
            total -= size
        return total

    @property
    def _folder(self) -> Path:
        return self.root / PROGRAMS

    def _file(self, key: str) -> Path:
        return self._folder / f"{key}.json"


def _sealed(key: str, text: str) -> str:
    return hashlib.sha256(f"{key}\n{text}".encode()).hexdigest()
