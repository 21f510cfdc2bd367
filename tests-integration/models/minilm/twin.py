"""The same encoder written by hand on torch kernels: the runtime twin of ``model.MiniLM``."""

import torch
import torch.nn.functional as F

from tilefoundry.runtime import runtime_func, runtime_module

from .model import EPS, MASKED, MINILM, MiniLM

HIDDEN = MINILM.hidden
HEADS = MINILM.heads


@runtime_module(MiniLM.embeddings)
class EmbeddingsTwin:
    """Embedding lookup by ``torch.nn.functional.embedding``."""

    @runtime_func
    def embed(self, ids, word, position, segment, embed_gain, embed_bias):
        summed = F.embedding(ids, word) + position[: ids.shape[1]] + segment[0]
        return F.layer_norm(summed, (HIDDEN,), embed_gain, embed_bias, EPS)


@runtime_module(MiniLM.layer0.attention)
class AttentionTwin:
    """Fused scaled-dot-product attention."""

    @runtime_func
    def attend(self, x, bias, w_qkv, b_qkv, w_out, b_out, attention_gain, attention_bias):
        batch, length, _ = x.shape
        qkv = torch.addmm(b_qkv, x.reshape(-1, HIDDEN), w_qkv)
        query, key, value = qkv.view(batch, length, 3, HEADS, HIDDEN // HEADS).permute(2, 0, 3, 1, 4)
        mixed = F.scaled_dot_product_attention(query, key, value, attn_mask=bias)
        merged = mixed.transpose(1, 2).reshape(-1, HIDDEN)
        out = torch.addmm(b_out, merged, w_out).view_as(x)
        return F.layer_norm(x + out, (HIDDEN,), attention_gain, attention_bias, EPS)


@runtime_module(MiniLM.layer0)
class LayerTwin:
    """Two dense products around GELU."""

    attention = AttentionTwin

    @runtime_func
    def layer(self, x, bias, w_up, b_up, w_down, b_down, ffn_gain, ffn_bias):
        attended = self.attention(x, bias)
        inner = F.gelu(attended @ w_up + b_up)
        return F.layer_norm(attended + (inner @ w_down + b_down), (HIDDEN,), ffn_gain, ffn_bias, EPS)


@runtime_module(MiniLM)
class MiniLMTwin:
    """The whole encoder; every layer is its own child."""

    embeddings = EmbeddingsTwin
    layer0 = layer1 = layer2 = layer3 = layer4 = layer5 = LayerTwin

    @runtime_func
    def encode(self, ids, mask):
        keep = mask.to(torch.float32)
        bias = ((1.0 - keep) * MASKED)[:, None, None, :]
        x = self.embeddings(ids)
        for layer in self.modules[1:]:
            x = layer(x, bias)
        weight = keep[..., None]
        pooled = (x * weight).sum(1) / weight.sum(1).clamp_min(1e-9)
        return F.normalize(pooled, dim=-1)
