"""Libraries saved to disk. Oracle: the module that was saved."""

import json
import shutil

import pytest
import torch

from tilefoundry.dsl import DimVar, ceildiv
from tilefoundry.ir.types import TensorType
from tilefoundry.runtime import CompiledModule, EntryABI, ParamABI, load_compiled
from tilefoundry.runtime.linking import LinkedModule, load_linked_module

N = DimVar("N", 0, 100)
TYPE = TensorType((N, 4), "f32")
AFFINE = EntryABI(
    "affine",
    (ParamABI("x", TYPE), ParamABI("w", TensorType((4,), "f32")), ParamABI("y", TYPE)),
    1,
    ((1, "a.w"),),
    ((0, 0),),
)
X, W = torch.arange(8.0).reshape(2, 4), torch.ones(4)


@pytest.fixture
def saved(library, tmp_path):
    folder = tmp_path / "saved"
    load_linked_module(LinkedModule(library, "text", AFFINE, "cpu")).save(str(folder))
    return folder


def test_a_round_trip_keeps_everything(saved):
    module = load_compiled(str(saved))
    assert (module.type, module.source) == (AFFINE, "text")
    torch.testing.assert_close(module(X, W), X + 1)
    # What was loaded can be saved again.
    module.save(str(saved.parent / "again"))
    assert load_compiled(str(saved.parent / "again")).type == AFFINE


def test_dims_of_every_form_survive(library, tmp_path):
    shape = (N, 2 * N + 3, ceildiv(N, 4) * 4, N * N, 7)
    abi = EntryABI("affine", (ParamABI("x", TensorType(shape, "bf16", None, "gmem")),))
    load_linked_module(LinkedModule(library, "", abi)).save(str(tmp_path / "d"))
    assert load_compiled(str(tmp_path / "d")).type == abi


def test_a_module_without_a_library():
    with pytest.raises(ValueError, match="not loaded from a library"):
        CompiledModule(type=AFFINE, fn=print).save("nowhere")


def edit(saved, **changes):
    table = json.loads((saved / "abi.json").read_text())
    table.update(changes)
    (saved / "abi.json").write_text(json.dumps({k: v for k, v in table.items() if v is not None}))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"format": 2}, "has format 2, this version reads 1"),
        ({"format": True}, "has format True"),
        ({"format": None}, "has format None"),
        ({"sha256": "0" * 64}, "is not the library that was saved"),
        ({"machine": "riscv128"}, "was built on riscv128, this machine is"),
        ({"arch": "native.0123456789ab"}, r"was built for native\.0123456789ab, this machine is"),
        ({"tvm_ffi": [">=99", "<100"]}, "needs apache-tvm-ffi >=99,<100"),
        ({"tvm_ffi": ["whatever"]}, "gives no version range"),
        ({"entry": {"name": "affine"}}, "its entry is no ABI"),
        ({"entry": None}, "entry must be a dict"),
        ({"target": 3}, "target must be a str"),
    ],
)
def test_what_does_not_fit_is_refused_before_loading(saved, changes, message):
    edit(saved, **changes)
    with pytest.raises(ValueError, match=message):
        load_compiled(str(saved))


def test_missing_and_damaged_files(saved):
    with pytest.raises(FileNotFoundError, match=r"abi\.json does not exist"):
        load_compiled(str(saved / "nowhere"))
    with open(saved / "library.so", "ab") as file:
        file.write(b"\0")
    with pytest.raises(ValueError, match="is not the library that was saved"):
        load_compiled(str(saved))
    (saved / "library.so").unlink()
    with pytest.raises(FileNotFoundError, match=r"no library\.so"):
        load_compiled(str(saved))
    (saved / "abi.json").write_text('{"format": 1,')
    with pytest.raises(ValueError, match="is damaged"):
        load_compiled(str(saved))


def test_saving_over_a_loaded_library_leaves_the_loaded_one(saved, library):
    module = load_compiled(str(saved))
    load_linked_module(LinkedModule(library, "new", AFFINE)).save(str(saved))
    torch.testing.assert_close(module(X, W), X + 1)
    assert load_compiled(str(saved)).source == "new"


def test_an_interrupted_save_is_not_loadable(saved, library, monkeypatch):
    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(shutil, "copyfile", full)
    with pytest.raises(OSError, match="No space left"):
        load_linked_module(LinkedModule(library, "new", AFFINE)).save(str(saved))
    with pytest.raises(FileNotFoundError, match=r"abi\.json does not exist"):
        load_compiled(str(saved))
    assert sorted(p.name for p in saved.iterdir()) == ["library.so", "source.txt"]
