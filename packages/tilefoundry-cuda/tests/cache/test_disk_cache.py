"""The disk cache by itself. Oracle: what was written, and the number of builds."""

from __future__ import annotations

import os
import threading
import time
from pathlib import Path

import pytest

from tilefoundry.codegen.cache import DiskCache, cache_directory, place
from tilefoundry.codegen.cache.disk import LIMIT_VARIABLE

KEY = "ab" + "0" * 62


class Builder:
    """Writes ``content`` and counts."""

    def __init__(self, content: bytes = b"library") -> None:
        self.content = content
        self.count = 0

    def __call__(self, folder: Path) -> None:
        self.count += 1
        (folder / "library.so").write_bytes(self.content)


def test_a_library_is_built_once_and_read_after(tmp_path):
    builder = Builder()
    for _ in range(3):
        path = DiskCache(tmp_path).get_or_build(KEY, builder)
        assert path.read_bytes() == b"library"
    assert builder.count == 1


@pytest.mark.parametrize("damage", ["truncate", "flip", "remove library", "remove record", "garble record"])
@pytest.mark.spec("cache.damaged")
def test_a_damaged_entry_is_built_again(tmp_path, damage):
    builder = Builder()
    path = DiskCache(tmp_path).get_or_build(KEY, builder)
    record = path.with_name("entry.json")
    if damage == "truncate":
        path.write_bytes(b"lib")
    elif damage == "flip":
        path.write_bytes(b"libraRy")
    elif damage == "remove library":
        path.unlink()
    elif damage == "remove record":
        record.unlink()
    else:
        record.write_text("[1, 2")
    assert DiskCache(tmp_path).get_or_build(KEY, builder).read_bytes() == b"library"
    assert builder.count == 2


def test_a_failed_build_leaves_nothing_and_a_retry_works(tmp_path):
    def fail(folder: Path) -> None:
        (folder / "library.so").write_bytes(b"half")
        raise RuntimeError("no compiler")

    cache = DiskCache(tmp_path)
    with pytest.raises(RuntimeError, match="no compiler"):
        cache.get_or_build(KEY, fail)
    assert [p.name for p in tmp_path.iterdir() if p.is_dir() and p.name not in ("locks", "ab")] == []
    assert cache.entries() == []
    assert cache.get_or_build(KEY, Builder()).read_bytes() == b"library"


@pytest.mark.spec("cache.single-flight")
def test_threads_build_one_key_once(tmp_path):
    builder = Builder()
    gate = threading.Barrier(8)

    def work() -> None:
        gate.wait()
        DiskCache(tmp_path).get_or_build(KEY, builder)

    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert builder.count == 1


@pytest.mark.parametrize("given", ["4GB", "-1", "1e9"])
def test_a_limit_that_is_no_number_of_bytes_is_refused_by_name(tmp_path, monkeypatch, given):
    monkeypatch.setenv(LIMIT_VARIABLE, given)
    with pytest.raises(ValueError, match=f"TILEFOUNDRY_CACHE_LIMIT={given}: expected a number of bytes"):
        DiskCache(tmp_path)
    monkeypatch.setenv(LIMIT_VARIABLE, "")
    assert DiskCache(tmp_path).limit == 4 << 30


@pytest.mark.spec("cache.limit")
def test_the_least_recently_used_go_first(tmp_path):
    cache = DiskCache(tmp_path, limit=10**9)
    keys = [f"{i:02d}" + "0" * 62 for i in range(4)]
    for i, key in enumerate(keys):
        path = cache.get_or_build(key, Builder(b"x" * 1000))
        os.utime(path.with_name("entry.json"), (i, i))
    os.utime(tmp_path / keys[0][:2] / keys[0] / "entry.json", (99, 99))
    small = DiskCache(tmp_path, limit=2500)
    assert small.prune() == 2
    assert {usage.key for usage in small.entries()} == {keys[0], keys[3]}
    assert small.clear() == 2 and small.entries() == []


@pytest.mark.spec("cache.unwritable")
def test_an_unwritable_directory_falls_back_with_a_warning(tmp_path, monkeypatch):
    blocked = tmp_path / "file"
    blocked.write_text("not a folder")
    monkeypatch.setenv(place.VARIABLE, str(blocked / "cache"))
    with pytest.warns(UserWarning, match="TILEFOUNDRY_CACHE_DIR"):
        used = cache_directory()
    assert used.is_dir() and used != blocked / "cache"
    assert cache_directory() == used, "one fallback per process"


@pytest.mark.spec("cache.variable")
def test_the_variable_moves_the_cache(tmp_path, monkeypatch):
    monkeypatch.setenv(place.VARIABLE, str(tmp_path / "a b"))
    assert cache_directory() == tmp_path / "a b"
    assert (tmp_path / "a b").is_dir()


@pytest.mark.parametrize("clean", [DiskCache.prune, DiskCache.clear])
@pytest.mark.spec("cache.killed")
def test_what_a_killed_builder_left_goes_and_a_live_ones_work_stays(tmp_path, clean):
    left, live = tmp_path / ".0123abcd-killed", tmp_path / ".0123abcd-live"
    for folder in (left, live):
        folder.mkdir(parents=True)
        (folder / "source.cc").write_text("int x;")
    os.utime(left, (time.time() - 7200, time.time() - 7200))
    assert clean(DiskCache(tmp_path)) == 0
    assert not left.exists() and (live / "source.cc").exists()
