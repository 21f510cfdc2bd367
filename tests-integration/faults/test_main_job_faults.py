"""What a user gets wrong on the way from a checkpoint to a compiled model, and the message that helps.

Oracle of each: the parts that the message must name (what it is about, what was found, what was expected,
what to do), on one screen.
"""

from __future__ import annotations

import os

import pytest
import torch
from models.minilm.checkpoint import names
from models.minilm.model import Size, encoder

import tilefoundry
from tilefoundry.runtime import DictResource

SIZE = Size(layers=1, hidden=8, heads=2, ffn=12, vocabulary=20, positions=6)
SCREEN = 24 * 100


@pytest.fixture(scope="module")
def model():
    return encoder(SIZE)


@pytest.fixture
def checkpoint():
    """Every raw tensor that the program reads, under its published name."""
    h, f = SIZE.hidden, SIZE.ffn
    attention = "encoder.layer.0.attention"
    shapes = {
        "embeddings.word_embeddings.weight": (SIZE.vocabulary, h),
        "embeddings.position_embeddings.weight": (SIZE.positions, h),
        "embeddings.token_type_embeddings.weight": (2, h),
        **{f"embeddings.LayerNorm.{p}": (h,) for p in ("weight", "bias")},
        **{f"{attention}.self.{n}.weight": (h, h) for n in ("query", "key", "value")},
        **{f"{attention}.self.{n}.bias": (h,) for n in ("query", "key", "value")},
        f"{attention}.output.dense.weight": (h, h),
        f"{attention}.output.dense.bias": (h,),
        **{f"{attention}.output.LayerNorm.{p}": (h,) for p in ("weight", "bias")},
        "encoder.layer.0.intermediate.dense.weight": (f, h),
        "encoder.layer.0.intermediate.dense.bias": (f,),
        "encoder.layer.0.output.dense.weight": (h, f),
        "encoder.layer.0.output.dense.bias": (h,),
        **{f"encoder.layer.0.output.LayerNorm.{p}": (h,) for p in ("weight", "bias")},
    }
    return {name: torch.randn(shape) for name, shape in shapes.items()}


def message_of(error: pytest.ExceptionInfo) -> str:
    text = str(error.value)
    assert len(text) < SCREEN
    return text


def prepare(model, checkpoint, folder, alias=None):
    model.prepare(DictResource(checkpoint, alias=alias or names(SIZE)), str(folder / "prepared"))


def test_the_checkpoint_of_these_tests_is_complete(model, checkpoint, tmp_path):
    prepare(model, checkpoint, tmp_path)
    assert (tmp_path / "prepared" / "model.safetensors.index.json").is_file()


def test_a_wrong_shape_names_weight_both_types_and_the_converter(model, checkpoint, tmp_path):
    checkpoint["encoder.layer.0.output.dense.bias"] = torch.zeros(9)
    with pytest.raises(ValueError) as error:
        prepare(model, checkpoint, tmp_path)
    text = message_of(error)
    assert all(part in text for part in ("layer0.b_down", "f32[9]", "f32[8]", '@layer.converter("b_down")'))
    assert os.listdir(tmp_path) == []


def test_a_wrong_shape_under_a_converter_names_its_parameter(model, checkpoint, tmp_path):
    checkpoint["encoder.layer.0.output.dense.weight"] = torch.zeros(12, 8)
    with pytest.raises(ValueError) as error:
        prepare(model, checkpoint, tmp_path)
    text = message_of(error)
    assert all(part in text for part in ("layer0.w_down", "down_weight", "(12, 8)", "f32[8, 12]"))
    assert os.listdir(tmp_path) == []


def test_a_missing_key_names_weight_key_and_neighbours(model, checkpoint, tmp_path):
    del checkpoint["encoder.layer.0.intermediate.dense.bias"]
    with pytest.raises(KeyError) as error:
        prepare(model, checkpoint, tmp_path)
    text = message_of(error)
    assert all(
        part in text
        for part in (
            "layer0.b_up",
            "encoder.layer.0.intermediate.dense.bias",
            "intermediate.dense.weight",
            "alias=",
        )
    )
    assert os.listdir(tmp_path) == []


def test_a_renamed_alias_names_the_key_it_led_to(model, checkpoint, tmp_path):
    alias = {**names(SIZE), "b_up": "intermediate.dense.offset"}
    with pytest.raises(KeyError) as error:
        prepare(model, checkpoint, tmp_path, alias)
    text = message_of(error)
    assert all(
        part in text
        for part in (
            "layer0.b_up",
            "encoder.layer.0.intermediate.dense.offset",
            "intermediate.dense.bias",
            "alias=",
        )
    )


def test_loading_an_unprepared_checkpoint_says_what_to_do(model, checkpoint):
    with pytest.raises((KeyError, ValueError)) as error:
        model.load(DictResource(checkpoint, alias=names(SIZE)))
    assert "layer0.w_up" in message_of(error)


def test_a_machine_without_compiler_names_the_package_and_recovers(model, tmp_path, monkeypatch):
    monkeypatch.setenv("TILEFOUNDRY_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.delenv("CXX", raising=False)
    tilefoundry.jit.cache_clear()
    with monkeypatch.context() as without:
        without.setenv("PATH", str(tmp_path))
        with pytest.raises(Exception, match=r"g\+\+") as error:
            tilefoundry.jit(model, target="cpu")
        assert "install" in message_of(error)
    assert tilefoundry.jit(model, target="cpu").name == "encode"


def test_cuda_without_a_gpu_names_the_way_to_compile_anyway(model):
    if torch.cuda.is_available():
        pytest.skip("this machine has a GPU")
    with pytest.raises(Exception, match=r"nvidia\.h200_sxm") as error:
        tilefoundry.jit(model)
    assert 'target="cpu"' in message_of(error)


def test_a_plain_python_function_is_refused():
    with pytest.raises(TypeError, match="@func"):
        tilefoundry.jit(lambda x: x, target="cpu")
