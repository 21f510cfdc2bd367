"""What the headers of the CUDA surface promise in words: annotations, comments of public entries, sentences of
static_asserts. Oracle: the rules stated here, on the text of every header.

The first rule is shown to bite: each annotation is removed once, and the header must then be found at fault.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from .header_text import ANNOTATIONS, Function, functions, static_asserts, without_preprocessor

INCLUDE = Path(__file__).resolve().parents[4] / "cpp-runtime" / "include" / "tilefoundry" / "runtime"
CUDA = INCLUDE / "cuda"
HEADERS = sorted(path.relative_to(CUDA).as_posix() for path in CUDA.rglob("*.cuh"))

# Outside of ops/ only these hold device code; all other functions there help with tensors, views and layouts, which a
# host compiles as well (test_headers_alone.py has it do so).
DEVICE_ONLY = ("fault.cuh", "view.cuh")
# Below ops/ a reduction's plan is made of layouts at compile time, which a host does as well.
PLANS = ("ops/axes.cuh", "ops/reduce_plan.cuh")


def expected_annotation(header: str) -> str:
    """What each function of the header must be annotated with, and with nothing else."""
    on_the_device = header.startswith("ops/") or header in DEVICE_ONLY
    return "__device__" if on_the_device and header not in PLANS else "CUTE_HOST_DEVICE"


def misannotated(header: str, text: str) -> list[str]:
    """Functions whose annotation is missing or another one."""
    return [
        f"{header}:{f.line}: {f.name} has {[a.text for a in f.annotations]}"
        for f in functions(text)
        if [a.text for a in f.annotations] != [expected_annotation(header)]
    ]


@pytest.mark.spec("cpp.annotations")
@pytest.mark.parametrize("header", HEADERS)
def test_functions_are_annotated_for_where_they_run(header: str):
    assert misannotated(header, (CUDA / header).read_text()) == []


@pytest.mark.spec("cpp.annotations")
@pytest.mark.parametrize("header", HEADERS)
def test_a_removed_or_exchanged_annotation_is_found(header: str):
    text = (CUDA / header).read_text()
    for function in functions(text):
        (annotation,) = function.annotations
        before, after = text[: annotation.at], text[annotation.at + len(annotation.text) :]
        other = "CUTE_HOST_DEVICE" if annotation.text == "__device__" else "__device__"
        assert len(misannotated(header, before + after)) == 1, f"{function.name} without its annotation"
        assert len(misannotated(header, before + other + after)) == 1, f"{function.name} with {other}"


def test_no_annotation_is_overlooked():
    """Every annotation in the text belongs to a function that the reading found, or to a variable in device memory."""
    for header in HEADERS:
        text = (CUDA / header).read_text()
        found = sum(len(f.annotations) for f in functions(text))
        words = without_preprocessor(text).split()
        variables = text.count("\n__device__ map_places<")
        in_macros = sum(
            line.count(a) for line in text.splitlines() if line.endswith("\\") for a in ANNOTATIONS
        )
        written = sum(words.count(a) for a in ANNOTATIONS) + in_macros
        assert found + variables == written, header


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("template <int N = (2 > 1)> __device__ auto f(T (&x)[N], E e = {}) -> U<V<N>> { if (x) { } }", ["f"]),
        ("struct A { A() : a{}, b(1) {} bool operator()(int) const { return f(1); } int a; int b = g(2); };",
         ["A", "operator()"]),
        ("template <class T> struct alignas(sizeof(T) > 4 ? 8 : 4) P { T v[2]; }; using F = int(int);", []),
        ("inline constexpr int n = f(3); static_assert(g(), \"x\"); enum class E { a, b }; E(int) -> E<int>;", []),
        ("#define TAG(name) \\\n  struct name##_op { \\\n    int operator()(int x); \\\n  };\nTAG(a)\nint h();",
         ["h", "operator()"]),
        ("// int a(); \n/* int b(); */ decltype(auto) c() const noexcept { return \"int d();\"; }", ["c"]),
    ],
)  # fmt: skip
def test_reading_finds_functions(text: str, names: list[str]):
    """Oracle: written out by hand."""
    text = text.replace("TAG(", "TILEFOUNDRY_TAG(")
    assert [f.name for f in functions(text)] == names


# Entries that generated code calls: their comments answer all three questions. Everything else in the namespace is a
# part for hand-written kernels, whose comments say what it does and who calls.
OPS = {
    "argmax", "attention", "binary", "cast", "clamp", "conv2d", "copy", "copy_async", "copy_n", "fill",
    "grouped_matmul", "index_add", "index_copy", "insert_window", "matmul", "matmul_pair", "mma", "reduce", "rope",
    "select", "sync", "topk", "unary",
}  # fmt: skip
PARTS = {
    "advance", "attention_bytes", "attention_task", "attention_workspace_bytes", "barrier_init_fence", "bulk_load",
    "bulk_store", "bulk_store_wait", "cluster_arrive", "cluster_barrier", "cluster_blocks", "cluster_rank",
    "cluster_wait", "computed", "computed_heads", "computed_packs", "cp_async_commit", "cp_async_wait", "descriptor",
    "group_workspace_bytes",
    "ldmatrix_x4", "make_packed_epilogue", "make_tensor_maps", "matmul_bytes", "matmul_workspace_bytes",
    "meet_in_cluster", "prefetch_map",
    "proxy_fence", "reduce_workspace_bytes", "right_operands", "store_fence", "swizzled", "tma_load",
    "tma_load_multicast", "wgmma_commit", "wgmma_fence", "wgmma_fence_fragments", "wgmma_fence_sums", "wgmma_wait",
}  # fmt: skip
WHO = ("thread", "warp", "lane", "block", "instance")
WHERE = ("valid", "visible", "seen", "sees")


def entries() -> list[tuple[str, Function]]:
    """Free functions of `tilefoundry::ops` and `ops::atom`."""
    namespaces = (("tilefoundry", "ops"), ("tilefoundry", "ops", "atom"))
    read = [(header, f) for header in HEADERS for f in functions((CUDA / header).read_text())]
    return [(header, f) for header, f in read if f.scope in namespaces]


def test_every_entry_is_known():
    assert {f.name for _, f in entries()} == OPS | PARTS


@pytest.mark.spec("cpp.comments")
def test_comments_say_who_takes_part_where_the_result_is_valid_and_the_workspace():
    unsaid = []
    for header, f in entries():
        comment = f.comment.lower()
        questions = {"who takes part": WHO, "where the result is valid": WHERE, "workspace": ("workspace",)}
        if f.name in PARTS:
            questions = {"who calls": WHO}
        unsaid += [f"{header}:{f.line}: {f.name}: {q}" for q, words in questions.items()
                   if not any(w in comment for w in words)]  # fmt: skip
    assert unsaid == []


def test_public_helpers_have_comments():
    """Of namespace `tilefoundry` itself."""
    read = [(header, f) for header in HEADERS for f in functions((CUDA / header).read_text())]
    bare = [
        f"{header}:{f.line}: {f.name}" for header, f in read if f.scope == ("tilefoundry",) and not f.comment
    ]
    assert bare == []


@pytest.mark.spec("cpp.comments")
@pytest.mark.parametrize("folder", ["cuda", "cpu", "host"])
def test_static_asserts_carry_a_sentence(folder: str):
    """A subject, a colon and words that say what is wrong."""
    seen, bare = 0, []
    for path in sorted((INCLUDE / folder).rglob("*.*h")):
        for line, message in static_asserts(path.read_text()):
            seen += 1
            subject, _, sentence = message.partition(": ")
            if not subject or len(sentence.split()) < 4:
                bare.append(f"{path.relative_to(INCLUDE)}:{line}: {message!r}")
    assert bare == []
    assert seen > (0 if folder == "host" else 5)
