"""The runtime's headers as NVRTC parsed them, kept in the cache directory.

Layout: ``<root>/headers/<key>/device.pch``, beside the host compiler's. It is read and made by processes of their own
(``nvrtc_helper.py``); whatever goes wrong there, the caller compiles as it would have without. It appears by one
rename; any number of processes may make it side by side. ``TILEFOUNDRY_PRECOMPILED=0`` turns it off.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tilefoundry.codegen.cuda.toolchain.nvrtc import Nvrtc
from tilefoundry.codegen.toolchain.precompiled import VARIABLE

__all__ = ["DeviceHeaders"]

_HELPER = Path(__file__).with_name("nvrtc_helper.py")
_OLDEST = (12, 8)
_KEPT = 3
_ABANDONED_SECONDS = 600
_USED, _UNUSABLE = 0, (2, 3)


@dataclass(frozen=True, slots=True)
class DeviceHeaders:
    """The precompiled header for texts that begin with ``prefix``. Safe for many threads and processes.

    Attributes:
        root: the cache directory; one that can be written.
        nvrtc: the compiler.
        flags: all of them, include folders too.
        prefix: the directives that the texts begin with.
        digest: of the headers' text.
    """

    root: Path
    nvrtc: Nvrtc
    flags: tuple[str, ...]
    prefix: str
    digest: str

    @property
    def folder(self) -> Path:
        """Where it lies."""
        parts = (
            self.nvrtc.path,
            str(self.nvrtc.version),
            sys.executable,
            *self.flags,
            self.prefix,
            self.digest,
        )
        return self.root / "headers" / hashlib.sha256("\0".join(parts).encode()).hexdigest()[:32]

    @property
    def file(self) -> Path:
        """The file itself, some 90 MB."""
        return self.folder / "device.pch"

    @property
    def enabled(self) -> bool:
        """Whether this compiler makes them, this system lets it, and nobody turned them off."""
        allowed = os.environ.get(VARIABLE, "1") != "0" and sys.platform == "linux"
        return allowed and self.nvrtc.version >= _OLDEST and not (self.folder / "unusable").exists()

    def compile(self, text: str, name: str) -> bytes | None:
        """The cubin of ``text``, or None where there is no header yet, or not for this system, or the text has a
        fault: then the caller compiles without it, and reports what the compiler says."""
        if not (self.enabled and self.file.is_file() and text.startswith(self.prefix)):
            return None
        with suppress(OSError), tempfile.TemporaryDirectory(prefix="tilefoundry-nvrtc-") as scratch:
            os.utime(self.folder)
            source, output = Path(scratch, "source.cu"), Path(scratch, "cubin")
            source.write_text(text)
            status = subprocess.run(self._command(source, output, name, "use"), **_QUIET).returncode
            if status == _USED:
                return output.read_bytes()
            if status in _UNUSABLE:
                (self.folder / "unusable").touch()
                self.file.unlink(missing_ok=True)
        return None

    def want(self) -> None:
        """Say that a text was compiled without it. The second to say so starts a build behind everybody's back."""
        if not self.enabled or self.file.is_file():
            return
        with suppress(OSError):
            wished = self.folder / "wanted"
            if not wished.exists():
                self._prepare()
                wished.touch()
            elif self._claimed():
                _running.append(self._start())

    def build(self) -> Path | None:
        """Make it now and wait; the file, or None where there can be none."""
        if not self.enabled:
            return None
        if not self.file.is_file():
            self._prepare()
            self._start().wait()
        return self.file if self.file.is_file() else None

    def _prepare(self) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        (self.folder / "all.cu").write_text(self.prefix + '\nextern "C" __global__ void nothing() {}\n')
        found = [one for one in self.folder.parent.glob("*/device.pch") if one.parent != self.folder]
        for old in sorted(found, key=lambda one: one.parent.stat().st_mtime)[: -(_KEPT - 1)]:
            shutil.rmtree(old.parent, ignore_errors=True)

    def _claimed(self) -> bool:
        claim = self.folder / "claim"
        with suppress(OSError):
            if time.time() - claim.stat().st_mtime > _ABANDONED_SECONDS:
                claim.unlink()
        try:
            os.close(os.open(claim, os.O_CREAT | os.O_EXCL | os.O_WRONLY))
        except OSError:
            return False
        return True

    def _start(self) -> subprocess.Popen[Any]:
        """A process that makes the header under another name, then names it; it outlives this one where need be."""
        own = self.folder / f"making-{os.getpid()}-{time.monotonic_ns()}"
        command = self._command(self.folder / "all.cu", own.with_suffix(".cubin"), "all.cu", "create", own)
        places = [str(own), str(self.file), str(self.folder / "unusable"), str(self.folder / "claim")]
        return subprocess.Popen(
            ["/bin/sh", "-c", _SCRIPT, "sh", *places, *command], start_new_session=True, **_QUIET
        )

    def _command(
        self, source: Path, output: Path, name: str, verb: str, header: Path | None = None
    ) -> list[str]:
        flags = (*self.flags, f"--{verb}-pch={header or self.file}", "--pch-messages=true")
        return [
            sys.executable,
            "-I",
            "-S",
            str(_HELPER),
            self.nvrtc.path,
            str(source),
            str(output),
            name,
            *flags,
        ]


_SCRIPT = (
    'own=$1; whole=$2; unusable=$3; claim=$4; shift 4; nice "$@"; status=$?; '
    '[ $status = 0 ] && mv -f "$own" "$whole"; [ $status = 3 ] && : > "$unusable"; '
    'rm -f "$own" "$own.cubin" "$claim"'
)
_QUIET: dict[str, Any] = {
    "stdin": subprocess.DEVNULL,
    "stdout": subprocess.DEVNULL,
    "stderr": subprocess.DEVNULL,
}

_running: list[subprocess.Popen[bytes]] = []
"""Builds that this process started: held, so that the interpreter does not complain of them."""
