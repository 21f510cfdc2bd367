"""How the program's names map to those of a transformers Qwen3 checkpoint."""

from tilefoundry.runtime import Absolute

from .model import Size


def alias(size: Size) -> dict[str, str | Absolute]:
    """Alias table for a checkpoint that stores its output projection.

    The published layers keep both norm gains beside the blocks that consume them, so these two names are
    absolute, one pair a layer.
    """
    layers = [f"model.layers.{i}" for i in range(size.layers)]
    return {
        **{f"layer{i}": layer for i, layer in enumerate(layers)},
        **{f"{layer}.self_attn.input_gain": Absolute(f"{layer}.input_layernorm.weight") for layer in layers},
        **{f"{layer}.mlp.ffn_gain": Absolute(f"{layer}.post_attention_layernorm.weight") for layer in layers},
        **{f"{p}_weight": f"{p}_proj.weight" for p in ("q", "k", "v", "o", "gate", "up", "down")},
        "attention": "self_attn",
        "q_gain": "q_norm.weight",
        "k_gain": "k_norm.weight",
        "table": "model.embed_tokens.weight",
        "final_gain": "model.norm.weight",
        "w_head": "lm_head.weight",
    }
