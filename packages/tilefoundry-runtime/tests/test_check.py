"""``check``: rules about inputs, results, bounds and reports. Oracle: values worked out by hand."""

import inspect
import json
import math

import pytest
import torch

from tilefoundry.runtime import (
    PREDICATES,
    AllClose,
    Cosine,
    Equal,
    MaxAbs,
    MaxRel,
    NanInf,
    OutputCheck,
    PredicateResult,
    RelL2,
    Report,
    Ulp,
    check,
)

X = torch.tensor([[1.0, -2.0], [3.0, 4.0]])
ONE = {"output": [MaxAbs(0)]}


def same(x):
    return x


@pytest.mark.spec("check.no-defaults")
def test_reference_and_expect_have_no_default():
    parameters = inspect.signature(check).parameters
    assert parameters["reference"].default is inspect.Parameter.empty
    assert parameters["expect"].default is inspect.Parameter.empty
    assert parameters["expect"].kind is inspect.Parameter.KEYWORD_ONLY


@pytest.mark.spec("check.runs-both")
def test_both_sides_run_once_on_the_inputs():
    seen = []
    report = check(
        lambda x: seen.append("c") or x + 1,
        lambda x: seen.append("r") or x,
        (X,),
        expect={"output": [MaxAbs(0.5)]},
    )
    assert seen == ["c", "r"]
    assert not report.passed and report.outputs[0].results[0].values == {"max_abs": 1.0}


@pytest.mark.spec("check.nested-inputs")
def test_inputs_may_be_nested_tuples():
    report = check(
        lambda x, p: x + p[0] + p[1][0], lambda x, p: x + p[0] + p[1][0], (X, (X, (X,))), expect=ONE
    )
    assert report.passed


@pytest.mark.spec("check.input-leaves-are-tensors")
@pytest.mark.parametrize("inputs", [(1.0,), (X, [X]), (X, (None,)), X, [X]])
def test_every_input_leaf_is_a_tensor(inputs):
    with pytest.raises(TypeError, match="tensor"):
        check(same, same, inputs, expect=ONE)


@pytest.mark.spec("check.nested-results")
def test_results_are_flattened_with_paths():
    def both(x):
        return x, (x, (x.long(), x))

    expect = {
        "output[0]": [RelL2(0)],
        "output[1][0]": [AllClose(0, 0)],
        "output[1][1][0]": [Equal()],
        "output[1][1][1]": [Ulp(0)],
    }
    report = check(both, both, (X,), expect=expect)
    assert report.passed and [o.path for o in report.outputs] == list(expect)


@pytest.mark.spec("check.same-form")
@pytest.mark.parametrize(
    ("candidate", "reference", "message"),
    [
        (lambda x: (x,), lambda x: x, "structure"),
        (lambda x: (x, x), lambda x: (x, (x,)), "structure"),
        (lambda x: (x, x), lambda x: (x,), "structure"),
        (
            lambda x: torch.zeros(3, 2),
            lambda x: torch.zeros(4, 3, 2),
            r"shape is \(3, 2\), .*\(4, 3, 2\)",
        ),
        (lambda x: x, lambda x: x.double(), "dtype is torch.float32"),
        (lambda x: x[0, 0], lambda x: x[0, 0].to(torch.int32), "dtype"),
        (lambda x: x.reshape(4), lambda x: x, "shape"),
    ],
)
def test_another_structure_shape_or_dtype_is_refused(candidate, reference, message):
    expect = {"output": [MaxAbs(9)], "output[0]": [MaxAbs(9)], "output[1]": [MaxAbs(9)]}
    with pytest.raises(ValueError, match=message):
        check(candidate, reference, (X,), expect=expect)


@pytest.mark.parametrize("result", [None, 1.0, [X], {"a": X}, (X, None)])
def test_a_result_leaf_that_is_no_tensor(result):
    with pytest.raises(TypeError, match="result at output"):
        check(lambda x: result, same, (X,), expect=ONE)


def test_complex_results_are_refused():
    with pytest.raises(TypeError, match="complex64"):
        check(lambda x: x.to(torch.complex64), lambda x: x.to(torch.complex64), (X,), expect=ONE)


@pytest.mark.spec("check.every-output-stated")
def test_an_output_without_predicates_is_refused():
    with pytest.raises(ValueError, match=r"states nothing for output\[1\]"):
        check(lambda x: (x, x), lambda x: (x, x), (X,), expect={"output[0]": [MaxAbs(0)]})
    with pytest.raises(ValueError, match="is empty"):
        check(same, same, (X,), expect={"output": []})
    with pytest.raises(TypeError, match="build it with its bound"):
        check(same, same, (X,), expect={"output": [MaxAbs]})
    with pytest.raises(TypeError, match="list of predicates"):
        check(same, same, (X,), expect={"output": MaxAbs(0)})
    with pytest.raises(TypeError, match="maps output paths"):
        check(same, same, (X,), expect=[MaxAbs(0)])


@pytest.mark.spec("check.unknown-path")
def test_a_path_that_was_not_produced_is_refused():
    with pytest.raises(ValueError, match=r"expect names output\[0\], but the outputs are output"):
        check(same, same, (X,), expect={"output": [MaxAbs(0)], "output[0]": [MaxAbs(0)]})


@pytest.mark.spec("check.nothing-is-an-error")
@pytest.mark.parametrize("nothing", [(), ((), ((),))])
def test_results_that_hold_no_tensor_are_an_error(nothing):
    with pytest.raises(ValueError, match="holds no tensor"):
        check(lambda: nothing, lambda: nothing, (), expect={})


@pytest.mark.spec("check.without-reference")
def test_without_a_reference_only_what_needs_none():
    report = check(same, None, (X,), expect={"output": [NanInf()]})
    assert report.passed and report.outputs[0].ref_norm is None and report.outputs[0].worst is None
    for name, kind in PREDICATES.items():
        if kind.needs_reference:
            predicate = kind(*[0 for _ in kind.bounds])
            with pytest.raises(ValueError, match=rf"{name} needs a reference; without one there is nan_inf"):
                check(same, None, (X,), expect={"output": [predicate]})


@pytest.mark.spec("check.discrete-only-on-integers")
@pytest.mark.parametrize("dtype", [torch.int32, torch.uint8, torch.bool])
def test_what_has_no_meaning_on_integers_is_refused(dtype):
    x = torch.ones(2).to(dtype)
    for kind in PREDICATES.values():
        predicate = kind(*[0 for _ in kind.bounds])
        if kind.discrete:
            assert check(same, same, (x,), expect={"output": [predicate]}).passed
        else:
            with pytest.raises(ValueError, match=rf"{kind.name}; compare exactly with Equal"):
                check(same, same, (x,), expect={"output": [predicate]})


@pytest.mark.spec("check.passed-is-its-parts")
def test_verdicts_are_the_conjunction_of_their_parts():
    good, bad = PredicateResult(Equal(), {}, True), PredicateResult(MaxAbs(0), {}, False)
    for results in ([good], [bad], [good, bad], [good, good], [bad, good]):
        output = OutputCheck("output", (1,), "float32", 1.0, tuple(results))
        assert output.passed == all(r.passed for r in results)
        for other in (output, OutputCheck("x", (), "f", None, (good,))):
            report = Report((other, output))
            assert report.passed == (other.passed and output.passed)
            assert report.to_dict()["passed"] == report.passed
            assert ("FAILED" in str(report)) == (not report.passed)


@pytest.mark.spec("check.anything-callable")
def test_sides_may_be_anything_callable():
    class Callable:
        def __call__(self, x):
            return x.exp()

        def method(self, x):
            return x.exp()

    for side in (torch.exp, Callable(), Callable().method, lambda x: x.exp()):
        assert check(side, torch.exp, (X,), expect=ONE).passed


def test_neither_side_sees_what_the_other_wrote():
    x = X.clone()
    report = check(lambda x: x.add_(1), lambda x: x + 1, (x,), expect=ONE)
    assert report.passed and torch.equal(x, X)
    buffer = torch.zeros(2, 2)

    def reused(x):
        return buffer.copy_(x)

    assert not check(reused, lambda x: reused(x + 1), (X,), expect=ONE).passed


def test_non_contiguous_inputs_keep_their_strides():
    strides = []
    check(lambda x: strides.append(x.stride()) or x, same, (X.t(),), expect=ONE)
    assert strides == [(1, 2)]


# What the report says.


def test_the_report_names_the_place_of_the_largest_difference():
    def off(x):
        y = x.clone()
        y[1, 0] += 0.25
        y[0, 1] -= 0.125
        return y

    report = check(off, same, (X,), expect={"output": [RelL2(1e-6), NanInf()]})
    worst = report.outputs[0].worst
    assert (worst.index, worst.candidate, worst.reference) == ((1, 0), 3.25, 3.0)
    text = str(report)
    assert "output: largest difference at [1, 0]: candidate 3.25, reference 3.0" in text
    lines = text.splitlines()
    columns = [lines[1].index(name) for name in ("shape", "dtype", "predicate", "measured", "verdict")]
    for line in lines[3:5]:
        assert all(line[c - 2 : c] == "  " and line[c] != " " for c in columns)
    assert json.loads(json.dumps(report.to_dict()))["outputs"][0]["worst"]["index"] == [1, 0]
    html = report._repr_html_()
    assert html.count("<tr>") == 3 and "rel_l2(max=1e-06)" in html


def test_html_is_escaped():
    report = Report((OutputCheck("<output>", (), "f", None, (PredicateResult(Equal(), {}, False, "<b>"),)),))
    assert "<output>" not in report._repr_html_() and "&lt;b&gt;" in report._repr_html_()


def test_ref_norm_is_the_references_norm():
    report = check(same, lambda x: 2 * x, (X,), expect={"output": [MaxAbs(9)]})
    assert report.outputs[0].ref_norm == pytest.approx(2 * math.sqrt(1 + 4 + 9 + 16))


# Every mutant of a right result fails.


def _perturbed(y):
    y = y.clone()
    y.view(-1)[-1] += 0.01 if y.is_floating_point() else 1
    return y


def _poisoned(y):
    y = y.clone()
    y.view(-1)[0] = float("nan")
    return y


MUTANTS = {
    "one element": lambda a, b: (_perturbed(a), b),
    "one integer": lambda a, b: (a, _perturbed(b)),
    "sign": lambda a, b: (-a, b),
    "integer sign": lambda a, b: (a, -b),
    "nan": lambda a, b: (_poisoned(a), b),
    "infinity": lambda a, b: (a / torch.zeros(()), b),
    "order": lambda a, b: (b, a),
    "dtype": lambda a, b: (a.half(), b),
    "integer dtype": lambda a, b: (a, b.int()),
    "transposed": lambda a, b: (a.t(), b),
    "rolled": lambda a, b: (a, b.roll(1, 0)),
    "shape": lambda a, b: (a[None], b),
    "a list": lambda a, b: [a, b],
    "dropped": lambda a, b: (a,),
    "added": lambda a, b: (a, b, b),
    "zeros": lambda a, b: (torch.zeros_like(a), b),
}


BOUNDS = [AllClose(1e-6, 1e-6), RelL2(1e-5), Ulp(4), MaxAbs(1e-5), MaxRel(1e-4), Equal(), Cosine(1 - 1e-9)]


@pytest.mark.parametrize("name", MUTANTS)
@pytest.mark.parametrize(
    "predicate",
    [AllClose(1e-6, 1e-6), RelL2(1e-5), Ulp(4), MaxAbs(1e-5), MaxRel(1e-4), Equal(), Cosine(1 - 1e-9)],
)
def test_every_mutant_fails(name, predicate):
    a, b = torch.tensor([[1.0, -2.0], [3.0, 0.5]]), torch.tensor([[1, 2], [3, 4]])
    expect = {"output[0]": [predicate], "output[1]": [Equal()]}
    assert check(lambda: (a, b), lambda: (a.clone(), b.clone()), (), expect=expect).passed
    try:
        report = check(lambda: MUTANTS[name](a, b), lambda: (a, b), (), expect=expect)
    except (TypeError, ValueError):
        return
    assert not report.passed, str(report)
