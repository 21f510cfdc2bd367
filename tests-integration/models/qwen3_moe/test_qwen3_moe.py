"""A tiny Qwen3-style decoder with experts. Oracle: transformers' Qwen3MoeForCausalLM, live, full logits."""

from __future__ import annotations

import pytest
import torch
from models.qwen3.checkpoint import alias
from models.qwen3.model import TORCH_NAMES, Size, decoder, step_inputs
from models.qwen3_moe.model import Sparse, sparse_block
from transformers import Qwen3MoeConfig, Qwen3MoeForCausalLM

from tilefoundry.runtime import DictResource, NanInf, RelL2, SafetensorsResource, check

BOUND = {"f32": 1e-5, "bf16": 2e-2}
# Twelve experts: sorted as text, 10 would come before 2.
SPARSE = Sparse(experts=12, chosen=3, ffn=24)


def tiny(dtype: str) -> Size:
    shape = {"layers": 2, "hidden": 48, "heads": 4, "kv_heads": 2, "head_dim": 16, "ffn": 40}
    return Size(**shape, vocabulary=101, positions=24, dtype=dtype)


def published(size: Size) -> Qwen3MoeForCausalLM:
    torch.manual_seed(3)
    config = Qwen3MoeConfig(
        hidden_size=size.hidden,
        intermediate_size=size.ffn,
        moe_intermediate_size=SPARSE.ffn,
        num_experts=SPARSE.experts,
        num_experts_per_tok=SPARSE.chosen,
        norm_topk_prob=True,
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
    model = Qwen3MoeForCausalLM(config).eval()
    for name, parameter in model.named_parameters():
        if "norm" in name:
            torch.nn.init.uniform_(parameter, 0.5, 1.5)
        elif "experts" in name:
            torch.nn.init.normal_(parameter, std=0.1)
        elif name.endswith("mlp.gate.weight"):  # far apart, so that rounding does not choose the experts
            torch.nn.init.normal_(parameter, std=0.25)
    return model.to(getattr(torch, TORCH_NAMES[size.dtype]))


def checkpoint(model: Qwen3MoeForCausalLM) -> dict[str, torch.Tensor]:
    """The weights under the names of a published checkpoint: one tensor per expert and projection."""
    out = {}
    for name, value in model.state_dict().items():
        stem = name.removesuffix(".gate_up_proj").removesuffix(".down_proj")
        if stem == name:
            out[name] = value
        for j in range(SPARSE.experts if stem != name else 0):
            if name.endswith("gate_up_proj"):
                gate, up = value[j].chunk(2)
                out[f"{stem}.{j}.gate_proj.weight"], out[f"{stem}.{j}.up_proj.weight"] = gate, up
            else:
                out[f"{stem}.{j}.down_proj.weight"] = value[j]
    return out


def names(size: Size) -> dict:
    stacked = {
        f"{kind}s": tuple(f"experts.{j}.{kind}_proj.weight" for j in range(SPARSE.experts))
        for kind in ("gate", "up", "down")
    }
    return {**alias(size), **stacked, "w_router": "gate.weight"}


@pytest.fixture(scope="module", params=["f32", "bf16"])
def pair(request, tmp_path_factory):
    size = tiny(request.param)
    reference = published(size)
    module = decoder(size, sparse_block(SPARSE))
    folder = str(tmp_path_factory.mktemp("qwen3_moe") / "prepared")
    module.prepare(DictResource(checkpoint(reference), alias=names(size)), folder)
    return size, module.load(SafetensorsResource(folder, device="cpu")), reference


def random_ids(size: Size, length: int) -> torch.Tensor:
    return torch.randint(0, size.vocabulary, (1, length), generator=torch.Generator().manual_seed(11))


def expect(size: Size) -> dict:
    return {"output": [RelL2(BOUND[size.dtype]), NanInf()]}


@torch.no_grad()
def reference_logits(reference: Qwen3MoeForCausalLM, ids: torch.Tensor) -> torch.Tensor:
    return reference(input_ids=ids).logits


@pytest.mark.parametrize("length", [1, 13])
def test_prefill_equals_transformers(pair, length):
    size, loaded, reference = pair
    caches = loaded.init_caches(device="cpu")
    report = check(
        lambda tokens: loaded(*step_inputs(size, tokens, 0, caches))[0],
        lambda tokens: reference_logits(reference, tokens),
        (random_ids(size, length),),
        expect=expect(size),
    )
    assert report.passed, str(report)


def test_decode_with_a_cache_equals_transformers(pair):
    size, loaded, reference = pair
    ids = random_ids(size, 9)
    logits, caches = loaded(*step_inputs(size, ids[:, :4], 0, loaded.init_caches(device="cpu")))
    steps = [logits]
    for step in range(4, 9):
        logits, updated = loaded(*loaded.prepare_inputs_for_generation(ids[0], step, caches, device="cpu"))
        caches = loaded.append_cache(caches, updated)
        steps.append(logits)
    report = check(
        lambda: torch.cat(steps, dim=1), lambda: reference_logits(reference, ids), (), expect=expect(size)
    )
    assert report.passed, str(report)


def test_every_expert_is_stacked_in_its_own_place(pair):
    _, loaded, reference = pair
    block = loaded.modules[0].modules[1]
    fused = reference.state_dict()["model.layers.0.mlp.experts.gate_up_proj"]
    assert torch.equal(block.constants["w_gate"], fused[:, : SPARSE.ffn].transpose(1, 2))
    assert torch.equal(block.constants["w_up"], fused[:, SPARSE.ffn :].transpose(1, 2))
