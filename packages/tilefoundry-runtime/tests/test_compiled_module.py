"""The calling convention over a library written by hand. Oracle: the formula that its C++ source spells."""

import threading
import traceback

import numpy as np
import pytest
import torch
import toy
from safetensors.torch import save_file

from tilefoundry.dsl import DimVar
from tilefoundry.ir.errors import CheckpointError, UnknownNameError
from tilefoundry.ir.types import TensorType
from tilefoundry.runtime import CompiledModule, DictResource, EntryABI, ParamABI, SafetensorsResource
from tilefoundry.runtime.linking import LinkedModule, load_linked_module

N = DimVar("N", 0, 100)


def param(name, shape, dtype="f32"):
    return ParamABI(name, TensorType(shape, dtype))


AFFINE = EntryABI("affine", (param("x", (N, 4)), param("w", (4,)), param("y", (N, 4))), 1, ((1, "left.w"),))
SPLIT = EntryABI("split", (param("x", (N,)), param("low", (N,)), param("high", (2 * N,), "i64")), 2)
FILL = EntryABI("fill", (param("y", (3,)),), 1)


@pytest.fixture
def affine(library):
    return load_linked_module(LinkedModule(library, "the source", AFFINE))


@pytest.fixture
def split(library):
    return load_linked_module(LinkedModule(library, "", SPLIT))


X, W = torch.arange(8.0).reshape(2, 4), torch.tensor([1.0, 2.0, 3.0, 4.0])
Y = X * W + 1


@pytest.mark.spec("compiled.loader")
def test_the_loader_gives_a_compiled_module(affine):
    assert isinstance(affine, CompiledModule)
    assert affine.type is AFFINE
    assert (affine.name, affine.entry, affine.modules, affine.source) == (
        "affine",
        "affine",
        (),
        "the source",
    )
    torch.testing.assert_close(affine(X, W), Y)


@pytest.mark.spec("module.no-module-is-none")
def test_a_compiled_module_stands_for_no_module(affine):
    assert affine.module is None


@pytest.mark.spec("compiled.public")
def test_loader_and_linked_library_are_no_public_names():
    import tilefoundry.runtime as door
    import tilefoundry.runtime.linking as linking

    own = {"LinkedModule", "load_linked_module"}
    assert own <= set(linking.__all__) and "CompiledModule" in door.__all__
    assert not own & set(door.__all__) and not any(hasattr(door, name) for name in own)


@pytest.mark.spec("compiled.load-is-no-op")
def test_load_does_nothing(affine):
    assert affine.load(object()) is None
    torch.testing.assert_close(affine(X, W), Y)


def test_built_from_any_function():
    def double(x, y):
        y.copy_(2 * x)

    made = CompiledModule(type=EntryABI("double", (param("x", (N,)), param("y", (N,))), 1), fn=double)
    assert made(torch.ones(3)).tolist() == [2, 2, 2]


@pytest.mark.spec("launcher.entry-symbol")
@pytest.mark.spec("launcher.tvm-ffi")
def test_the_entry_is_the_symbol_of_its_name(library, monkeypatch):
    import tvm_ffi

    opened, real = [], tvm_ffi.load_module
    monkeypatch.setattr(tvm_ffi, "load_module", lambda path: opened.append(path) or real(path))
    load_linked_module(LinkedModule(library, "", SPLIT))
    assert opened == [library]
    with pytest.raises(ValueError, match="exports no entry 'absent'"):
        load_linked_module(LinkedModule(library, "", EntryABI("absent", ())))


def test_libraries_that_cannot_be_opened(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"affine: the library .*none\.so does not exist"):
        load_linked_module(LinkedModule(str(tmp_path / "none.so"), "", AFFINE))
    (tmp_path / "text.so").write_text("no library")
    with pytest.raises(OSError, match=r"cannot open the library .*text\.so"):
        load_linked_module(LinkedModule(str(tmp_path / "text.so"), "", AFFINE))


@pytest.mark.spec("compiled.auto-alloc")
@pytest.mark.spec("compiled.output-metadata")
@pytest.mark.parametrize("n", [0, 1, 7])
def test_outputs_are_allocated_by_the_abi(split, n):
    x = torch.randn(n)
    low, high = split(x)
    assert (low.dtype, low.shape, low.device) == (torch.float32, (n,), x.device)
    assert (high.dtype, high.shape) == (torch.int64, (2 * n,))
    torch.testing.assert_close(low, -x)
    assert high.tolist() == [sign * i for i in range(n) for sign in (1, -1)]


@pytest.mark.spec("compiled.return-form")
def test_one_output_is_bare_and_several_are_a_tuple(affine, split):
    assert isinstance(affine(X, W), torch.Tensor)
    assert isinstance(split(torch.ones(2)), tuple)
    out = (torch.empty(2), torch.empty(4, dtype=torch.int64))
    given = split(torch.ones(2), *out)
    assert isinstance(given, tuple) and given[0] is out[0] and given[1] is out[1]


@pytest.mark.spec("compiled.pre-alloc")
def test_given_outputs_are_filled_and_returned(affine):
    out = torch.zeros(2, 4)
    version = out._version
    assert affine(X, W, out) is out
    torch.testing.assert_close(out, Y)
    assert out._version == version + 1


@pytest.mark.spec("compiled.partial-outputs")
@pytest.mark.parametrize("count", [0, 2, 4])
def test_another_number_of_arguments_is_refused(split, count):
    with pytest.raises(
        TypeError,
        match=rf"split takes 1 input \(x\), or those and its outputs \(low, high\), got {count} ",
    ):
        split(*[torch.ones(2)] * count)


@pytest.mark.spec("compiled.torch-only")
def test_allocation_is_for_torch_tensors(affine):
    with pytest.raises(TypeError, match="w is a ndarray; pass torch tensors, or pass the outputs as well"):
        affine(X, W.numpy())


@pytest.mark.spec("launcher.dlpack-arguments")
def test_any_dlpack_tensor_serves_where_outputs_are_given(affine):
    out = np.zeros((2, 4), np.float32)
    assert affine(X.numpy(), W.numpy(), out) is out
    np.testing.assert_array_equal(out, Y.numpy())


@pytest.mark.spec("launcher.dlpack-arguments")
def test_a_base_pointer_with_a_byte_offset(affine):
    # A producer that keeps the base pointer and gives the position as an offset: elements 8 to 15.
    import ctypes

    class DLManagedTensor(ctypes.Structure):
        _fields_ = (
            ("data", ctypes.c_void_p),
            ("device", ctypes.c_int32 * 2),
            ("ndim", ctypes.c_int32),
            ("dtype", ctypes.c_uint8 * 4),
            ("shape", ctypes.POINTER(ctypes.c_int64)),
            ("strides", ctypes.POINTER(ctypes.c_int64)),
            ("byte_offset", ctypes.c_uint64),
            ("manager", ctypes.c_void_p),
            ("deleter", ctypes.c_void_p),
        )

    base = np.arange(16, dtype=np.float32)
    shape = (ctypes.c_int64 * 2)(2, 4)
    kept = DLManagedTensor(
        base.ctypes.data, (1, 0), 2, (2, 32, 1, 0), shape, ctypes.POINTER(ctypes.c_int64)(), 32, None, None
    )

    class Producer:
        def __dlpack__(self, **_):
            new = ctypes.pythonapi.PyCapsule_New
            new.restype, new.argtypes = ctypes.py_object, (ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p)
            return new(ctypes.addressof(kept), b"dltensor", None)

        def __dlpack_device__(self):
            return (1, 0)

    out = torch.zeros(2, 4)
    affine(Producer(), W, out)
    torch.testing.assert_close(out, torch.arange(8.0, 16.0).reshape(2, 4) * W + 1)


def test_views_at_odd_offsets_and_odd_strides_of_size_one_dims(affine):
    x = torch.arange(9.0)[1:].reshape(2, 4)
    torch.testing.assert_close(affine(x, W), x * W + 1)
    row = torch.arange(4.0).as_strided((1, 4), (99, 1))
    torch.testing.assert_close(affine(row, W), row * W + 1)


def test_results_never_join_a_graph(affine):
    x = X.clone().requires_grad_()
    assert not affine(x, W).requires_grad
    with pytest.raises(ValueError, match=r"y is to be filled and requires a gradient; pass y\.detach\(\)"):
        affine(X, W, torch.zeros(2, 4, requires_grad=True))


def test_inference_tensors_serve_as_outputs(affine):
    with torch.inference_mode():
        out = torch.zeros(2, 4)
    torch.testing.assert_close(affine(X, W, out).clone(), Y)


def test_without_an_input_there_is_nothing_to_follow(library):
    fill = load_linked_module(LinkedModule(library, "", FILL))
    with pytest.raises(TypeError, match="no tensor input to follow; pass y as well"):
        fill()
    # With one parameter in all, the given output is the pre-allocated form.
    assert fill(torch.zeros(3)).tolist() == [7, 7, 7]


def test_an_extent_that_no_input_gives():
    abi = EntryABI("f", (param("x", (4,)), param("y", (N,))), 1)
    with pytest.raises(TypeError, match="no input gives N; pass y as well"):
        CompiledModule(type=abi, fn=lambda *_: None)(torch.ones(4))


def test_extents_solved_from_expressions():
    abi = EntryABI("f", (param("x", (2 * N + 1,)), param("y", (N, 3))), 1)
    out = CompiledModule(type=abi, fn=lambda x, y: y.zero_())(torch.ones(11))
    assert out.shape == (5, 3)


def test_shapes_that_break_the_allocation_are_named(split):
    with pytest.raises(ValueError, match=r"split: x has shape \(\), declared f32\[N\]: ranks differ"):
        split(torch.tensor(1.0))


def test_what_the_library_refuses_by_name_comes_through(affine):
    with pytest.raises(ValueError, match="affine: x must be f32"):
        affine(torch.ones(3), W)


@pytest.mark.spec("compiled.bind")
def test_bind_leaves_activations_alone(affine):
    bound = affine.bind({"left.w": W})
    torch.testing.assert_close(bound(X), Y)
    out = torch.empty(2, 4)
    assert bound(X, out) is out
    torch.testing.assert_close(out, Y)
    with pytest.raises(TypeError, match=r"activations alone \(x\), or those and its outputs \(y\), got 3 "):
        bound(X, W, out)
    with pytest.raises(TypeError, match=r"affine: bind takes .* got str; .*load\(resource\).* dotted paths"):
        affine.bind("folder")
    with pytest.raises(TypeError, match="x is a ndarray"):
        bound(X.numpy())


def test_bind_a_reading_by_dotted_path(affine):
    weights = toy.tree_weights()
    bound = affine.bind(toy.Tree.load(DictResource(weights)))
    torch.testing.assert_close(bound(X), X * weights["left.w"] + 1)
    torch.testing.assert_close(bound.constants["left.w"], weights["left.w"])


@pytest.mark.spec("compiled.bind")
@pytest.mark.parametrize("alias", [None, {"left": "first", "w": "weight"}])
def test_bind_a_resource_by_dotted_path(affine, alias):
    """Oracle: the tensor that the resource holds, and a mapping of it."""
    w = torch.randn(4)
    key = "left.w" if alias is None else "first.weight"
    bound = affine.bind(DictResource({key: w}, alias=alias))
    assert torch.equal(bound(X), affine.bind({"left.w": w})(X))
    assert torch.equal(bound.constants["left.w"], w)


@pytest.mark.spec("compiled.bind")
def test_bind_a_prepared_checkpoint(affine, tmp_path):
    """The folder holds other weights too; only the entry's are read."""
    weights = toy.tree_weights()
    toy.Tree.prepare(DictResource(weights), str(tmp_path / "prepared"))
    bound = affine.bind(SafetensorsResource(str(tmp_path / "prepared"), device="cpu"))
    torch.testing.assert_close(bound(X), X * weights["left.w"] + 1)


@pytest.mark.parametrize(
    ("mapping", "kind", "message"),
    [
        ({}, KeyError, r"lacks left\.w; give"),
        ({"left.W": W, "up.v": W}, KeyError, r"affine: the mapping lacks left\.w \(it holds left\.W\); give"),
        ({"LEFT.W": W, "left.v": W}, KeyError, r"lacks left\.w \(it holds LEFT\.W, left\.v\); give"),
        ({"left.w": torch.ones(5)}, ValueError, r"w has shape \(5,\), declared f32\[4\].*expected 4"),
        (
            {"left.w": torch.ones(4, dtype=torch.float64)},
            ValueError,
            r"w is torch.float64, declared f32\[4\]",
        ),
        ({"left.w": torch.ones(8)[::2]}, ValueError, "w is not contiguous"),
        ({"left.w": [1, 2, 3, 4]}, TypeError, "must be a torch.Tensor"),
        (17, TypeError, "takes a LoadedModule, a resource or a mapping"),
        (DictResource({"right.w": W}), KeyError, r"left\.w"),
        (
            DictResource({"left.w": torch.ones(5, dtype=torch.float64)}),
            CheckpointError,
            r"left\.w: checkpoint holds f64\[5\], declared f32\[4\]; .* the folder that prepare wrote",
        ),
    ],
)
def test_bind_refuses_by_name(affine, mapping, kind, message):
    with pytest.raises(kind, match=message):
        affine.bind(mapping)


@pytest.mark.spec("compiled.bind")
def test_bind_leaves_the_rest_of_a_checkpoint_alone(affine):
    """One mapping serves every entry of a model: what this one does not know is another's."""
    others = {"left.b": [1, 2], "right.w": torch.ones(7), 3: None}
    assert torch.equal(affine.bind({**others, "left.w": W})(X), affine.bind({"left.w": W})(X))


@pytest.mark.spec("compiled.bind")
@pytest.mark.parametrize("form", ["mapping", "resource", "folder", "reading"])
def test_a_missing_weight_is_said_in_a_few_lines(affine, tmp_path, form):
    held = {"left.x": torch.ones(4)}
    save_file(held, tmp_path / "model.safetensors")
    calls = {
        "mapping": lambda: affine.bind(held),
        "resource": lambda: affine.bind(DictResource(held)),
        "folder": lambda: affine.bind(SafetensorsResource(str(tmp_path), device="cpu")),
        "reading": lambda: toy.Tree.load(DictResource(held)),
    }
    with pytest.raises(UnknownNameError) as caught:
        calls[form]()
    error = caught.value
    assert error.__cause__ is None and error.__suppress_context__
    assert len("".join(traceback.format_exception(error)).splitlines()) <= 14
    assert "left.x" in str(error) or form == "reading"


def test_a_cpu_library_gets_blas_and_torchs_threads(library):
    import tvm_ffi

    load_linked_module(LinkedModule(library, "", AFFINE))(X, W)
    probes = tvm_ffi.load_module(library)
    assert probes.get_function("has_blas")()
    assert probes.get_function("threads")() == torch.get_num_threads()
    before = torch.get_num_threads()
    module = load_linked_module(LinkedModule(library, "", AFFINE))
    try:
        torch.set_num_threads(1)
        module(X, W)
        assert probes.get_function("threads")() == 1
    finally:
        torch.set_num_threads(before)


def test_calls_from_several_threads_are_independent(affine):
    failures = []

    def work(seed):
        x = torch.randn(33, 4, generator=torch.Generator().manual_seed(seed))
        for _ in range(200):
            if not torch.equal(affine(x, W), x * W + 1):
                failures.append(seed)

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures
