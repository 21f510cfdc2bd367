# ruff: noqa: F821  # the DSL reads dtype names and members of the class body as source
"""One checkpoint and one library on two GPUs of one process. Oracle: the same program on the CPU, by the evaluator."""

from __future__ import annotations

import threading

import pytest
import torch

import tilefoundry
from tilefoundry import func, module
from tilefoundry.dsl import ConstTensor, DimVar, Tensor, tf
from tilefoundry.runtime import DictResource, SafetensorsResource, compiled_twin

pytestmark = [pytest.mark.gpu, pytest.mark.two_gpus]

N = DimVar("N", 1, 4096)
DEVICES = ("cuda:0", "cuda:1")


@module(entry="layer")
class Layer:
    @func
    def layer(
        x: Tensor[(N, 64), "f32"], w: ConstTensor[(64, 64), "f32"], g: ConstTensor[(64,), "f32"]
    ) -> Tensor[(N, 64), "f32"]:
        return tf.relu(tf.matmul(x, w)) * g


@module(entry="run")
class Model:
    left = Layer
    right = Layer

    @func
    def run(x: Tensor[(N, 64), "f32"]) -> Tensor[(N, 64), "f32"]:
        return right(left(x))


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A prepared checkpoint."""
    path = tmp_path_factory.mktemp("two") / "prepared"
    generator = torch.Generator().manual_seed(5)
    data = {
        f"{side}.{name}": torch.randn(*shape, generator=generator) / 8
        for side in ("left", "right")
        for name, shape in (("w", (64, 64)), ("g", (64,)))
    }
    Model.prepare(DictResource(data), str(path))
    return str(path)


@pytest.fixture(scope="module")
def case(folder):
    x = torch.randn(100, 64)
    return x, Model.load(SafetensorsResource(folder, device="cpu"))(x)


def close(found, want):
    torch.testing.assert_close(found.cpu(), want, rtol=2e-3, atol=2e-4)


def test_one_checkpoint_on_two_devices(folder, case):
    x, want = case
    readings = {device: Model.load(SafetensorsResource(folder, device=device)) for device in DEVICES}
    for device, reading in readings.items():
        assert str(reading.left.constants["w"].device) == device
        out = reading(x.to(device))
        assert str(out.device) == device
        close(out, want)
    readings["cuda:0"].left.constants["w"].zero_()
    close(readings["cuda:1"](x.to("cuda:1")), want)
    assert torch.cuda.current_device() == 0


def test_eight_threads_load_one_resource_onto_both(folder, case):
    x, want = case
    out, errors = {}, []

    def work(i):
        device = DEVICES[i % 2]
        try:
            torch.cuda.set_device(i % 2)
            resource = SafetensorsResource(folder, device="cuda")
            assert str(resource.device) == device
            out[i] = Model.load(resource)(x.to(device)).cpu()
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=work, args=(i,)) for i in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not errors
    for value in out.values():
        close(value, want)


def test_what_sits_on_the_other_device_is_named(folder, case):
    x, _ = case
    reading = Model.load(SafetensorsResource(folder, device="cuda:1"))
    with pytest.raises(ValueError, match=r"(?s)cuda:0.*cuda:1|cuda:1.*cuda:0"):
        reading(x.to("cuda:0"))


def test_one_library_serves_both_devices(folder, case):
    x, want = case
    compiled = tilefoundry.jit(Model, target="cuda")
    bound = {d: compiled.bind(Model.load(SafetensorsResource(folder, device=d))) for d in DEVICES}
    for device in (*DEVICES, *DEVICES):
        close(bound[device](x.to(device)), want)
    assert torch.cuda.current_device() == 0
    with pytest.raises(ValueError, match=r"run: .* is on cuda:\d.*is on cuda:\d; pass tensors of one device"):
        bound["cuda:1"](x.to("cuda:0"))


def test_work_goes_to_the_current_stream_of_the_tensors_device(folder, case):
    x, want = case
    compiled = tilefoundry.jit(Model, target="cuda")
    bound = compiled.bind(Model.load(SafetensorsResource(folder, device="cuda:1")))
    there = x.to("cuda:1")
    bound(there)
    stream = torch.cuda.Stream("cuda:1")
    torch.cuda.synchronize("cuda:1")
    with torch.cuda.stream(stream):
        # The result is right only if it waits for what was queued on this stream before.
        late = torch.zeros_like(there)
        torch.cuda._sleep(50_000_000)
        late.copy_(there)
        out = bound(late)
    stream.synchronize()
    close(out, want)


def test_compiled_twins_on_both_devices(folder, case):
    x, want = case
    twin_class = compiled_twin(Model, target="cuda")
    for device in DEVICES:
        twin = twin_class()
        twin.load(SafetensorsResource(folder, device=device))
        close(twin(x.to(device)), want)
