"""Pictures. Oracles: XML that parses, boxes that do not overlap, and holders counted by enumeration."""

from __future__ import annotations

import xml.etree.ElementTree as ET
from itertools import combinations, pairwise
from pathlib import Path

import pytest
from programs import parsed, read_back

from tilefoundry.inspection import View, view
from tilefoundry.inspection.graph import Graph, function_graph
from tilefoundry.inspection.placing import Placed, place
from tilefoundry.inspection.summary import op_counts, table
from tilefoundry.ir import layout as algebra
from tilefoundry.ir.hir.function import Function
from tilefoundry.ir.types import DimVar
from tilefoundry.ir.types.shard import Layout, Mesh, P, layout_from_sugar

NS = "{http://www.w3.org/2000/svg}"


def functions(seeds: range) -> list[Function]:
    found: list[Function] = []
    for seed in seeds:
        program, node = parsed(seed)
        found += list(node.functions) if program.is_module else [node]
    return found


def test_every_statement_is_a_box_and_boxes_do_not_overlap() -> None:
    for function in functions(range(40)):
        graph = function_graph(function)
        _check_placed(place(graph))
        if function.body is not None:
            ops = sum(1 for node in _all_nodes(graph) if node.kind in ("op", "call"))
            counts = op_counts(function)
            assert ops == sum(n for name, n in counts.items() if not name.startswith("loop"))


def _all_nodes(graph: Graph) -> list:
    return [n for node in graph.nodes for n in (node, *(_all_nodes(node.inner) if node.inner else ()))]


def _check_placed(placed: Placed) -> None:
    for a, b in combinations(placed.boxes.values(), 2):
        apart = a.x + a.width <= b.x or b.x + b.width <= a.x or a.y + a.height <= b.y or b.y + b.height <= a.y
        assert apart, (a.node.title, b.node.title)
    for box in placed.boxes.values():
        assert 0 <= box.x <= box.x + box.width <= placed.width
        assert 0 <= box.y <= box.y + box.height <= placed.height
        for key in box.node.inputs:
            source = placed.boxes[key]
            assert source.y + source.height <= box.y  # data flows downwards
        if box.inner is not None:
            assert box.inner.width <= box.width
            assert box.inner.height <= box.height
            _check_placed(box.inner)


def test_pictures_are_well_formed_and_say_every_op() -> None:
    for function in functions(range(10)):
        (svg,) = view(function).svgs
        texts = [t.text for t in ET.fromstring(svg).iter(f"{NS}text")]
        for name in op_counts(function):
            assert name.startswith("loop") or name == "call" or any(str(t).startswith(name) for t in texts), (
                name
            )


def test_a_module_shows_its_tree_and_each_different_function_once(tmp_path: Path) -> None:
    source = """
from tilefoundry.dsl import *

@module(entry="run")
class Layer:
    @func
    def run(x: Tensor[(4,), "f32"]) -> Tensor[(4,), "f32"]:
        return x * 2.0

@module(entry="step")
class Net:
    layers = tuple(Layer.renamed(f"layer{i}") for i in range(3))

    @func
    def step(x: Tensor[(4,), "f32"]) -> Tensor[(4,), "f32"]:
        for layer in layers:
            x = layer(x)
        return x
"""
    shown = view(read_back(source)["Net"])
    assert len(shown.svgs) == 3
    assert "layer0 … layer2 (3 alike)" in shown.svgs[0]
    saved = shown.save(tmp_path / "net.html")
    assert saved.read_text().count("<svg") == 3
    with pytest.raises(ValueError, match=r"saved as \.html"):
        shown.save(tmp_path / "net.svg")
    ET.parse(view(read_back(source)["Net"].lookup("step")).save(tmp_path / "step.svg"))


@pytest.mark.spec("shard.picture")
def test_a_shard_layout_shows_who_holds_what() -> None:
    mesh = Mesh(("cta",), (2, 3), ("x", "y"))
    shard = layout_from_sugar((4, 6), (4 @ mesh.x, 6 @ mesh.y))
    root = ET.fromstring(shard._repr_svg_())
    cells = [t.text for t in root.iter(f"{NS}text")][1:]
    held = [text for text in cells if text and "," in text]
    assert len(held) == 24
    # Canonical axes are (2, 2, 3, 2): row-major element (i, j) of the tensor belongs to (i // 2, j // 2).
    assert held == [f"{i // 2},{j // 2}" for i in range(4) for j in range(6)]
    fills = [rect.get("fill") for rect in root.iter(f"{NS}rect")]
    owners: dict[str, set[str | None]] = {}
    for text, fill in zip(held, fills, strict=True):
        owners.setdefault(text, set()).add(fill)
    assert all(len(colours) == 1 for colours in owners.values())
    assert len({next(iter(colours)) for colours in owners.values()}) == 6


def test_texts_stay_inside_their_cells_and_the_picture() -> None:
    mesh = Mesh(("cta", "thread"), (2, 4, 32), ("x", "y", "t"))
    shard = layout_from_sugar((2, 1536), (2 @ mesh.x, 12 @ mesh.y, 128 @ mesh.t))
    narrow = layout_from_sugar((4, 8), ((4 @ mesh.y, 8), {mesh.t @ P("sum")}))
    for root in (ET.fromstring(one._repr_svg_()) for one in (shard, narrow, algebra.Layout((2,), (10**9,)))):
        title, *_ = root.iter(f"{NS}text")
        width = float(root.get("width", "0"))
        assert len(title.text or "") * 7.2 <= width  # monospace letters are 0.6 of the font's size wide
        children = list(root)
        for rect, text in pairwise(children):
            if rect.tag == f"{NS}rect":
                assert len(text.text or "") * 6 <= float(rect.get("width", "0"))
                assert float(rect.get("x", "0")) + float(rect.get("width", "0")) <= width


def test_an_arrow_passes_beside_a_loop() -> None:
    source = """
from tilefoundry.dsl import *

@func
def f(x: Tensor[(4, 4), "f32"], y: Tensor[(4, 4), "f32"]) -> tuple[Tensor[(4, 4), "f32"], Tensor[(4,), "f32"]]:
    total = tf.zeros(Tensor[(4,), "f32"])
    h = tf.matmul(x, y)
    for i in range(4):
        total = total + tf.sin(tf.cos(h[i]))
    return tf.softmax(h, axis=-1), total
"""
    placed = place(function_graph(read_back(source)["f"]))
    (svg,) = view(read_back(source)["f"]).svgs
    loop = next(box for box in placed.boxes.values() if box.node.kind == "loop")
    soft = next(box for box in placed.boxes.values() if box.node.title == "softmax")
    # From the middle of softmax straight down past the lower edge of the loop.
    x, y = soft.x + soft.width / 2, soft.y + soft.height + 24
    assert not loop.x <= x <= loop.x + loop.width
    assert f"M{x:g},{y:g} V{loop.y + loop.height + 24:g} C" in svg


def test_members_of_a_module_stand_below_its_name() -> None:
    _, node = next(p for p in map(parsed, range(40)) if p[0].is_module and p[1].modules)
    rows = [(float(t.get("y", "0")), t.text) for t in ET.fromstring(view(node).svgs[0]).iter(f"{NS}text")]
    assert all(below - above >= 11 for (above, _), (below, _) in pairwise(rows) if below > above)


def test_large_and_dynamic_shards() -> None:
    mesh = Mesh(("cta",), (2,), ("x",))
    big = layout_from_sugar((1024, 512), (1024 @ mesh.x, 512))
    assert "first 64 x 64 of" in big._repr_svg_()
    n = DimVar("N", 1, 9)
    with pytest.raises(ValueError, match="known at run time only"):
        layout_from_sugar((2, n), (2 @ mesh.x, n))._repr_svg_()


@pytest.mark.spec("facade.view")
def test_view_takes_layouts_and_names_what_it_does_not_take() -> None:
    assert view(Layout((4, 6))).svgs == (algebra.Layout((4, 6), (6, 1))._repr_svg_(),)
    assert isinstance(view(algebra.Layout((4, 6))), View)
    assert "<svg" in view(Layout((4,)))._repr_html_()
    with pytest.raises(ValueError, match="no element"):
        view(Layout((0,)))
    with pytest.raises(TypeError, match="view shows a Function, a Module"):
        view(3)


def test_tables_align_and_put_numbers_to_the_right() -> None:
    assert table(("op", "uses"), [("add", "12"), ("matmul", "3")]) == (
        "  op      uses\n  add       12\n  matmul     3"
    )
