"""Libraries saved to disk. Oracle: the module that was saved."""

import json
import os
import shutil

import pytest
import torch

from tilefoundry.dsl import DimVar, ceildiv
from tilefoundry.ir.layout import Swizzle
from tilefoundry.ir.types import TensorType
from tilefoundry.ir.types.shard import B, ComposedLayout, Dynamic, Layout, Mesh, P, S, ShardLayout, Topology
from tilefoundry.runtime import CompiledModule, EntryABI, KernelRecord, ParamABI, load_compiled
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


def test_a_file_of_the_folder_is_not_the_folder(saved):
    with pytest.raises(FileNotFoundError, match=r"abi\.json is a file, no folder; give the folder that"):
        load_compiled(str(saved / "abi.json"))


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
        ({"target": "tpu"}, "was built for the target 'tpu', this version knows cpu and cuda"),
        ({"arch": "sm_90a"}, "'sm_90a' is no architecture of the target 'cpu'"),
        ({"arch": "x86 64"}, "'x86 64' is no architecture of the target 'cpu'"),
        ({"target": "cuda", "arch": "banana"}, "'banana' is no architecture of the target 'cuda'"),
        ({"target": "cuda", "arch": "x86-64-v3"}, "'x86-64-v3' is no architecture of the target 'cuda'"),
        ({"tvm_ffi": [">=99", "<100"]}, "needs apache-tvm-ffi >=99,<100"),
        ({"tvm_ffi": ["whatever"]}, "gives no version range"),
        ({"tvm_ffi": [">=abc"]}, "gives no version range"),
        ({"entry": {"name": "affine"}}, "its entry is no ABI"),
        ({"entry": None}, "entry must be a dict"),
        ({"target": 3}, "target must be a str"),
        ({"kernels": {}}, "kernels must be a list"),
        ({"kernels": [{"name": "k"}]}, "a kernel's record is none"),
        ({"kernels": ["k"]}, "a kernel's record is none"),
    ],
)
def test_what_does_not_fit_is_refused_before_loading(saved, changes, message):
    edit(saved, **changes)
    with pytest.raises(ValueError, match=message):
        load_compiled(str(saved))


COUNTS = [True, -1, 0, 1, 2**70, 1.5]
WRONG = [None, *COUNTS, "", "i32", [], {}, [1], [[0, 0]], {"var": "N", "lo": 5, "hi": 2}, {"sum": []}]


def places(value, path=()):
    """Paths of every value inside ``value``."""
    if path:
        yield path
    for key, inner in value.items() if isinstance(value, dict) else enumerate(value):
        if isinstance(inner, (dict, list)):
            yield from places(inner, (*path, key))
        else:
            yield (*path, key)


def test_an_entry_with_any_value_replaced_loads_or_is_refused(saved):
    path = saved / "abi.json"
    whole = json.loads(path.read_text())
    refused = 0
    for *above, last in list(places(whole["entry"])):
        for value in WRONG:
            table = json.loads(json.dumps(whole))
            node = table["entry"]
            for key in above:
                node = node[key]
            node[last] = value
            path.write_text(json.dumps(table))
            try:
                module = load_compiled(str(saved))
            except ValueError as error:
                # A name that is text may be anything, and is looked for.
                assert "abi.json is damaged" in str(error) or f"exports no entry {value!r}" in str(error)
                refused += 1
            else:
                assert module.type.name == "affine"
                assert all(isinstance(param.name, str) for param in module.type.params)
    assert refused > 300


def test_missing_and_damaged_files(saved):
    with pytest.raises(FileNotFoundError, match=r"abi\.json does not exist"):
        load_compiled(str(saved / "nowhere"))
    with open(saved / "library.so", "ab") as file:
        file.write(b"\0")
    with pytest.raises(
        ValueError, match=r"is not the library that was saved: .*; copy the folder again, or write"
    ):
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


def test_a_save_that_fails_leaves_what_was_there(saved, library, monkeypatch):
    def full(*_):
        raise OSError(28, "No space left on device")

    before = sorted(p.name for p in saved.iterdir())
    monkeypatch.setattr(shutil, "copyfile", full)
    with pytest.raises(OSError, match="No space left"):
        load_linked_module(LinkedModule(library, "new", AFFINE)).save(str(saved))
    assert sorted(p.name for p in saved.iterdir()) == before
    assert load_compiled(str(saved)).source == "text"


def test_a_save_interrupted_between_its_files_is_not_loadable(saved, library, monkeypatch):
    real = os.replace

    def second_fails(source, target):
        if target.endswith("source.txt"):
            raise OSError(5, "Input/output error")
        real(source, target)

    monkeypatch.setattr(os, "replace", second_fails)
    with pytest.raises(OSError, match="Input/output"):
        load_linked_module(LinkedModule(library, "new", AFFINE)).save(str(saved))
    with pytest.raises(FileNotFoundError, match=r"abi\.json does not exist"):
        load_compiled(str(saved))
    assert sorted(p.name for p in saved.iterdir()) == ["library.so", "source.txt"]


def test_a_library_that_is_gone_cannot_be_saved(saved, library, tmp_path):
    gone = tmp_path / "gone.so"
    shutil.copyfile(library, gone)
    module = load_linked_module(LinkedModule(str(gone), "new", AFFINE))
    gone.unlink()
    with pytest.raises(FileNotFoundError, match=r"gone\.so is gone, .*build it again to save it"):
        module.save(str(saved))
    assert load_compiled(str(saved)).source == "text"


MESH = Mesh((Topology("cta", 4 * N), "thread"), (2, 4, 32), ("x", "y", "t"))
LAYOUTS = [
    Layout((N, 4)),
    Layout((N, 4), (8, 1)),
    Layout((N, 4), (4 * N + 1, ceildiv(N, 2))),
    ComposedLayout(Swizzle(2, 3, 3), 8 * N, Layout((N, 4), (4, 1))),
    ComposedLayout(None, 0, Layout((N, 4))),
    ShardLayout(Layout((2, 4, 3, 32, 4), (0, 0, 4, 0, 1)), (S(0), S(1), S(3)), MESH),
    ShardLayout(Layout((N, 4)), (B(), P("max"), Dynamic()), MESH),
    ShardLayout(
        ComposedLayout(Swizzle(1, 0, 1), 0, Layout((1, 4))),
        (S(0), B(), B()),
        Mesh(("cta", "thread"), (2, 4, 32), ("x", "y", "t"))[1, 0:2, 0:32],
    ),
]


@pytest.mark.parametrize("layout", LAYOUTS, ids=str)
def test_layouts_of_every_form_survive(library, tmp_path, layout):
    abi = EntryABI("affine", (ParamABI("x", TensorType((N, 4), "f32", layout, "gmem")),))
    load_linked_module(LinkedModule(library, "", abi)).save(str(tmp_path / "d"))
    assert load_compiled(str(tmp_path / "d")).type == abi


def test_a_layout_that_is_no_record_is_refused_before_anything_is_written(library, tmp_path):
    abi = EntryABI("affine", (ParamABI("x", TensorType((N, 4), "f32", "row-major")),))
    with pytest.raises(TypeError, match="layout is one of the IR's records, got 'row-major'"):
        load_linked_module(LinkedModule(library, "", abi)).save(str(tmp_path / "d"))
    assert not (tmp_path / "d").exists()


KERNELS = (KernelRecord("rows", "ceildiv(M, 4)", 256, 40, 49_152), KernelRecord("tail"))


def test_kernel_records_survive(library, tmp_path):
    module = load_linked_module(LinkedModule(library, "", AFFINE, kernels=KERNELS))
    assert module.kernels == KERNELS
    module.save(str(tmp_path / "k"))
    assert load_compiled(str(tmp_path / "k")).kernels == KERNELS


@pytest.mark.spec("launcher.geometry")
def test_nothing_is_launched_by_a_kernel_record(saved):
    edit(saved, kernels=[{"name": "", "grid": "none", "block": 0, "registers": None, "shared_bytes": 2**40}])
    torch.testing.assert_close(load_compiled(str(saved))(X, W), X + 1)


def test_a_folder_without_kernel_records_has_none(saved):
    edit(saved, kernels=None)
    assert load_compiled(str(saved)).kernels == ()
    assert CompiledModule(type=AFFINE, fn=print).kernels == ()


@pytest.mark.parametrize(
    ("fields", "kind", "message"),
    [
        ({"name": 3}, TypeError, "name is text, got 3"),
        ({"name": "k", "grid": (1, 1, 1)}, TypeError, "grid is text"),
        ({"name": "k", "block": True}, TypeError, "k: block is a count or None, got True"),
        ({"name": "k", "registers": -1}, ValueError, "k: registers is at least 0, got -1"),
    ],
)
def test_a_kernel_record_holds_text_and_counts(fields, kind, message):
    with pytest.raises(kind, match=message):
        KernelRecord(**fields)
