"""A tiny Qwen3-style decoder. Oracle: transformers' Qwen3ForCausalLM, live, full logits."""

from __future__ import annotations

import pytest
import torch
from models.qwen3.checkpoint import alias
from models.qwen3.model import TORCH_NAMES, Size, decoder, step_inputs
from transformers import Qwen3Config, Qwen3ForCausalLM

from tilefoundry.runtime import DictResource, NanInf, RelL2, SafetensorsResource, check

BOUND = {"f32": 1e-5, "bf16": 2e-2}


def tiny(dtype: str) -> Size:
    return Size(
        layers=2,
        hidden=64,
        heads=4,
        kv_heads=2,
        head_dim=16,
        ffn=96,
        vocabulary=101,
        positions=32,
        dtype=dtype,
    )


def published(size: Size) -> Qwen3ForCausalLM:
    torch.manual_seed(0)
    config = Qwen3Config(
        hidden_size=size.hidden,
        intermediate_size=size.ffn,
        num_hidden_layers=size.layers,
        num_attention_heads=size.heads,
        num_key_value_heads=size.kv_heads,
        head_dim=size.head_dim,
        vocab_size=size.vocabulary,
        max_position_embeddings=size.positions,
        rope_theta=size.rope_theta,
        rms_norm_eps=size.eps,
        tie_word_embeddings=False,
    )
    model = Qwen3ForCausalLM(config).eval()
    # Norm gains start at one; random ones make a forgotten gain visible.
    for name, parameter in model.named_parameters():
        if "norm" in name:
            torch.nn.init.uniform_(parameter, 0.5, 1.5)
    return model.to(getattr(torch, TORCH_NAMES[size.dtype]))


@pytest.fixture(scope="module", params=["f32", "bf16"])
def pair(request, tmp_path_factory):
    size = tiny(request.param)
    reference = published(size)
    module = decoder(size)
    folder = str(tmp_path_factory.mktemp("qwen3") / "prepared")
    module.prepare(DictResource(reference.state_dict(), alias=alias(size)), folder)
    return size, module.load(SafetensorsResource(folder, device="cpu")), reference


def random_ids(size: Size, length: int) -> torch.Tensor:
    return torch.randint(0, size.vocabulary, (1, length), generator=torch.Generator().manual_seed(7))


@torch.no_grad()
def reference_logits(reference: Qwen3ForCausalLM, ids: torch.Tensor) -> torch.Tensor:
    return reference(input_ids=ids).logits


@pytest.mark.parametrize("length", [1, 2, 17, 32])
def test_prefill_equals_transformers(pair, length):
    size, loaded, reference = pair
    ids = random_ids(size, length)
    caches = loaded.init_caches(device="cpu")
    report = check(
        lambda tokens: loaded(*step_inputs(size, tokens, 0, caches))[0],
        lambda tokens: reference_logits(reference, tokens),
        (ids,),
        expect={"output": [RelL2(BOUND[size.dtype]), NanInf()]},
    )
    assert report.passed, str(report)


def test_decode_with_a_cache_equals_transformers(pair):
    size, loaded, reference = pair
    ids = random_ids(size, 12)
    logits, caches = loaded(*step_inputs(size, ids[:, :5], 0, loaded.init_caches(device="cpu")))
    steps = [logits]
    for step in range(5, 12):
        logits, updated = loaded(
            *loaded.prepare_inputs_for_generation(ids[0, : step + 1], step, caches, device="cpu")
        )
        caches = loaded.append_cache(caches, updated)
        steps.append(logits)
    report = check(
        lambda: torch.cat(steps, dim=1),
        lambda: reference_logits(reference, ids),
        (),
        expect={"output": [RelL2(BOUND[size.dtype]), NanInf()]},
    )
    assert report.passed, str(report)


def test_a_step_leaves_the_caches_it_was_given(pair):
    # Oracle: the bytes before the call.
    size, loaded, _ = pair
    caches = loaded.init_caches(device="cpu")
    before = [t.clone() for pair_ in caches for t in pair_]
    loaded(*step_inputs(size, random_ids(size, 3), 0, caches))
    assert all(torch.equal(a, b) for a, b in zip(before, [t for pair_ in caches for t in pair_], strict=True))
