"""A Qwen3-style layer and the MiniLM family compiled for both targets. Oracle: the evaluator, on full tensors."""

from __future__ import annotations

import pytest
import torch
from models.minilm.model import Size as EncoderSize
from models.minilm.model import encoder
from models.qwen3.model import Size, decoder, rope_tables, step_inputs

from tilefoundry import jit
from tilefoundry.ir.core.module import Module
from tilefoundry.runtime import DictResource, NanInf, RelL2, check

TARGETS = ["cpu", pytest.param("cuda", marks=pytest.mark.gpu)]
BOUND = {"f32": 1e-5, "bf16": 2e-2}
TORCH = {"f32": torch.float32, "bf16": torch.bfloat16}


def random_weights(module: Module, prefix: str = "", seed: int = 0) -> dict[str, torch.Tensor]:
    """Gains around one, matrices of the size that keeps activations near one."""
    generator = torch.Generator().manual_seed(seed)
    found = {}
    for name, type_ in module.weights().items():
        shape = tuple(type_.shape)
        if len(shape) == 1:
            value = 0.5 + torch.rand(shape, generator=generator)
        else:
            value = torch.randn(shape, generator=generator) / shape[0] ** 0.5
        found[prefix + name] = value.to(TORCH[type_.dtype.name])
    for i, child in enumerate(module.modules):
        found.update(random_weights(child, f"{prefix}{child.name}.", seed * 31 + i + 1))
    return found


def compared(
    module: Module, inputs: tuple[torch.Tensor, ...], target: str, bound: float, outputs: int
) -> None:
    """The compiled entry against the evaluator's reading of the same weights."""
    loaded = module.load(DictResource(random_weights(module)))
    compiled = jit(module, target=target)
    weights = {path: loaded.constant(path).to(target) for _, path in compiled.type.constants}
    call = compiled.bind(weights)

    def candidate(*args: torch.Tensor):
        result = call(*(arg.to(target) for arg in args))
        return tuple(r.cpu() for r in result) if isinstance(result, tuple) else result.cpu()

    paths = ["output"] if outputs == 1 else [f"output[{i}]" for i in range(outputs)]
    report = check(candidate, loaded, inputs, expect={path: [RelL2(bound), NanInf()] for path in paths})
    assert report.passed, str(report)


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("dtype", ["f32", "bf16"])
@pytest.mark.parametrize(("start", "count"), [(0, 17), (5, 1), (31, 1)])
def test_attention_with_a_cache(target, dtype, start, count):
    size = Size(1, 64, 4, 2, 16, 96, 101, 32, dtype=dtype)
    attention = decoder(size).modules[0].modules[0]
    generator = torch.Generator().manual_seed(start)
    x = torch.randn((1, count, size.hidden), generator=generator).to(TORCH[dtype])
    shape = (1, size.positions, size.kv_heads, size.head_dim)
    caches = [torch.randn(shape, generator=generator).to(TORCH[dtype]) for _ in range(2)]
    _, positions, *scalars = step_inputs(size, torch.zeros(1, count, dtype=torch.int64), start, ())[:4]
    inputs = (x, positions, *scalars, *rope_tables(size, torch.device("cpu")), *caches)
    compared(attention, inputs, target, BOUND[dtype], 3)


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("dtype", ["f32", "bf16"])
def test_feed_forward(target, dtype):
    size = Size(1, 64, 4, 2, 16, 96, 101, 32, dtype=dtype)
    block = decoder(size).modules[0].modules[1]
    for length in (1, 17):
        x = torch.randn((1, length, size.hidden), generator=torch.Generator().manual_seed(length))
        compared(block, (x.to(TORCH[dtype]),), target, BOUND[dtype], 1)


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("dtype", ["f32", "bf16"])
def test_encoder(target, dtype):
    size = EncoderSize(2, hidden=32, heads=4, ffn=48, vocabulary=50, positions=20, dtype=dtype)
    ids = torch.randint(0, size.vocabulary, (3, 9), generator=torch.Generator().manual_seed(1))
    mask = (torch.arange(9)[None, :] < torch.tensor([[9], [4], [1]])).to(torch.int64)
    compared(encoder(size), (ids, mask), target, BOUND[dtype], 1)
