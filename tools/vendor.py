#!/usr/bin/env python3
"""Materialise the pinned CUTLASS headers in `third_party/cutlass/include`.

The pin (`third_party/cutlass/PIN.toml`) names one wheel by its SHA-256 and the digest of the header tree
in it. The wheel is fetched once with pip by hash and kept in a cache folder; after that nothing
touches the network. The tree on disk is compared with the pinned digest, so no marker file is written and
damage is noticed.

    python tools/vendor.py            materialise (does nothing when the tree is right)
    python tools/vendor.py --check    exit 1 unless the tree is right
    python tools/vendor.py --offline  use the cache only

Standard library only: the build hook of the tilefoundry-cuda wheel runs this file.
"""

from __future__ import annotations

import argparse
import hashlib
import importlib.util
import os
import shutil
import subprocess
import sys
import tempfile
import tomllib
import zipfile
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
VENDOR_DIR = ROOT / "third_party" / "cutlass"


class VendorError(RuntimeError):
    """The pinned headers cannot be produced; the message says what to do."""


@dataclass(frozen=True, slots=True)
class Pin:
    """One wheel and the header tree inside it."""

    distribution: str
    version: str
    filename: str
    sha256: str
    prefix: str
    tree_sha256: str

    @classmethod
    def read(cls, path: Path) -> Pin:
        """Read a PIN.toml; every field is required."""
        try:
            fields = tomllib.loads(path.read_text())["wheel"]
            return cls(**{name: fields[name] for name in cls.__dataclass_fields__})
        except (OSError, KeyError, tomllib.TOMLDecodeError) as error:
            raise VendorError(f"{path}: not a complete pin ({error!r}); restore the file") from error


def tree_digest(root: Path) -> str:
    """SHA-256 over the sorted lines `<sha256 of file>  <relative path>` of every file below `root`."""
    lines = []
    for path in root.rglob("*"):
        if path.is_file():
            name = path.relative_to(root).as_posix()
            lines.append(f"{hashlib.sha256(path.read_bytes()).hexdigest()}  {name}\n")
    return hashlib.sha256("".join(sorted(lines, key=lambda line: line[66:])).encode()).hexdigest()


def cache_dir() -> Path:
    """Where the fetched wheel is kept: `TILEFOUNDRY_VENDOR_CACHE`, else below the user's cache folder."""
    explicit = os.environ.get("TILEFOUNDRY_VENDOR_CACHE")
    if explicit:
        return Path(explicit)
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "tilefoundry" / "vendor"


def pip_command() -> list[str]:
    """A pip that can download: this interpreter's own, else the one on PATH."""
    if importlib.util.find_spec("pip"):
        return [sys.executable, "-m", "pip"]
    for name in ("pip3", "pip"):
        if found := shutil.which(name):
            return [found]
    raise VendorError("no pip for this interpreter and none on PATH; install pip and run this again")


def file_digest(path: Path) -> str:
    """SHA-256 of a file."""
    return hashlib.sha256(path.read_bytes()).hexdigest()


def fetch(pin: Pin, cache: Path, *, offline: bool) -> Path:
    """Path of the pinned wheel in `cache`, downloaded by hash when it is not there yet."""
    wheel = cache / pin.filename
    if wheel.is_file():
        if (actual := file_digest(wheel)) == pin.sha256:
            return wheel
        if offline:
            raise VendorError(
                f"{wheel}: sha256 is {actual}, pinned {pin.sha256}; delete it and run without --offline"
            )
    if offline:
        raise VendorError(f"{wheel}: not in the cache; run once without --offline, or copy the wheel there")
    cache.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=cache) as scratch:
        download(pin, Path(scratch))
        os.replace(Path(scratch) / pin.filename, wheel)
    return wheel


def download(pin: Pin, target: Path) -> None:
    """Fetch the wheel into `target`; pip verifies the hash."""
    requirements = target / "requirements.txt"
    requirements.write_text(f"{pin.distribution}=={pin.version} --hash=sha256:{pin.sha256}\n")
    command = [*pip_command(), "download", "--no-deps", "--only-binary", ":all:", "--require-hashes"]
    command += ["--disable-pip-version-check", "-q", "-d", str(target), "-r", str(requirements)]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode or not (target / pin.filename).is_file():
        raise VendorError(
            f"{pin.distribution}=={pin.version} (sha256 {pin.sha256}) could not be fetched; "
            f"check the network or put {pin.filename} into {cache_dir()}. pip said:\n"
            f"{done.stderr.strip() or done.stdout.strip()}"
        )


def unpack(pin: Pin, wheel: Path, target: Path) -> None:
    """Write the header tree of `wheel` to `target`; a half-written tree is never visible there."""
    target.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=target.parent, prefix=".include-") as scratch:
        fresh = Path(scratch) / "include"
        with zipfile.ZipFile(wheel) as archive:
            for name in sorted(archive.namelist()):
                if name.startswith(pin.prefix) and not name.endswith("/"):
                    path = fresh / name[len(pin.prefix) :]
                    path.parent.mkdir(parents=True, exist_ok=True)
                    path.write_bytes(archive.read(name))
        found = tree_digest(fresh) if fresh.is_dir() else "no files"
        if found != pin.tree_sha256:
            raise VendorError(
                f"{wheel}: headers below {pin.prefix} digest to {found}, "
                f"pinned {pin.tree_sha256}; correct PIN.toml"
            )
        if target.exists():
            target.rename(Path(scratch) / "old")
        try:
            fresh.rename(target)
        except OSError:
            # Another process came first; its tree must be the pinned one.
            if tree_digest(target) != pin.tree_sha256:
                raise


def materialise(vendor_dir: Path = VENDOR_DIR, *, offline: bool = False) -> Path:
    """The include folder, made right if it is not. Raises VendorError."""
    pin = Pin.read(vendor_dir / "PIN.toml")
    include = vendor_dir / "include"
    if not (include.is_dir() and tree_digest(include) == pin.tree_sha256):
        unpack(pin, fetch(pin, cache_dir(), offline=offline), include)
    return include


def main(argv: list[str] | None = None) -> int:
    """Command line; returns the exit status."""
    parser = argparse.ArgumentParser(description="Materialise the pinned CUTLASS headers.")
    parser.add_argument("--check", action="store_true", help="only say whether the tree is right")
    parser.add_argument("--offline", action="store_true", help="never touch the network")
    options = parser.parse_args(argv)
    try:
        if options.check:
            pin, include = Pin.read(VENDOR_DIR / "PIN.toml"), VENDOR_DIR / "include"
            if not (include.is_dir() and tree_digest(include) == pin.tree_sha256):
                raise VendorError(f"{include}: absent or not the pinned tree; run tools/vendor.py")
            print(f"{include}: {pin.distribution} {pin.version}, as pinned")
        else:
            print(materialise(offline=options.offline))
    except VendorError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
