"""prepare, then load on both sides, through real folders. Oracle: the evaluator, and transposes by torch."""

import threading

import pytest
import torch
from checkpoints import write_sharded, write_single

from tilefoundry import func, module
from tilefoundry.dsl import ConstTensor, DimVar, Tensor, tf
from tilefoundry.runtime import (
    Absolute,
    MaxAbs,
    Preprocessed,
    SafetensorsResource,
    check,
    runtime_func,
    runtime_module,
)

N = DimVar("N", 1, 64)


@module(entry="layer")
class Layer:
    @func
    def layer(
        x: Tensor[(N, 3), "f32"], w: ConstTensor[(3, 3), "f32"], g: ConstTensor[(3,), "f32"]
    ) -> Tensor[(N, 3), "f32"]:
        return tf.matmul(x, w) * g

    @layer.converter("w")
    def w_from(weight: Tensor[(3, 3), "f32"]) -> Tensor[(3, 3), "f32"]:
        return tf.transpose(weight, (1, 0))


@module(entry="run")
class Model:
    layers = tuple(Layer.renamed(f"layer{i}") for i in range(2))

    @func
    def run(x: Tensor[(N, 3), "f32"], experts: ConstTensor[(12, 3), "f32"]) -> Tensor[(N, 3), "f32"]:
        for layer in layers:
            x = layer(x)
        return x + tf.reduce(experts, axes=(0,), keepdim=False, kind="sum")


@runtime_module(Layer)
class LayerTwin:
    @runtime_func
    def layer(self, x, w, g):
        return (x @ w) * g


@runtime_module(Model)
class ModelTwin:
    layer0 = layer1 = LayerTwin

    @runtime_func
    def run(self, x, experts):
        for child in self.modules:
            x = child(x)
        return x + experts.sum(0)


def raw(seed=0):
    g = torch.Generator().manual_seed(seed)
    return {
        **{f"model.h.{i}.lin.weight": torch.randn(3, 3, generator=g) for i in range(2)},
        "norm.weight": torch.randn(3, generator=g),
        "model.h.1.norm.weight": torch.randn(1, 3, generator=g),
        **{f"experts.{i}": torch.full((3,), float(i)) for i in range(12)},
        # What a converter's parameter would be, were its name a whole key.
        **{key: torch.full((3, 3), float("nan")) for key in ("weight", "lin.weight", "layer0.weight")},
    }


ALIAS = {
    "layer0": "model.h.0",
    "layer1": "model.h.1",
    "weight": "lin.weight",
    # The first layer's gain lies with its owner; the second's is stored with one axis more.
    "model.h.0.g": Absolute("norm.weight"),
    "model.h.1.g": Preprocessed("norm.weight", lambda t: t[0]),
    "experts": tuple(f"experts.{i}" for i in range(12)),
}


def expected(x, data):
    for i in range(2):
        gain = data["norm.weight"] if i == 0 else data["model.h.1.norm.weight"][0]
        x = x @ data[f"model.h.{i}.lin.weight"].t() * gain
    return x + 66.0


@pytest.fixture(params=["single", "sharded"])
def folder(request, tmp_path):
    data = raw()
    if request.param == "single":
        write_single(tmp_path / "raw", data)
    else:
        keys = sorted(data)
        shards = {f"part-{i}.safetensors": {key: data[key] for key in keys[i::3]} for i in range(3)}
        write_sharded(tmp_path / "raw", shards)
    Model.prepare(
        SafetensorsResource(str(tmp_path / "raw"), device="cpu", alias=ALIAS), str(tmp_path / "out")
    )
    return tmp_path


@pytest.mark.spec("converter.raw-names")
@pytest.mark.spec("prepare.both-sides-load-it")
def test_both_sides_load_the_prepared_folder(folder):
    source = SafetensorsResource(str(folder / "out"), device="cpu")
    reading, twin = Model.load(source), ModelTwin()
    twin.load(source)
    x = torch.randn(5, 3)
    torch.testing.assert_close(reading(x), expected(x, raw()))
    assert check(twin, reading, (x,), expect={"output": [MaxAbs(1e-5)]}).passed


def test_two_weights_aliased_to_one_raw_tensor(tmp_path):
    @module(entry="f")
    class Tied:
        @func
        def f(
            x: Tensor[(N, 3), "f32"], a: ConstTensor[(3,), "f32"], b: ConstTensor[(3,), "f32"]
        ) -> Tensor[(N, 3), "f32"]:
            return x * a + b

    write_single(tmp_path / "raw", {"shared": torch.tensor([1.0, 2.0, 3.0])})
    alias = {"a": "shared", "b": "shared"}
    Tied.prepare(SafetensorsResource(str(tmp_path / "raw"), device="cpu", alias=alias), str(tmp_path / "out"))
    prepared = SafetensorsResource(str(tmp_path / "out"), device="cpu")
    assert sorted(prepared.keys()) == ["a", "b"]
    reading = Tied.load(prepared)
    reading.constants["a"].zero_()
    assert reading.constants["b"].tolist() == [1.0, 2.0, 3.0]
    # Without preparing, the two readings of one raw tensor are two tensors as well.
    raw = Tied.load(SafetensorsResource(str(tmp_path / "raw"), device="cpu", alias=alias))
    raw.constants["a"].zero_()
    assert raw.constants["b"].tolist() == [1.0, 2.0, 3.0]


def test_prepare_refuses_the_raw_folder(folder):
    source = SafetensorsResource(str(folder / "raw"), device="cpu", alias=ALIAS)
    before = sorted(p.name for p in (folder / "raw").iterdir())
    for out in ("raw", "raw/new", "."):
        with pytest.raises(ValueError, match="never writes over what it reads"):
            Model.prepare(source.subtree("layer0") if out == "." else source, str(folder / out))
    assert sorted(p.name for p in (folder / "raw").iterdir()) == before


def test_two_readings_share_no_memory(folder):
    source = SafetensorsResource(str(folder / "out"), device="cpu")
    one, two = Model.load(source), Model.load(source)
    one.layer0.constants["g"].fill_(0)
    x = torch.randn(2, 3)
    torch.testing.assert_close(two(x), expected(x, raw()))


def test_loading_a_raw_folder_says_to_prepare_it(tmp_path):
    write_single(tmp_path, {"w": torch.ones(3, 2), "g": torch.ones(3)})
    with pytest.raises(
        ValueError, match=r"w: checkpoint holds f32\[3, 2\].*its converter is applied by prepare"
    ):
        Layer.load(SafetensorsResource(str(tmp_path), device="cpu"))


def test_two_checkpoints_into_one_module_by_eight_threads(tmp_path):
    folders = []
    for seed in range(2):
        write_single(tmp_path / f"raw{seed}", raw(seed))
        source = SafetensorsResource(str(tmp_path / f"raw{seed}"), device="cpu", alias=ALIAS)
        Model.prepare(source, str(tmp_path / f"out{seed}"))
        folders.append(SafetensorsResource(str(tmp_path / f"out{seed}"), device="cpu"))
    x = torch.randn(4, 3)
    failures, start = [], threading.Barrier(8)

    def work(i):
        start.wait()
        for _ in range(5):
            got = Model.load(folders[i % 2])(x)
            twin = ModelTwin()
            twin.load(folders[i % 2])
            for value in (got, twin(x)):
                if not torch.allclose(value, expected(x, raw(i % 2)), atol=1e-4):
                    failures.append(i)

    threads = [threading.Thread(target=work, args=(i,)) for i in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures


@pytest.mark.gpu
def test_one_checkpoint_on_two_devices(folder):
    cpu = Model.load(SafetensorsResource(str(folder / "out"), device="cpu"))
    gpu = Model.load(SafetensorsResource(str(folder / "out"), device="cuda"))
    x = torch.randn(4, 3)
    torch.testing.assert_close(gpu(x.cuda()).cpu(), cpu(x), rtol=1e-4, atol=1e-4)
    assert gpu.layer0.constants["w"].is_cuda and not cpu.layer0.constants["w"].is_cuda
