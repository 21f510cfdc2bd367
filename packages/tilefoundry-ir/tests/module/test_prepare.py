"""Module.prepare: converters, groups, validation, the folder it writes. Oracle: torch on the raw tensors."""

import io
import json
import os
import sys

import pytest
import torch
from memory_resource import MemoryResource
from module_programs import Converted, N, Tree
from safetensors import safe_open

from tilefoundry import func, module
from tilefoundry.dsl import ConstTensor, Tensor
from tilefoundry.ir.errors import CheckpointError

INDEX = "model.safetensors.index.json"
SHARD = "model-00001-of-00001.safetensors"


def raw():
    return {
        "weight": torch.arange(12.0).reshape(4, 3),
        "experts": tuple(torch.full((2,), float(i), dtype=torch.bfloat16) for i in range(12)),
        "scale": torch.tensor(2.5),
        "up": torch.ones(3),
        "down": torch.zeros(3),
    }


def read(folder):
    index = json.loads((folder / INDEX).read_text())
    (shard,) = set(index["weight_map"].values())
    with safe_open(str(folder / shard), framework="pt") as handle:
        assert set(handle.keys()) == set(index["weight_map"])
        return {key: handle.get_tensor(key) for key in handle.keys()}  # noqa: SIM118  # a handle is no mapping


@pytest.mark.spec("prepare.converters")
@pytest.mark.spec("prepare.stacks-groups")
@pytest.mark.spec("converter.raw-names")
def test_values_are_converted_stacked_or_taken_as_they_are(tmp_path):
    Converted.prepare(MemoryResource(raw()), str(tmp_path / "out"))
    out = read(tmp_path / "out")
    assert set(out) == {"w", "experts", "scale", "both"}
    assert torch.equal(out["w"], raw()["weight"].t())
    assert out["experts"].dtype is torch.bfloat16
    assert torch.equal(out["experts"].float(), torch.arange(12.0)[:, None].expand(12, 2))
    assert out["scale"].shape == () and out["scale"].item() == 2.5
    assert out["both"].tolist() == [[1, 1, 1], [0, 0, 0]]


@pytest.mark.spec("prepare.layout")
@pytest.mark.spec("prepare.plain-folder")
def test_one_shard_and_its_index_under_dotted_paths(tmp_path):
    data = {key: torch.full((4,), float(i)) for i, key in enumerate(("gain", "left.w", "right.w"))}
    Tree.prepare(MemoryResource(data), str(tmp_path / "out"))
    assert sorted(os.listdir(tmp_path / "out")) == [SHARD, INDEX]
    index = json.loads((tmp_path / "out" / INDEX).read_text())
    assert index["weight_map"] == dict.fromkeys(data, SHARD)
    assert index["metadata"]["total_size"] == 48
    assert all(torch.equal(read(tmp_path / "out")[key], tensor) for key, tensor in data.items())
    assert os.listdir(tmp_path) == ["out"]


@pytest.mark.spec("prepare.validates")
def test_an_unconverted_value_of_another_type(tmp_path):
    for value in (torch.tensor([2.5]), torch.tensor(2.5, dtype=torch.float16)):
        with pytest.raises(
            CheckpointError,
            match=r'scale: checkpoint holds .*add a converter with @project.converter\("scale"\)',
        ):
            Converted.prepare(MemoryResource({**raw(), "scale": value}), str(tmp_path / "out"))
    assert os.listdir(tmp_path) == []


@pytest.mark.spec("prepare.validates")
def test_a_raw_tensor_that_does_not_fit_its_converter(tmp_path):
    with pytest.raises(CheckpointError, match=r"w: its converter does not fit the checkpoint: .*weight"):
        Converted.prepare(MemoryResource({**raw(), "weight": torch.ones(3, 4)}), str(tmp_path / "out"))
    stored = {**raw(), "weight": raw()["weight"].double()}
    with pytest.raises(
        CheckpointError,
        match=r"w: checkpoint holds weight as f64\[.*\], its converter declares .*; declare what the checkpoint",
    ):
        Converted.prepare(MemoryResource(stored), str(tmp_path / "out"))
    with pytest.raises(
        CheckpointError, match=r"experts: checkpoint holds bf16\[11, 2\], declared bf16\[12, 2\]"
    ):
        Converted.prepare(MemoryResource({**raw(), "experts": raw()["experts"][:11]}), str(tmp_path / "out"))


def test_a_group_of_several_types(tmp_path):
    group = (*raw()["experts"][:11], torch.zeros(2))
    with pytest.raises(
        CheckpointError, match=r"the group 'experts' stacks tensors of one type, got bf16\[2\], f32\[2\]"
    ):
        Converted.prepare(MemoryResource({**raw(), "experts": group}), str(tmp_path / "out"))


def test_a_missing_raw_tensor(tmp_path):
    data = raw()
    del data["up"]
    with pytest.raises(KeyError, match="up"):
        Converted.prepare(MemoryResource(data), str(tmp_path / "out"))
    assert os.listdir(tmp_path) == []


def test_a_group_goes_through_a_converter_as_one_tensor(tmp_path):
    data = {**raw(), "weight": tuple(torch.full((3,), float(i)) for i in range(4))}
    Converted.prepare(MemoryResource(data), str(tmp_path / "out"))
    assert torch.equal(read(tmp_path / "out")["w"], torch.arange(4.0).expand(3, 4))


@module(entry="f")
class Tied:
    @func
    def f(
        x: Tensor[(N, 2), "f32"], a: ConstTensor[(2,), "f32"], b: ConstTensor[(2,), "f32"]
    ) -> Tensor[(N, 2), "f32"]:
        return x * a + b

    @f.converter("a")
    def a_from(shared: Tensor[(2,), "f32"]) -> Tensor[(2,), "f32"]:
        return shared

    @f.converter("b")
    def b_from(shared: Tensor[(2,), "f32"]) -> Tensor[(2,), "f32"]:
        return shared


def test_tied_weights_are_written_under_each_key(tmp_path):
    Tied.prepare(MemoryResource({"shared": torch.tensor([1.0, 2.0])}), str(tmp_path / "out"))
    assert {key: tensor.tolist() for key, tensor in read(tmp_path / "out").items()} == {
        "a": [1, 2],
        "b": [1, 2],
    }


@module(entry="f")
class Mixed:
    @func
    def f(
        x: Tensor[(N,), "f32"],
        small: ConstTensor[(3,), "i8"],
        wide: ConstTensor[(2,), "f64"],
        flag: ConstTensor[(5,), "bool"],
        tiny: ConstTensor[(3,), "fp8e4m3"],
        none: ConstTensor[(0, 4), "f32"],
    ) -> Tensor[(N,), "f32"]:
        return x


def test_every_tensor_begins_at_a_multiple_of_its_element(tmp_path):
    data = {
        "small": torch.tensor([1, -2, 3], dtype=torch.int8),
        "wide": torch.tensor([1e-300, 2.0], dtype=torch.float64),
        "flag": torch.tensor([True, False, True, True, False]),
        "tiny": torch.tensor([1.0, -2.0, 0.5]).to(torch.float8_e4m3fn),
        "none": torch.empty(0, 4),
    }
    Mixed.prepare(MemoryResource(data), str(tmp_path / "out"))
    out = read(tmp_path / "out")
    for key, tensor in data.items():
        assert out[key].dtype is tensor.dtype and out[key].shape == tensor.shape
        assert torch.equal(out[key].view(torch.uint8), tensor.view(torch.uint8))
    text = (tmp_path / "out" / SHARD).read_bytes()
    length = int.from_bytes(text[:8], "little")
    assert length % 8 == 0
    for row in json.loads(text[8 : 8 + length]).values():
        if "dtype" in row and row["dtype"] == "F64":
            assert row["data_offsets"][0] % 8 == 0


def test_a_second_run_replaces_the_first(tmp_path):
    for scale in (1.0, 3.0):
        Converted.prepare(MemoryResource({**raw(), "scale": torch.tensor(scale)}), str(tmp_path / "out"))
    assert read(tmp_path / "out")["scale"].item() == 3.0
    assert os.listdir(tmp_path) == ["out"]


def test_a_failing_run_leaves_the_old_folder(tmp_path):
    Converted.prepare(MemoryResource(raw()), str(tmp_path / "out"))
    before = {name: (tmp_path / "out" / name).read_bytes() for name in (SHARD, INDEX)}
    with pytest.raises(CheckpointError):
        Converted.prepare(MemoryResource({**raw(), "down": torch.ones(7)}), str(tmp_path / "out"))
    assert {name: (tmp_path / "out" / name).read_bytes() for name in (SHARD, INDEX)} == before
    assert os.listdir(tmp_path) == ["out"]


@pytest.mark.parametrize("where", [".", "inside", "inside/deeper", ".."])
def test_the_raw_folder_is_never_written_to(tmp_path, where):
    folder = tmp_path / "outer" / "raw"
    folder.mkdir(parents=True)
    (folder / "model.safetensors").write_bytes(b"untouched")
    for out in (folder / where, tmp_path / "link" / where):
        if not (tmp_path / "link").exists():
            (tmp_path / "link").symlink_to(folder)
        with pytest.raises(ValueError, match="never writes over what it reads"):
            Converted.prepare(MemoryResource(raw(), folder=str(folder)), str(out))
    assert (folder / "model.safetensors").read_bytes() == b"untouched"
    assert os.listdir(folder) == ["model.safetensors"]


def test_a_sibling_of_the_raw_folder_is_fine(tmp_path):
    (tmp_path / "raw").mkdir()
    Converted.prepare(MemoryResource(raw(), folder=str(tmp_path / "raw")), str(tmp_path / "raw-prepared"))
    assert sorted(os.listdir(tmp_path)) == ["raw", "raw-prepared"]


def test_foreign_files_are_kept(tmp_path):
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "thesis.tex").write_text("five years")
    with pytest.raises(ValueError, match=r"holds files that prepare did not write \(thesis\.tex\)"):
        Converted.prepare(MemoryResource(raw()), str(tmp_path / "out"))
    (tmp_path / "file").write_text("")
    with pytest.raises(ValueError, match="is a file"):
        Converted.prepare(MemoryResource(raw()), str(tmp_path / "file"))


def test_parents_are_made_and_permissions_follow_the_umask(tmp_path):
    Converted.prepare(MemoryResource(raw()), str(tmp_path / "a" / "b" / "out"))
    mask = os.umask(0)
    os.umask(mask)
    assert os.stat(tmp_path / "a" / "b" / "out").st_mode & 0o777 == 0o777 & ~mask


@pytest.fixture
def no_exchange(monkeypatch):
    """A file system that cannot exchange two folders."""
    from tilefoundry.ir.core import publish

    monkeypatch.setattr(publish, "_exchange", lambda a, b: False)
    return publish


def with_scale(scale):
    return MemoryResource({**raw(), "scale": torch.tensor(scale)})


def test_where_two_folders_cannot_be_exchanged(tmp_path, no_exchange):
    out = tmp_path / "out"
    for scale in (1.0, 3.0, 4.0):
        Converted.prepare(with_scale(scale), str(out))
        assert read(out)["scale"].item() == scale
        # One shard and its index, whatever the shard had to be called.
        assert len(os.listdir(out)) == 2 and os.listdir(tmp_path) == ["out"]


@pytest.mark.parametrize("step", [1, 2])
def test_a_move_that_fails_leaves_the_old_checkpoint(tmp_path, monkeypatch, no_exchange, step):
    out = tmp_path / "out"
    Converted.prepare(with_scale(3.0), str(out))
    before = sorted(os.listdir(out))
    real, calls = os.rename, []

    def fails(a, b):
        calls.append(b)
        if len(calls) == step:
            raise OSError("no")
        real(a, b)

    monkeypatch.setattr(no_exchange.os, "rename", fails)
    with pytest.raises(OSError, match="no"):
        Converted.prepare(with_scale(5.0), str(out))
    assert read(out)["scale"].item() == 3.0
    assert sorted(os.listdir(out)) == before and os.listdir(tmp_path) == ["out"]


@pytest.mark.parametrize("index", ["{", "[]", '{"weight_map": 3}', "[" * 100_000])
def test_an_index_that_is_none_is_replaced(tmp_path, no_exchange, index):
    out = tmp_path / "out"
    Converted.prepare(with_scale(3.0), str(out))
    (out / "model.safetensors.index.json").write_text(index)
    Converted.prepare(with_scale(5.0), str(out))
    assert read(out)["scale"].item() == 5.0 and len(os.listdir(out)) == 2


class Terminal(io.StringIO):
    def isatty(self):
        return True


def test_progress_is_shown_on_terminals_alone(tmp_path, monkeypatch):
    for stream, shown in ((io.StringIO(), False), (Terminal(), True)):
        monkeypatch.setattr(sys, "stderr", stream)
        Converted.prepare(MemoryResource(raw()), str(tmp_path / "out"))
        text = stream.getvalue()
        assert ("prepare Converted" in text and "4/4" in text) == shown and bool(text) == shown


@pytest.mark.gpu
def test_converters_run_where_they_are_asked_to(tmp_path):
    folders = {device: tmp_path / device for device in ("cpu", "cuda")}
    before = torch.cuda.memory_stats()["allocation.all.allocated"] if torch.cuda.is_initialized() else 0
    for device, folder in folders.items():
        Converted.prepare(MemoryResource(raw()), str(folder), device=device)
    assert torch.cuda.memory_stats()["allocation.all.allocated"] > before
    for key, tensor in read(folders["cpu"]).items():
        assert torch.equal(read(folders["cuda"])[key], tensor)


@pytest.mark.spec("converter.once-per-weight")
def test_a_second_converter_for_one_weight_is_an_error():
    from tilefoundry.ir.errors import DslError

    with pytest.raises((DslError, ValueError), match="already has a converter"):

        @module(entry="f")
        class Twice:
            @func
            def f(x: Tensor[(2,), "f32"], w: ConstTensor[(2,), "f32"]) -> Tensor[(2,), "f32"]:
                return x * w

            @f.converter("w")
            def one(a: Tensor[(2,), "f32"]) -> Tensor[(2,), "f32"]:
                return a

            @f.converter("w")
            def two(b: Tensor[(2,), "f32"]) -> Tensor[(2,), "f32"]:
                return b


@pytest.mark.spec("converter.exact-type")
def test_a_converter_returns_the_weights_exact_type():
    from tilefoundry.ir.errors import DslError

    with pytest.raises((DslError, ValueError), match=r"converter returns f32\[3\].*declared f32\[2\]"):

        @module(entry="f")
        class Wrong:
            @func
            def f(x: Tensor[(2,), "f32"], w: ConstTensor[(2,), "f32"]) -> Tensor[(2,), "f32"]:
                return x * w

            @f.converter("w")
            def one(a: Tensor[(3,), "f32"]) -> Tensor[(3,), "f32"]:
                return a


def test_a_weight_of_dynamic_extent_cannot_be_prepared(tmp_path):
    @module(entry="f")
    class Dynamic:
        @func
        def f(x: Tensor[(N,), "f32"], w: ConstTensor[(N,), "f32"]) -> Tensor[(N,), "f32"]:
            return x * w

    with pytest.raises(CheckpointError, match="a prepared weight has one shape"):
        Dynamic.prepare(MemoryResource({"w": torch.ones(3)}), str(tmp_path / "out"))
    # Loading takes any extent in the variable's range.
    assert Dynamic.load(MemoryResource({"w": torch.ones(3)}))(torch.ones(3)).tolist() == [1, 1, 1]
    with pytest.raises(CheckpointError, match=r"declared f32\[N\]"):
        Dynamic.load(MemoryResource({"w": torch.ones(64)}))
