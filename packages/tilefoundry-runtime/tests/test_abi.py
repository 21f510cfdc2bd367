"""ParamABI, EntryABI and the body of a function. Oracle: the declared types of the toy programs."""

import ast
from pathlib import Path

import pytest
import toy

from tilefoundry.dsl import DimVar
from tilefoundry.ir.core.expr import Var
from tilefoundry.ir.types import TensorType, TupleType
from tilefoundry.runtime import EntryABI, ParamABI, RuntimeFunction, entry_abi_of, param_abi_of

T = TensorType
X, Y, Z = (ParamABI(name, T((DimVar("N", 1, 64), 4), "f32")) for name in "xyz")


@pytest.mark.spec("abi.types-reused")
def test_param_abi_carries_the_ir_type():
    var = toy.Leaf.lookup("scale").params[0]
    abi = param_abi_of(var)
    assert (abi.name, abi.type) == ("x", var.type)
    assert abi.type.shape[0] is var.type.shape[0] and isinstance(abi.type.shape[0], DimVar)


@pytest.mark.spec("abi.types-reused")
def test_a_tuple_is_no_parameter():
    with pytest.raises(TypeError, match="an ABI passes tensors"):
        param_abi_of(Var(TupleType((T((), "f32"),)), "pair"))


@pytest.mark.spec("abi.counts")
@pytest.mark.parametrize("outputs", [0, 1, 2, 3])
def test_inputs_and_outputs_are_leading_and_trailing(outputs):
    abi = EntryABI("f", (X, Y, Z), outputs)
    assert abi.input_count == 3 - outputs
    assert abi.input_params == (X, Y, Z)[: 3 - outputs]
    assert abi.output_params == (X, Y, Z)[3 - outputs :]


@pytest.mark.spec("abi.entry-of-function")
def test_entry_abi_of_a_function():
    abi = entry_abi_of(toy.Leaf.lookup("scale"))
    assert abi.name == "scale"
    assert abi.params == tuple(param_abi_of(p) for p in toy.Leaf.lookup("scale").params)
    assert abi.output_count == 0
    assert abi.constants == ((1, "w"), (2, "b"))
    assert [p.name for p in abi.activation_params] == ["x"]


def test_an_entry_is_shown_a_line_a_parameter():
    w = ParamABI("w", T((4,), "bf16"))
    abi = EntryABI("step", (X, w, Y), 1, ((1, "layer0.w"),), ((0, 0),))
    assert str(abi).splitlines() == [
        "step, 1 <= N < 64",
        "  in   x: f32[N, 4]",
        "  in   w: bf16[4], weight layer0.w",
        "  out  y: f32[N, 4], may be x itself",
    ]
    assert repr(abi) == f"EntryABI<{abi}>"
    assert str(EntryABI("nothing", ())) == "nothing"


def test_entry_abi_of_something_else():
    with pytest.raises(TypeError, match="decorate it with @func"):
        entry_abi_of(lambda x: x)


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"output_count": 4}, "4 outputs among 3"),
        ({"output_count": -1}, "-1 outputs"),
        ({"output_count": 1, "constants": ((2, "w"),)}, "are no inputs"),
        ({"constants": ((0, "w"), (0, "v"))}, "are no inputs"),
        ({"output_count": 1, "inplace": ((1, 0),)}, r"no \(output, input\) pair"),
        ({"output_count": 1, "inplace": ((0, 2),)}, r"no \(output, input\) pair"),
    ],
)
def test_counts_and_indices_must_fit(fields, message):
    with pytest.raises(ValueError, match=message):
        EntryABI("f", (X, Y, Z), **fields)


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"name": None}, "are text, got None"),
        ({"name": 3}, "are text, got 3"),
        ({"output_count": 1.0}, r"is an integer, got 1\.0"),
        ({"output_count": True}, "is an integer, got True"),
        ({"constants": ((0.5, "w"),)}, r"is an integer, got 0\.5"),
        ({"constants": ((0, None),)}, "are text, got None"),
        ({"output_count": 1, "inplace": ((0, "0"),)}, "is an integer, got '0'"),
    ],
)
def test_names_are_text_and_counts_are_integers(fields, message):
    with pytest.raises(TypeError, match=message):
        EntryABI(**{"name": "f", "params": (X, Y, Z), **fields})
    with pytest.raises(TypeError, match=r"a parameter's name is text, got \['x'\]"):
        ParamABI(["x"], X.type)  # type: ignore[arg-type]  # the wrong kind is what is tested


def test_names_must_differ():
    with pytest.raises(ValueError, match="names repeat"):
        EntryABI("f", (X, X))


@pytest.mark.spec("function.base-has-no-body")
def test_the_base_body_raises_and_a_subclass_runs():
    abi = entry_abi_of(toy.Leaf.lookup("shift"))
    with pytest.raises(NotImplementedError, match=r"override __call__\(x, b\)"):
        RuntimeFunction(abi)(1, 2)

    class Shift(RuntimeFunction):
        def __call__(self, x, b):
            return x + b

    assert Shift(abi)(1, 2) == 3


def test_a_body_needs_an_abi():
    with pytest.raises(TypeError, match="entry_abi_of"):
        RuntimeFunction("scale")


@pytest.mark.spec("abi.one-derivation")
def test_a_parameters_abi_is_derived_in_one_place():
    # Every call of ParamABI's constructor in the sources of all wheels: the derivation, and reading a saved one.
    root = Path(__file__).resolve().parents[3] / "packages"
    texts = {path: path.read_text(encoding="utf-8") for path in root.glob("*/src/**/*.py")}
    calls = {
        path.relative_to(root).as_posix()
        for path, text in texts.items()
        if "ParamABI" in text
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.Call) and ast.unparse(node.func).split(".")[-1] == "ParamABI"
    }
    runtime = "tilefoundry-runtime/src/tilefoundry/runtime"
    assert calls == {f"{runtime}/abi.py", f"{runtime}/abi_text.py"}
