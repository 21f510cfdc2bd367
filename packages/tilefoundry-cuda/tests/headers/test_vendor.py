"""tools/vendor.py: by hash, offline once fetched, errors that name file, digests and remedy."""

from __future__ import annotations

import hashlib
import importlib.util
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[4]


@pytest.fixture(scope="module")
def vendor():
    """The tool as a module."""
    spec = importlib.util.spec_from_file_location("vendor_under_test", ROOT / "tools" / "vendor.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


def by_hand(files: dict[str, bytes]) -> str:
    """The tree digest by its definition, over names in byte order."""
    lines = [f"{hashlib.sha256(data).hexdigest()}  {name}\n" for name, data in sorted(files.items())]
    return hashlib.sha256("".join(lines).encode()).hexdigest()


FILES = {"cute/a.hpp": b"a", "cute/b/c.hpp": b"bc", "cutlass/d.h": b""}


@pytest.fixture
def folder(tmp_path: Path, vendor, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A vendor folder whose pin names a small wheel that lies in the cache."""
    cache = tmp_path / "cache"
    cache.mkdir()
    wheel = cache / "pinned-1-py3-none-any.whl"
    with zipfile.ZipFile(wheel, "w") as archive:
        for name, data in FILES.items():
            archive.writestr(f"inside/include/{name}", data)
        archive.writestr("inside/other.txt", "not a header")
    fields = {
        "distribution": "pinned",
        "version": "1",
        "filename": wheel.name,
        "sha256": hashlib.sha256(wheel.read_bytes()).hexdigest(),
        "prefix": "inside/include/",
        "tree_sha256": by_hand(FILES),
    }
    home = tmp_path / "third_party"
    home.mkdir()
    (home / "PIN.toml").write_text("[wheel]\n" + "".join(f'{k} = "{v}"\n' for k, v in fields.items()))
    monkeypatch.setenv("TILEFOUNDRY_VENDOR_CACHE", str(cache))
    monkeypatch.setattr(vendor, "download", lambda pin, target: pytest.fail("touched the network"))
    return home


def test_materialises_exactly_the_pinned_files(vendor, folder: Path):
    include = vendor.materialise(folder, offline=True)
    found = {p.relative_to(include).as_posix(): p.read_bytes() for p in include.rglob("*") if p.is_file()}
    assert found == FILES
    assert sorted(p.name for p in folder.iterdir()) == ["PIN.toml", "include"], (
        "no stamp, no left-over folder"
    )


def test_a_damaged_tree_is_repaired(vendor, folder: Path):
    include = vendor.materialise(folder, offline=True)
    (include / "cute/a.hpp").write_bytes(b"edited")
    (include / "stray.h").write_bytes(b"")
    vendor.materialise(folder, offline=True)
    assert (include / "cute/a.hpp").read_bytes() == b"a"
    assert not (include / "stray.h").exists()


def test_a_right_tree_needs_no_wheel(vendor, folder: Path, tmp_path: Path):
    vendor.materialise(folder, offline=True)
    (tmp_path / "cache" / "pinned-1-py3-none-any.whl").unlink()
    vendor.materialise(folder, offline=True)


def test_offline_without_the_wheel(vendor, folder: Path, tmp_path: Path):
    (tmp_path / "cache" / "pinned-1-py3-none-any.whl").unlink()
    with pytest.raises(vendor.VendorError, match="not in the cache; run once without --offline"):
        vendor.materialise(folder, offline=True)


def test_offline_with_another_wheel_under_its_name(vendor, folder: Path, tmp_path: Path):
    (tmp_path / "cache" / "pinned-1-py3-none-any.whl").write_bytes(b"something else")
    with pytest.raises(vendor.VendorError, match=r"sha256 is [0-9a-f]{64}, pinned [0-9a-f]{64}"):
        vendor.materialise(folder, offline=True)


def test_a_wheel_with_other_headers_than_the_pin_says(vendor, folder: Path):
    pin = (folder / "PIN.toml").read_text().replace(by_hand(FILES), "0" * 64)
    (folder / "PIN.toml").write_text(pin)
    with pytest.raises(vendor.VendorError, match="digest to"):
        vendor.materialise(folder, offline=True)
    assert not (folder / "include").exists(), "a refused tree is not left behind"


def test_an_incomplete_pin(vendor, folder: Path):
    (folder / "PIN.toml").write_text("[wheel]\nversion = '1'\n")
    with pytest.raises(vendor.VendorError, match="not a complete pin"):
        vendor.materialise(folder, offline=True)


def test_the_repository_pin_names_its_hash(vendor):
    """Oracle: the pin of this repository is complete and its digests are SHA-256."""
    pin = vendor.Pin.read(ROOT / "third_party" / "cutlass" / "PIN.toml")
    assert len(pin.sha256) == len(pin.tree_sha256) == 64
    assert (ROOT / "third_party" / "cutlass" / "LICENSE.txt").read_text().count("Redistribution") >= 1
