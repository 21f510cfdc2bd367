"""The encoder family at tiny size. Oracle: transformers' BertModel with pooling, live, full outputs."""

from __future__ import annotations

import pytest
import torch
from models.minilm.checkpoint import names
from models.minilm.model import Size, encoder
from models.minilm.reference import pooled
from transformers import BertConfig, BertModel

from tilefoundry.runtime import DictResource, NanInf, RelL2, SafetensorsResource, check

BOUND = {"f32": 1e-5, "bf16": 2e-2}


@pytest.mark.parametrize("dtype", ["f32", "bf16"])
@pytest.mark.parametrize(("layers", "heads"), [(1, 1), (2, 4)])
def test_encoder_equals_transformers(tmp_path, dtype, layers, heads):
    torch.manual_seed(layers)
    size = Size(layers, hidden=32, heads=heads, ffn=48, vocabulary=50, positions=20, dtype=dtype)
    config = BertConfig(
        vocab_size=size.vocabulary,
        hidden_size=size.hidden,
        num_hidden_layers=size.layers,
        num_attention_heads=size.heads,
        intermediate_size=size.ffn,
        max_position_embeddings=size.positions,
    )
    bert = (
        BertModel(config, add_pooling_layer=False)
        .eval()
        .to(torch.float32 if dtype == "f32" else torch.bfloat16)
    )
    for name, parameter in bert.named_parameters():
        if "LayerNorm" in name or name.endswith("bias"):
            torch.nn.init.uniform_(parameter, 0.5, 1.5)
    module = encoder(size)
    module.prepare(DictResource(bert.state_dict(), alias=names(size)), str(tmp_path / "prepared"))
    loaded = module.load(SafetensorsResource(str(tmp_path / "prepared"), device="cpu"))
    ids = torch.randint(0, size.vocabulary, (3, 9))
    mask = (torch.arange(9)[None, :] < torch.tensor([[9], [4], [1]])).to(torch.int64)
    report = check(
        loaded,
        lambda i, m: pooled(bert, i, m),
        (ids, mask),
        expect={"output": [RelL2(BOUND[dtype]), NanInf()]},
    )
    assert report.passed, str(report)
