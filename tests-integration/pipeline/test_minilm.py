"""MiniLM end to end on its published checkpoint. Oracle: transformers' BertModel, live."""

from __future__ import annotations

import pytest
import torch
from models.minilm.checkpoint import raw_resource
from models.minilm.model import MINILM, MiniLM
from models.minilm.reference import Reference, tokenize
from models.minilm.twin import MiniLMTwin

import tilefoundry
from tilefoundry.runtime import NanInf, RelL2, SafetensorsResource, check

SENTENCES = ["A cat sleeps.", "The kitten is taking a long nap on the couch by the window.", "GEMM"]
EXPECT = {"output": [RelL2(1e-5), NanInf()]}


@pytest.fixture(scope="module")
def prepared(tmp_path_factory):
    folder = tmp_path_factory.mktemp("minilm") / "prepared"
    MiniLM.prepare(raw_resource(), str(folder))
    return folder


@pytest.fixture(scope="module")
def loaded(prepared):
    return MiniLM.load(SafetensorsResource(str(prepared), device="cpu"))


@pytest.fixture(scope="module")
def reference():
    return Reference()


@pytest.fixture(scope="module")
def compiled():
    return tilefoundry.jit(MiniLM, target="cpu")


@pytest.fixture(scope="module")
def call(compiled, loaded):
    return compiled.bind(loaded)


def random_inputs(batch: int, length: int, seed: int = 0) -> tuple[torch.Tensor, torch.Tensor]:
    """Random ids, and masks that keep a random non-empty prefix of each row."""
    generator = torch.Generator().manual_seed(seed)
    ids = torch.randint(0, MINILM.vocabulary, (batch, length), generator=generator)
    kept = torch.randint(1, length + 1, (batch, 1), generator=generator)
    return ids, (torch.arange(length)[None, :] < kept).to(torch.int64)


def test_evaluator_equals_transformers_on_sentences(loaded, reference):
    report = check(loaded, reference, tokenize(SENTENCES), expect=EXPECT)
    assert report.passed, str(report)


@pytest.mark.parametrize(("batch", "length"), [(1, 1), (1, 7), (3, 1), (2, 33), (1, MINILM.positions)])
def test_evaluator_equals_transformers_on_random_ids(loaded, reference, batch, length):
    report = check(loaded, reference, random_inputs(batch, length), expect=EXPECT)
    assert report.passed, str(report)


def test_twin_equals_evaluator(prepared, loaded):
    twin = MiniLMTwin()
    twin.load(SafetensorsResource(str(prepared), device="cpu"))
    report = check(twin, loaded, tokenize(SENTENCES), expect=EXPECT)
    assert report.passed, str(report)


@pytest.mark.parametrize(
    ("batch", "length"), [(1, 1), (1, 2), (2, 1), (3, 17), (5, 64), (2, 129), (1, MINILM.positions)]
)
def test_compiled_equals_evaluator_without_recompiling(compiled, call, loaded, batch, length):
    before = tilefoundry.jit.cache_info()
    report = check(call, loaded, random_inputs(batch, length, seed=batch), expect=EXPECT)
    assert report.passed, str(report)
    assert tilefoundry.jit(MiniLM, target="cpu") is compiled
    assert tilefoundry.jit.cache_info() == before


def test_compiled_equals_transformers(call, reference):
    report = check(call, reference, tokenize(SENTENCES), expect=EXPECT)
    assert report.passed, str(report)


def test_compiled_result_is_unit_length(call):
    # Oracle: an L2-normalised vector has norm one.
    out = call(*tokenize(SENTENCES))
    assert out.shape == (len(SENTENCES), MINILM.hidden)
    torch.testing.assert_close(out.double().norm(dim=-1), torch.ones(len(SENTENCES), dtype=torch.float64))


REFUSED = {
    "dtype of ids": (lambda i, m: (i.to(torch.int32), m), r"(?s)encode.*ids.*i32.*i64|encode.*ids.*i64.*i32"),
    "rank of mask": (lambda i, m: (i, m[0]), r"(?s)encode.*mask.*rank"),
    "two values of one DimVar": (lambda i, m: (i, m[:, :-1].contiguous()), r"(?s)encode.*mask.*S"),
    "length beyond the range": (
        lambda i, m: (i.repeat(1, 600), m.repeat(1, 600)),
        r"(?s)encode.*ids.*S.*513",
    ),
    "a transposed view": (lambda i, m: (i.t().contiguous().t(), m), r"(?s)encode.*ids.*contiguous"),
}


@pytest.mark.parametrize("what", REFUSED)
def test_compiled_refuses_by_name(call, what):
    change, pattern = REFUSED[what]
    with pytest.raises((TypeError, ValueError, RuntimeError), match=pattern):
        call(*change(*random_inputs(2, 3)))


def test_compiled_refuses_a_wrong_static_extent(compiled, loaded):
    # The ABI lists the constants by dotted path; one of them with a wrong extent is refused by that name.
    inputs = compiled.type.input_params
    values = {p.name: t for p, t in zip(inputs[:2], random_inputs(2, 3), strict=True)}
    paths = dict(compiled.type.constants)
    full = []
    for i, param in enumerate(inputs):
        if i in paths:
            node = loaded
            *children, leaf = paths[i].split(".")
            for child in children:
                node = getattr(node, child)
            full.append(node.constants[leaf])
        else:
            full.append(values[param.name])
    assert compiled(*full).shape == (2, MINILM.hidden)
    slot = next(i for i, path in paths.items() if path == "layer3.b_up")
    full[slot] = full[slot][:-1].clone()
    with pytest.raises((TypeError, ValueError, RuntimeError), match=r"(?s)layer3.*b_up.*1536"):
        compiled(*full)
