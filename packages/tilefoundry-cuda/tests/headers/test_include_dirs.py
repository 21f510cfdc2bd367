"""Where the headers are found: packed beside the module, in the checkout, or an error that says what to do."""

from __future__ import annotations

from pathlib import Path

import pytest

from tilefoundry.codegen import headers


def test_checkout_is_found():
    """Oracle: the files that generated code and the compilers ask for exist below what is returned."""
    (runtime,) = headers.include_dirs(cute=False)
    assert (runtime / "tilefoundry" / "runtime.h").is_file()
    assert (runtime / "tilefoundry" / "runtime" / "cpu" / "runtime.h").is_file()


def test_packed_headers_win(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """An installed wheel's own folder comes before any checkout around it."""
    for folder in ("runtime/tilefoundry", "cutlass/cute"):
        (tmp_path / folder).mkdir(parents=True)
    monkeypatch.setattr(headers, "PACKED", tmp_path)
    assert headers.include_dirs() == (tmp_path / "runtime", tmp_path / "cutlass")
    assert headers.include_dirs(cute=False) == (tmp_path / "runtime",)


def test_missing_cutlass_names_the_tool(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """A checkout whose pinned headers were never materialised."""
    (tmp_path / "third_party/cutlass").mkdir(parents=True)
    monkeypatch.setattr(headers, "PACKED", tmp_path / "absent")
    monkeypatch.setattr(headers, "checkout_root", lambda: tmp_path)
    with pytest.raises(FileNotFoundError, match=r"tools/vendor\.py"):
        headers.include_dirs()
    assert headers.include_dirs(cute=False) == (tmp_path / "cpp-runtime" / "include",)


def test_neither_place_has_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """A broken installation outside any checkout."""
    monkeypatch.setattr(headers, "PACKED", tmp_path / "absent")
    monkeypatch.setattr(headers, "checkout_root", lambda: None)
    with pytest.raises(FileNotFoundError, match="reinstall tilefoundry-cuda"):
        headers.include_dirs()
