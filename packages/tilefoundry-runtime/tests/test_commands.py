"""``tilefoundry prepare`` and ``tilefoundry check``. Oracle: what the library calls give on the same files."""

import argparse
import json
from pathlib import Path

import pytest
import torch
from checkpoints import write_single
from safetensors.torch import save_file

from tilefoundry.cli import CommandError, UsageError, main
from tilefoundry.runtime import (
    AllClose,
    CompiledModule,
    EntryABI,
    Equal,
    ParamABI,
    RelL2,
    RuntimeModule,
    SafetensorsResource,
    entry_abi_of,
)
from tilefoundry.runtime.commands import check, prepare
from tilefoundry.runtime.commands.check import parse_expect
from tilefoundry.runtime.commands.files import load_alias, load_value

MODEL = """
import torch
from tilefoundry import func, module
from tilefoundry.dsl import ConstTensor, DimVar, Tensor, tf
from tilefoundry.runtime import RuntimeModule, runtime_func, runtime_module

N = DimVar("N", 1, 64)
ALIAS = {"weight": "lin.weight", "g": "norm"}
X = torch.arange(6.0).reshape(2, 3)

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

@runtime_module(Layer)
class Good:
    @runtime_func
    def layer(self, x, w, g):
        return (x @ w) * g

@runtime_module(Layer)
class Bad:
    @runtime_func
    def layer(self, x, w, g):
        return (x @ w) * g + 0.5

class ByHand(RuntimeModule):
    def __init__(self):
        super().__init__("by_hand")

def make():
    return (X,)
"""


@pytest.fixture
def work(tmp_path):
    (tmp_path / "model.py").write_text(MODEL)
    write_single(tmp_path / "raw", {"lin.weight": torch.randn(3, 3), "norm": torch.randn(3)})
    return tmp_path


def call(command, *argv):
    parser = argparse.ArgumentParser()
    command.configure(parser)
    return command.run(parser.parse_args([str(arg) for arg in argv]))


def prepared(work, *more):
    assert (
        call(
            prepare,
            f"{work}/model.py:Layer",
            work / "raw",
            work / "out",
            "--alias",
            f"{work}/model.py:ALIAS",
            *more,
        )
        == 0
    )
    return work / "out"


def test_prepare_writes_what_the_library_call_writes(work, capsys):
    out = prepared(work)
    assert capsys.readouterr().out == f"wrote {out}\n"
    module = load_value(f"{work}/model.py:Layer")
    raw = SafetensorsResource(str(work / "raw"), device="cpu", alias={"weight": "lin.weight", "g": "norm"})
    module.prepare(raw, str(work / "other"))
    names = sorted(p.name for p in out.iterdir())
    assert names == sorted(p.name for p in (work / "other").iterdir())
    assert all((out / name).read_bytes() == (work / "other" / name).read_bytes() for name in names)


def test_prepare_takes_aliases_from_json(work):
    (work / "a.json").write_text(
        json.dumps({"weight": "lin.weight", "g": {"absolute": "norm"}, "many": ["a", "b"]})
    )
    assert set(load_alias(f"{work}/a.json")) == {"weight", "g", "many"}
    assert (
        call(prepare, f"{work}/model.py:Layer", work / "raw", work / "out", "--alias", work / "a.json") == 0
    )


@pytest.mark.parametrize(
    "text", ["[1]", "{", '{"a": 3}', '{"a": ["b", 3]}', '{"a": {"absolute": 3}}', '{"a": {}}']
)
def test_alias_files_of_another_form(tmp_path, text):
    (tmp_path / "a.json").write_text(text)
    with pytest.raises(CommandError, match=r"a\.json"):
        load_alias(f"{tmp_path}/a.json")


@pytest.mark.parametrize("inputs", ["model.py:X", "model.py:make", "x.safetensors"])
def test_check_passes_and_fails_by_its_status(work, inputs, capsys):
    out = prepared(work)
    save_file({"x": torch.randn(4, 3)}, str(work / "x.safetensors"))
    common = (out, "--inputs", f"{work}/{inputs}", "--expect", "rel_l2(1e-5), nan_inf()")
    assert call(check, f"{work}/model.py:Good", *common) == 0
    assert "check passed" in capsys.readouterr().out
    assert call(check, f"{work}/model.py:Bad", *common, "--bisect") == 1
    text = capsys.readouterr().out
    assert "check FAILED" in text and "first difference: layer (output: rel_l2" in text
    assert call(check, f"{work}/model.py:Bad", *common, "--json") == 1
    assert json.loads(capsys.readouterr().out)["passed"] is False


def test_a_module_is_compiled_and_compared_with_its_reading(work, monkeypatch, capsys):
    def compiled(module, *, target):
        assert target == "cpu"
        own = entry_abi_of(module.entry_function())
        abi = EntryABI(own.name, (*own.params, ParamABI("y", own.params[0].type)), 1, own.constants)
        return CompiledModule(
            type=abi, fn=lambda x, w, g, y: y.copy_(x @ torch.from_dlpack(w) * torch.from_dlpack(g))
        )

    monkeypatch.setattr(check, "jit", compiled)
    common = (prepared(work), "--inputs", f"{work}/model.py:X", "--expect", "rel_l2(1e-5)", "--target", "cpu")
    assert call(check, f"{work}/model.py:Layer", *common) == 0
    assert "check passed" in capsys.readouterr().out
    monkeypatch.setattr(check, "jit", lambda *_, **__: RuntimeModule("other"))
    with pytest.raises(CommandError, match="the target cpu gave no compiled module"):
        call(check, f"{work}/model.py:Layer", *common)


def test_bounds_are_parsed():
    assert parse_expect(["rel_l2(1e-5)"]) == {"output": [RelL2(1e-5)]}
    assert parse_expect(["output[0]=allclose(1e-3, 2e-3), equal()", "output[1][0] = equal()"]) == {
        "output[0]": [AllClose(1e-3, 2e-3), Equal()],
        "output[1][0]": [Equal()],
    }


@pytest.mark.parametrize(
    "texts",
    [["nope(1)"], ["rel_l2"], ["rel_l2(a)"], ["rel_l2()"], ["rel_l2(-1)"], ["equal() equal()"], ["equal()", "equal()"],
     ["equal(__import__('os'))"]],
)  # fmt: skip
def test_bounds_of_another_form(texts):
    with pytest.raises(UsageError, match="--expect"):
        parse_expect(texts)


@pytest.mark.parametrize(("expect", "subject"), [("rel_l2(2e-2", "model.py:Mlp"), ("equal()", "model.py")])
def test_arguments_that_cannot_be_read_end_with_2(expect, subject, capsys):
    line = ["check", subject, "prepared", "--inputs", "in.safetensors", "--expect", expect]
    assert main(line) == 2
    err = capsys.readouterr().err
    assert err.startswith("tilefoundry check: ") and err.count("\n") == 1


def test_what_cannot_be_found_or_used(work):
    out = prepared(work)
    common = (out, "--inputs", f"{work}/model.py:X", "--expect", "equal()")
    for subject, message in (
        ("model.py:Nothing", "defines no Nothing"),
        ("absent.py:X", "there is no file"),
        ("model.py", "is no FILE.py:NAME"),
        ("model.py:X", "neither a Module nor a twin"),
        ("model.py:ByHand", "stands for no Module, so there is nothing to compare it with"),
    ):
        with pytest.raises(CommandError, match=message):
            call(check, f"{work}/{subject}", *common)
    with pytest.raises(CommandError, match="must be a tensor or a tuple of tensors, got dict"):
        arguments = (out, "--inputs", f"{work}/model.py:ALIAS", "--expect", "equal()")
        call(check, f"{work}/model.py:Good", *arguments)
    with pytest.raises(CommandError, match="is no Module"):
        call(prepare, f"{work}/model.py:Good", work / "raw", work / "new")
    save_file({"y": torch.ones(1)}, str(work / "y.safetensors"))
    with pytest.raises(CommandError, match="but not x"):
        call(check, f"{work}/model.py:Good", out, "--inputs", work / "y.safetensors", "--expect", "equal()")


def test_help_is_complete():
    for command in (prepare, check):
        parser = argparse.ArgumentParser()
        command.configure(parser)
        text = parser.format_help()
        assert command.help and "examples:" in text
        assert all(action.help for action in parser._actions)
    assert Path(prepare.__file__).name == "prepare.py"
