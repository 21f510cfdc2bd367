"""The safetensors header. Oracles: the safetensors library for good files, hand-made bytes for bad ones."""

from __future__ import annotations

import json

import numpy as np
import pytest
from safetensors import safe_open
from safetensors.numpy import save_file

from tilefoundry.ir import safetensors_header as sh


def write(path, header, data=b""):
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    path.write_bytes(len(text).to_bytes(8, "little") + text + data)
    return path


def entry(begin, end, shape=None, dtype="U8"):
    return {"dtype": dtype, "shape": [end - begin] if shape is None else shape, "data_offsets": [begin, end]}


@pytest.mark.spec("header.exact")
def test_reads_what_the_library_wrote(tmp_path):
    arrays = {"a": np.arange(6, dtype=np.float32).reshape(2, 3), "s": np.array(2.5, np.float16)}
    save_file(arrays, tmp_path / "f.safetensors", metadata={"k": "v"})
    header = sh.read_header(tmp_path / "f.safetensors")
    assert header.metadata == {"k": "v"} and set(header.tensors) == {"a", "s"}
    raw = (tmp_path / "f.safetensors").read_bytes()
    for name, array in arrays.items():
        begin, end = header.span(name)
        assert raw[begin:end] == array.tobytes() and header.tensors[name].shape == array.shape


def test_a_path_that_is_no_file_is_named_with_what_to_give(tmp_path):
    with pytest.raises(
        FileNotFoundError, match=r"absent does not exist; give the path of a safetensors file"
    ):
        sh.read_header(tmp_path / "absent")
    with pytest.raises(IsADirectoryError, match="is a folder; give the path of a safetensors file in it"):
        sh.read_header(tmp_path)


def test_library_reads_what_is_encoded(tmp_path):
    head, header = sh.encode_header(
        {"x": ("F32", (2, 2)), "e": ("I8", (0, 3)), "y": ("U8", (3,))}, {"m": "1"}
    )
    assert header.data_offset % 8 == 0
    (tmp_path / "f").write_bytes(head + np.arange(4, dtype=np.float32).tobytes() + bytes([7, 8, 9]))
    with safe_open(tmp_path / "f", "numpy") as file:
        assert file.get_tensor("x").tolist() == [[0, 1], [2, 3]]
        assert file.get_tensor("y").tolist() == [
            7,
            8,
            9,
        ]
        assert file.metadata() == {"m": "1"}
    assert sh.read_header(tmp_path / "f") == header


@pytest.mark.spec("header.exact")
@pytest.mark.parametrize(
    ("header", "data", "error", "words"),
    [
        (b'{"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]},"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]}}',
         b"x", sh.DuplicateKey, "'a' more than once"),
        ({"a": entry(0, 2), "b": entry(1, 3)}, b"xxx", sh.BadOffsets, "inside a"),
        ({"a": entry(0, 4)}, b"xxx", sh.TruncatedFile, "truncated"),
        ({"a": entry(0, 4, [3])}, b"xxxx", sh.BadOffsets, "takes 3 bytes"),
        ({"a": entry(2, 1, [1])}, b"xx", sh.BadOffsets, "span -1"),
        ({"a": entry(0, 1, dtype="F7")}, b"x", sh.NotSafetensors, "unknown dtype"),
        ({"a": [1]}, b"", sh.NotSafetensors, "expected dtype"),
        (b"[1]", b"", sh.NotSafetensors, "JSON list"),
        (b"{nope", b"", sh.NotSafetensors, "no JSON"),
    ],
)  # fmt: skip
def test_refused_headers(tmp_path, header, data, error, words):
    path = write(tmp_path / "bad.safetensors", header, data)
    with pytest.raises(error, match=words) as caught:
        sh.read_header(path)
    assert "bad.safetensors" in str(caught.value)


@pytest.mark.parametrize(
    ("data", "error", "words"),
    [
        (
            b"version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 1\n",
            sh.NotSafetensors,
            "git lfs pull",
        ),
        (b"abc", sh.TruncatedFile, "truncated"),
        (b"PK\x03\x04" + bytes(64), sh.NotSafetensors, "not a safetensors"),
        ((200).to_bytes(8, "little") + b'{"a":', sh.TruncatedFile, "header ends at byte 208"),
        ((2**60).to_bytes(8, "little") + b"{", sh.NotSafetensors, "beyond"),
    ],
)
def test_other_files(tmp_path, data, error, words):
    (tmp_path / "f").write_bytes(data)
    with pytest.raises(error, match=words):
        sh.read_header(tmp_path / "f")
