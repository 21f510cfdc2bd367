"""``tilefoundry cache``. Oracle: the folders and files in a cache of its own."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tilefoundry.cli import main
from tilefoundry.codegen.cache import DiskCache


@pytest.fixture
def root(tmp_path, monkeypatch):
    monkeypatch.setenv("TILEFOUNDRY_CACHE_DIR", str(tmp_path / "libraries"))
    return tmp_path / "libraries"


def filled(root: Path, sizes: list[int]) -> list[str]:
    """Keys of libraries of these sizes, the first used longest ago."""
    keys = [f"{i:02x}" * 32 for i in range(len(sizes))]
    for i, (key, size) in enumerate(zip(keys, sizes, strict=True)):
        library = DiskCache(root).get_or_build(key, lambda folder, n=size: _write(folder, n))
        os.utime(library.parent / "entry.json", (1000.0 + i, 1000.0 + i))
    return keys


def _write(folder: Path, size: int) -> None:
    (folder / "library.so").write_bytes(bytes(size))


@pytest.mark.spec("tools.cache")
def test_show_lists_the_last_used_first(root, capsys):
    keys = filled(root, [1000, 3 * 2**20])
    assert main(["cache"]) == 0
    head, *lines = capsys.readouterr().out.splitlines()
    assert head.startswith(f"{root}: 2 libraries, 3.0 MiB of at most 4.0 GiB")
    assert [line.split()[0] for line in lines] == [keys[1][:16], keys[0][:16]]
    assert all("last used 1970-01-01" in line for line in lines)


@pytest.mark.spec("tools.cache")
def test_prune_removes_the_least_recently_used_down_to_the_limit(root, capsys, monkeypatch):
    keys = filled(root, [5000, 5000, 5000])
    monkeypatch.setenv("TILEFOUNDRY_CACHE_LIMIT", "11000")
    assert main(["cache", "prune"]) == 0
    assert "removed 1 library from" in capsys.readouterr().out
    assert {usage.key for usage in DiskCache(root).entries()} == set(keys[1:])


@pytest.mark.spec("tools.cache")
def test_clear_removes_libraries_and_headers(root, capsys):
    filled(root, [10, 10])
    assert main(["cache", "clear"]) == 0
    assert "removed 2 libraries and 0 precompiled headers" in capsys.readouterr().out
    assert DiskCache(root).entries() == [] and not list(root.glob("??/*"))
    assert main(["cache", "show"]) == 0
    assert ": 0 libraries" in capsys.readouterr().out


@pytest.mark.spec("tools.cache")
def test_one_is_one(root, capsys):
    filled(root, [10])
    assert main(["cache"]) == 0 and ": 1 library, " in capsys.readouterr().out
    assert main(["cache", "clear"]) == 0
    assert "removed 1 library and 0 precompiled headers" in capsys.readouterr().out


@pytest.mark.spec("tools.cache")
def test_a_cache_that_is_not_there_is_empty(root, capsys):
    assert main(["cache"]) == 0 and ": 0 libraries, 0 B" in capsys.readouterr().out
    assert not root.exists()


@pytest.mark.spec("tools.cache")
def test_warm_precompiles_the_headers_of_both_targets(root, capsys, monkeypatch):
    monkeypatch.setenv("TILEFOUNDRY_PRECOMPILED", "1")
    assert main(["cache", "warm"]) == 0
    files = [line.rsplit(":", 1)[0] for line in capsys.readouterr().out.splitlines()]
    assert len(set(files)) == 2 and all(Path(file).is_file() for file in files)
    assert main(["cache", "clear"]) == 0
    assert "and 2 precompiled headers" in capsys.readouterr().out
    assert not any(Path(file).exists() for file in files)
