"""Programs that an earlier process compiled. Oracle: results, and whether anything was lowered or asked for."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
import torch

import tilefoundry
from tilefoundry import CompilerOptions, CpuTarget, CudaTarget, func, jit
from tilefoundry.codegen import own_code as own
from tilefoundry.codegen import recall
from tilefoundry.codegen.cache import DiskCache, ProgramIndex, noted, status_of
from tilefoundry.codegen.cpu import link as cpu_link
from tilefoundry.codegen.cuda import link as cuda_link
from tilefoundry.dsl import DimVar, Tensor, tf
from tilefoundry.verbs import building

N = DimVar("N", 1, 100)
H200 = CudaTarget("nvidia.h200_sxm")


@func
def tripled(x: Tensor[(N, 8), "f32"]) -> Tensor[(N, 8), "f32"]:
    return tf.relu(x) * 3.0


@func
def quadrupled(x: Tensor[(N, 8), "f32"]) -> Tensor[(N, 8), "f32"]:
    return tf.relu(x) * 4.0


class Lowered(Exception):
    """Something was lowered."""


@pytest.fixture
def cache(tmp_path, monkeypatch):
    """A cache of the test's own, in a process whose sources count as unchanged."""
    monkeypatch.setenv("TILEFOUNDRY_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setattr(tilefoundry, "IMPORTED_AT", 4e9)
    own._as_begun.cache_clear()
    jit.cache_clear()
    yield tmp_path / "cache"
    jit.cache_clear()
    own._as_begun.cache_clear()


def as_another_process(monkeypatch: pytest.MonkeyPatch, *, may_lower: bool = False) -> None:
    """What this process compiled is forgotten, and lowering raises unless it is expected."""
    jit.cache_clear()
    if not may_lower:
        monkeypatch.setattr(building, "lower", _refuse)


def _refuse(*args: object, **kwargs: object) -> None:
    raise Lowered


@pytest.mark.spec("cache.recall")
def test_a_known_program_is_not_lowered_and_loads_the_same(cache, monkeypatch):
    first = jit(tripled, target="cpu")
    as_another_process(monkeypatch)
    again = jit(tripled, target="cpu")
    assert again is not first
    assert (again.type, again.source, again.kernels) == (first.type, first.source, first.kernels)
    x = torch.randn(5, 8)
    assert torch.equal(again(x), x.relu() * 3.0)
    with pytest.raises(Lowered):
        jit(quadrupled, target="cpu")
    with pytest.raises(Lowered):
        jit(tripled, target="cpu", options=CompilerOptions(opt_level=1))


@pytest.mark.spec("cache.recall")
def test_cuda_kernels_come_with_their_resources(cache, monkeypatch):
    first = jit(tripled, target=H200)
    as_another_process(monkeypatch)
    again = jit(tripled, target=H200)
    assert again.kernels == first.kernels and again.kernels[0].registers
    assert again._linked == first._linked


@pytest.mark.spec("cache.recall")
def test_sources_are_kept_beside_a_known_library(cache, monkeypatch):
    options = CompilerOptions(keep_sources=True)
    first = jit(tripled, target="cpu", options=options)
    file = Path(first._linked.library_path).parent / "source.cc"
    file.unlink()
    as_another_process(monkeypatch)
    assert jit(tripled, target="cpu", options=options).source == file.read_text()


@pytest.mark.parametrize("damage", ["record", "other record", "library", "no library"])
@pytest.mark.spec("cache.recall", "cache.damaged")
def test_what_is_damaged_is_built_again(cache, monkeypatch, damage):
    library = Path(jit(tripled, target="cpu")._linked.library_path)
    (record,) = (cache / "programs").iterdir()
    if damage == "record":
        record.write_text(record.read_text().replace("tripled", "trippled"))
    elif damage == "other record":
        jit(quadrupled, target="cpu")
        (other,) = set((cache / "programs").iterdir()) - {record}
        os.replace(other, record)
    elif damage == "library":
        # Another file: the one that this process has open stays whole.
        content = library.read_bytes()
        library.unlink()
        library.write_bytes(content[:-1])
    else:
        library.unlink()
    as_another_process(monkeypatch, may_lower=True)
    x = torch.randn(3, 8)
    assert torch.equal(jit(tripled, target="cpu")(x), x.relu() * 3.0)
    as_another_process(monkeypatch)
    assert jit(tripled, target="cpu").name == "tripled"


@pytest.mark.spec("cache.recall", "cache.key")
def test_a_programs_key_covers_tools_flags_and_the_compiler_itself(cache, monkeypatch):
    def keys(program="p", options=CompilerOptions()):
        return (
            cpu_link.cpu_program_key(program, CpuTarget("x86-64-v3"), options),
            cuda_link.cuda_program_key(program, H200, options),
        )

    found = [*keys(), *keys("q"), *keys(options=CompilerOptions(line_info=True))]
    found.append(cpu_link.cpu_program_key("p", CpuTarget("x86-64"), CompilerOptions()))
    found.append(cuda_link.cuda_program_key("p", CudaTarget("sm_80"), CompilerOptions()))
    monkeypatch.setattr(recall, "own_code", lambda: "another compiler")
    found += keys()
    assert None not in found and len(set(found)) == len(found)


@pytest.mark.spec("cache.recall")
def test_nothing_is_known_where_sources_changed_since_the_process_began(cache, monkeypatch):
    monkeypatch.setattr(tilefoundry, "IMPORTED_AT", 0.0)
    assert own.own_code() is None
    jit(tripled, target="cpu")
    assert not (cache / "programs").exists()
    as_another_process(monkeypatch)
    with pytest.raises(Lowered):
        jit(tripled, target="cpu")


@pytest.mark.spec("cache.recall")
def test_nothing_is_noted_where_sources_change_while_the_process_lives(cache, monkeypatch):
    jit(tripled, target="cpu")
    (before,) = (cache / "programs").iterdir()
    monkeypatch.setattr(tilefoundry, "IMPORTED_AT", 0.0)
    jit(quadrupled, target="cpu")
    assert [*(cache / "programs").iterdir()] == [before]


@pytest.mark.spec("cache.recall")
def test_own_code_reaches_through_linked_folders(tmp_path, monkeypatch, cache):
    package, linked = tmp_path / "package", tmp_path / "elsewhere"
    (tmp_path / "include" / "tilefoundry").mkdir(parents=True)
    package.mkdir()
    linked.mkdir()
    (package / "inner").symlink_to(linked, target_is_directory=True)
    monkeypatch.setattr(tilefoundry, "__path__", [str(package)])
    monkeypatch.setattr(own, "include_dirs", lambda cute: (tmp_path / "include",))

    def digest(text: str) -> str | None:
        (linked / "a.py").write_text(text)
        own._as_begun.cache_clear()
        return own.own_code()

    assert digest("x = 1") != digest("x = 2")


@pytest.mark.spec("cache.recall")
def test_own_code_is_the_content_wherever_it_lies(tmp_path, monkeypatch, cache):
    def digest(folder: str, text: str) -> str | None:
        root = tmp_path / folder
        (root / "package" / "inner").mkdir(parents=True, exist_ok=True)
        (root / "include" / "tilefoundry").mkdir(parents=True, exist_ok=True)
        (root / "package" / "inner" / "a.py").write_text(text)
        (root / "include" / "tilefoundry" / "b.cuh").write_text("int b;")
        (root / "package" / "notes.txt").write_text(folder)
        monkeypatch.setattr(tilefoundry, "__path__", [str(root / "package")])
        monkeypatch.setattr(own, "include_dirs", lambda cute: (root / "include",))
        own._as_begun.cache_clear()
        return own.own_code()

    first = digest("one", "x = 1")
    assert first is not None and digest("two", "x = 1") == first
    assert digest("two", "x = 2") != first and digest("two", "x = 1") == first


@pytest.fixture
def tool(tmp_path, cache):
    """A file of the past."""
    file = tmp_path / "tool"
    file.write_text("version 1")
    return file


def ask(file: Path, monkeypatch: pytest.MonkeyPatch, *, later: float = 10.0) -> tuple[str, int]:
    """The file's text by way of the notes, asked ``later`` seconds from now, and how often it was read."""
    reads: list[str] = []

    def find() -> str:
        reads.append(file.read_text())
        return reads[-1]

    from tilefoundry.codegen.cache import notes

    now = notes.time.time
    with monkeypatch.context() as patched:
        patched.setattr(notes.time, "time", lambda: now() + later)
        return noted("text", status_of([file]), lambda: status_of([file]), find), len(reads)


@pytest.mark.spec("cache.notes")
def test_a_fact_is_found_once_and_again_after_any_change(tool, monkeypatch):
    assert ask(tool, monkeypatch) == ("version 1", 1)
    assert ask(tool, monkeypatch) == ("version 1", 0)
    before = tool.stat()
    tool.write_text("version 2")
    os.utime(tool, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert tool.stat().st_mtime_ns == before.st_mtime_ns and tool.stat().st_size == before.st_size
    assert ask(tool, monkeypatch) == ("version 2", 1)


@pytest.mark.spec("cache.notes")
def test_a_fact_of_a_file_that_just_changed_is_not_kept(tool, monkeypatch):
    for _ in range(2):
        assert ask(tool, monkeypatch, later=0.0) == ("version 1", 1)


@pytest.mark.spec("cache.notes")
def test_a_damaged_note_is_found_anew(tool, cache, monkeypatch):
    ask(tool, monkeypatch)
    (note,) = (cache / "notes").iterdir()
    note.write_text(note.read_text().replace("version 1", "version 9"))
    assert ask(tool, monkeypatch) == ("version 1", 1)
    assert ask(tool, monkeypatch) == ("version 1", 0)


@pytest.mark.spec("cache.limit")
def test_records_are_pruned_by_last_use_and_cleared(cache):
    index = ProgramIndex(cache)
    for i in range(4):
        index.keep(f"{i}", {"text": "x" * 1000})
        os.utime(cache / "programs" / f"{i}.json", (1000.0 + i, 1000.0 + i))
    assert index.find("0") == {"text": "x" * 1000}
    assert index.prune(2500) < 2500
    assert sorted(file.stem for file in (cache / "programs").iterdir()) == ["0", "3"]
    (cache / "notes").mkdir()
    DiskCache(cache).clear()
    assert not (cache / "programs").exists() and not (cache / "notes").exists()
    assert index.find("0") is None
