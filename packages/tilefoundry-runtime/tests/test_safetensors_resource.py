"""Checkpoint folders: both shapes, damaged ones, handles, read order, threads. Oracle: the tensors written."""

import io
import itertools
import json
import os
import shutil
import sys
import threading

import pytest
import safetensors
import torch
from checkpoints import INDEX, SINGLE, write_index, write_sharded, write_single

from tilefoundry.ir.errors import CheckpointError
from tilefoundry.runtime import Preprocessed, SafetensorsResource
from tilefoundry.runtime.resource import spans

A = {"a": torch.arange(6.0), "b.c": torch.arange(4, dtype=torch.int64)}
B = {"b.d": torch.ones(3, dtype=torch.bfloat16), "scalar": torch.tensor(2.5)}


def resource(folder, **options):
    return SafetensorsResource(str(folder), device="cpu", **options)


@pytest.fixture
def sharded(tmp_path):
    return write_sharded(tmp_path / "sharded", {"one.safetensors": A, "two.safetensors": B})


@pytest.mark.spec("safetensors.two-shapes")
def test_shards_with_an_index_and_one_file_without(sharded, tmp_path):
    single = write_single(tmp_path / "single", {**A, **B})
    for folder in (sharded, single):
        for key, tensor in {**A, **B}.items():
            out = resource(folder).load(key)
            assert out.dtype is tensor.dtype and torch.equal(out, tensor)
        assert sorted(resource(folder).keys()) == sorted({**A, **B})


@pytest.mark.spec("safetensors.neither-is-reported")
def test_a_folder_with_neither(tmp_path):
    with pytest.raises(
        FileNotFoundError, match=rf"holds no safetensors checkpoint: neither {INDEX} nor {SINGLE}"
    ):
        resource(tmp_path)
    with pytest.raises(FileNotFoundError, match="is no folder"):
        resource(tmp_path / "absent")
    write_single(tmp_path, {"a": torch.zeros(1)})
    with pytest.raises(
        FileNotFoundError, match=rf"{SINGLE} is a file, no folder; give the folder that holds"
    ):
        resource(tmp_path / SINGLE)


def test_the_index_wins_over_a_single_file(sharded):
    write_single(sharded, {"a": torch.zeros(1)})
    assert torch.equal(resource(sharded).load("a"), A["a"])


@pytest.mark.spec("safetensors.one-handle-per-shard")
def test_one_handle_per_shard_opened_when_needed(sharded, monkeypatch):
    opened = []
    real = safetensors.safe_open
    monkeypatch.setattr(
        safetensors,
        "safe_open",
        lambda path, **k: (opened.append(os.path.basename(path)), real(path, **k))[1],
    )
    made = resource(sharded)
    assert opened == []
    made.load("a"), made.subtree("b").load("c"), made.subtree("b").subtree("x")
    assert opened == ["one.safetensors"]
    made.subtree("b").load("d"), made.load("scalar"), made.read_many(["a", "b.c", "b.d"])
    assert opened == ["one.safetensors", "two.safetensors"]


def test_a_scalar_stays_a_scalar(sharded):
    for out in (resource(sharded).load("scalar"), resource(sharded).read_many(["scalar"])["scalar"]):
        assert out.shape == () and out.item() == 2.5


def test_read_many_equals_load_under_aliases(sharded):
    alias = {
        "x": "b",
        "flip": Preprocessed("a", lambda t: t.flip(0)),
        "head": Preprocessed("a", lambda t: t[:2]),
    }
    made = resource(sharded, alias=alias)
    names = ["a", "x.c", "x.d", "flip", "head", "scalar"]
    out = made.read_many(names)
    assert list(out) == names
    for name in names:
        *segments, leaf = name.split(".")
        scope = made
        for seg in segments:
            scope = scope.subtree(seg)
        assert torch.equal(out[name], scope.load(leaf))
    storages = [t.untyped_storage().data_ptr() for t in out.values()]
    assert len(set(storages)) == len(storages)
    assert out["head"].untyped_storage().nbytes() == 8


def test_read_many_names_every_absent_key(sharded):
    with pytest.raises(KeyError, match=r"does not hold 2 of 3 tensors: q, b\.r"):
        resource(sharded).read_many(["a", "q", "b.r"])
    with pytest.raises(TypeError, match="load_group"):
        resource(sharded, alias={"g": ("a", "b.c")}).read_many(["g"])


@pytest.mark.parametrize(
    "dtype",
    [
        torch.bool,
        torch.uint8,
        torch.int8,
        torch.int16,
        torch.int32,
        torch.int64,
        torch.float16,
        torch.bfloat16,
        torch.float32,
        torch.float64,
        torch.float8_e4m3fn,
        torch.float8_e5m2,
    ],
)
@pytest.mark.parametrize("shape", [(), (0,), (3, 0, 2), (5,), (2, 3)])
def test_every_type_and_shape_by_both_ways(tmp_path, dtype, shape):
    raw = torch.randint(0, 2, shape).to(dtype)
    made = resource(write_single(tmp_path, {"w": raw, "x": torch.ones(1)}))
    for out in (made.load("w"), made.read_many(["w"])["w"]):
        assert (out.dtype, out.shape) == (dtype, shape)
        assert torch.equal(out.contiguous().view(torch.uint8), raw.view(torch.uint8)) if shape else out == raw


# Paths in an index.


def test_paths_that_leave_the_folder_are_refused_unopened(tmp_path):
    inside = write_single(tmp_path / "inside", A)
    shutil.copy(inside / SINGLE, tmp_path / "evil.safetensors")
    for value in ("../evil.safetensors", str(tmp_path / "evil.safetensors"), "x/../../evil.safetensors"):
        write_index(inside, {"a": value})
        opened = []
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(safetensors, "safe_open", lambda path, **_: opened.append(path))
            with pytest.raises(CheckpointError) as failure:
                resource(inside)
        assert repr("a") in str(failure.value) and repr(value) in str(failure.value)
        assert opened == []


@pytest.mark.parametrize(
    "value", ["C:\\evil", "\\\\server\\x", "C:evil", "..\\evil", "/abs", "..", ".", "", "a\0b", 3, None, []]
)
def test_values_that_are_no_relative_path(tmp_path, value):
    write_index(tmp_path, {"a": value})
    with pytest.raises(CheckpointError, match=r"weight_map\['a'\]"):
        resource(tmp_path)


def test_links_that_the_folder_holds_are_followed(tmp_path):
    # A hub cache keeps blobs elsewhere and links to them.
    blobs = write_single(tmp_path / "blobs", A)
    snapshot = tmp_path / "snapshot"
    (snapshot / "sub").mkdir(parents=True)
    (snapshot / "sub" / "one.safetensors").symlink_to(blobs / SINGLE)
    write_index(snapshot, dict.fromkeys(A, "sub/one.safetensors"))
    assert torch.equal(resource(snapshot).load("a"), A["a"])


# Files that are not what they should be, each told apart.


def test_a_missing_shard_names_shard_and_keys(sharded):
    (sharded / "two.safetensors").unlink()
    made = resource(sharded)
    for read in (lambda: made.load("b.d"), lambda: made.read_many(["a", "b.d", "scalar"])):
        with pytest.raises(FileNotFoundError, match=r"two\.safetensors is missing.*puts b\.d, scalar there"):
            read()
    assert torch.equal(made.load("a"), A["a"])


def test_a_key_that_its_shard_lacks(sharded):
    write_index(sharded, {"ghost": "one.safetensors"})
    with pytest.raises(
        KeyError, match=r"says that .*one\.safetensors holds 'ghost', but it does not; the index is stale"
    ):
        resource(sharded).load("ghost")


def test_a_header_that_lists_a_name_twice(tmp_path):
    row = '"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}'
    text = f"{{{row},{row}}}".encode()
    (tmp_path / SINGLE).write_bytes(len(text).to_bytes(8, "little") + text + b"\0" * 4)
    with pytest.raises(CheckpointError, match=r"'a'.* more than once"):
        resource(tmp_path)


def test_an_index_that_lists_a_key_twice(sharded):
    (sharded / INDEX).write_text('{"weight_map": {"a": "one.safetensors", "a": "two.safetensors"}}')
    with pytest.raises(CheckpointError, match="lists 'a' more than once"):
        resource(sharded)


@pytest.mark.parametrize("cut", [100, 1])
def test_a_truncated_file(tmp_path, cut):
    folder = write_single(tmp_path, {"w": torch.zeros(400)})
    os.truncate(folder / SINGLE, os.path.getsize(folder / SINGLE) - cut)
    with pytest.raises(CheckpointError, match=r"model\.safetensors.*truncated"):
        resource(folder)


def test_a_git_lfs_pointer_is_named(sharded):
    pointer = b"version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 5\n"
    (sharded / "two.safetensors").write_bytes(pointer)
    with pytest.raises(CheckpointError, match="Git-LFS pointer"):
        resource(sharded).load("b.d")
    (sharded / INDEX).write_bytes(pointer)
    with pytest.raises(CheckpointError, match="Git-LFS pointer"):
        resource(sharded)


@pytest.mark.parametrize("data", [b"", b"abc", b"PK\x03\x04" * 20, b"\xff" * 64])
def test_another_kind_of_file(tmp_path, data):
    (tmp_path / SINGLE).write_bytes(data)
    with pytest.raises(CheckpointError, match=r"model\.safetensors"):
        resource(tmp_path)


def test_a_shard_that_shrinks_while_open(tmp_path):
    folder = write_single(tmp_path, {"w": torch.zeros(100_000), "v": torch.zeros(10)})
    made = resource(folder)
    made.load("v")
    os.truncate(folder / SINGLE, 4096)
    for read in (lambda: made.load("w"), lambda: made.read_many(["w"])):
        with pytest.raises(CheckpointError, match=r"truncated"):
            read()


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"weight_map": 3}', '{"weight_map": ', "\udcff"])
def test_an_index_of_another_form(tmp_path, text):
    (tmp_path / INDEX).write_bytes(text.encode("utf-8", "surrogateescape"))
    with pytest.raises(CheckpointError, match=r"index\.json"):
        resource(tmp_path)


# How bytes are read.


def test_reads_are_few_in_file_order_and_touch_each_byte_once(tmp_path, monkeypatch):
    tensors = {f"w{i:03}": torch.full((1000 + i,), float(i)) for i in range(200)}
    folder = write_single(tmp_path, tensors)
    reads, lock, real = [], threading.Lock(), os.preadv

    def slow(fd, buffers, offset):
        got = real(fd, buffers, offset)
        with lock:
            reads.append((offset, got))
        return got

    monkeypatch.setattr(spans.os, "preadv", slow)
    out = resource(folder).read_many(list(tensors))
    assert all(torch.equal(out[key], tensor) for key, tensor in tensors.items())
    assert sum(got for _, got in reads) == sum(t.numel() * 4 for t in tensors.values())
    ordered = sorted(reads)
    assert all(a + n <= b for (a, n), (b, _) in itertools.pairwise(ordered))
    assert len(reads) <= 4


def test_large_tensors_are_read_in_pieces(tmp_path, monkeypatch):
    monkeypatch.setattr(spans, "SPAN_BYTES", 4096)
    raw = {"big": torch.randn(10_000), "small": torch.randn(7), "more": torch.randn(3_000)}
    made = resource(write_single(tmp_path, raw))
    out = made.read_many(list(raw))
    assert all(torch.equal(out[key], tensor) for key, tensor in raw.items())


def test_short_reads_are_continued(tmp_path, monkeypatch):
    real = os.preadv
    monkeypatch.setattr(spans.os, "preadv", lambda fd, buffers, at: real(fd, [buffers[0][:7]], at))
    raw = {"a": torch.randn(5), "b": torch.randn(9)}
    out = resource(write_single(tmp_path, raw)).read_many(["a", "b"])
    assert all(torch.equal(out[key], tensor) for key, tensor in raw.items())


def test_eight_threads_share_one_resource(sharded):
    made, failures = resource(sharded), []
    start = threading.Barrier(8)

    def work():
        start.wait()
        for _ in range(30):
            for key, tensor in {**A, **B}.items():
                if not torch.equal(made.load(key), tensor):
                    failures.append(key)
            if not all(torch.equal(t, {**A, **B}[k]) for k, t in made.read_many([*A, *B]).items()):
                failures.append("many")

    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures


class Terminal(io.StringIO):
    def isatty(self):
        return True


def test_progress_is_shown_on_terminals_alone(sharded, monkeypatch):
    for stream, shown in ((io.StringIO(), False), (Terminal(), True)):
        monkeypatch.setattr(sys, "stderr", stream)
        resource(sharded).read_many([*A, *B])
        text = stream.getvalue()
        assert ("load" in text and "100%" in text) == shown and bool(text) == shown


# Devices.


@pytest.mark.spec("safetensors.device")
def test_a_cuda_device_that_is_not_there(sharded, monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    with pytest.raises(RuntimeError, match='pass device="cpu"'):
        SafetensorsResource(str(sharded))


@pytest.mark.spec("safetensors.device")
def test_a_bare_cuda_is_the_current_device_at_construction(sharded, monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "current_device", lambda: 3)
    made = SafetensorsResource(str(sharded))
    monkeypatch.setattr(torch.cuda, "current_device", lambda: 0)
    assert made.device == torch.device("cuda:3")
    assert made.subtree("b").device == torch.device("cuda:3")


@pytest.mark.gpu
@pytest.mark.spec("safetensors.device")
def test_tensors_arrive_on_the_gpu(sharded):
    made = SafetensorsResource(str(sharded), device="cuda")
    for key, tensor in {**A, **B}.items():
        out = made.load(key)
        assert out.is_cuda and torch.equal(out.cpu(), tensor)
    out = made.read_many([*A, *B])
    assert all(t.is_cuda and torch.equal(t.cpu(), {**A, **B}[key]) for key, t in out.items())


def test_the_index_may_hold_more_than_the_weight_map(sharded):
    table = json.loads((sharded / INDEX).read_text())
    table["metadata"] = {"total_size": 1, "x": [1]}
    (sharded / INDEX).write_text(json.dumps(table))
    assert torch.equal(resource(sharded).load("a"), A["a"])
