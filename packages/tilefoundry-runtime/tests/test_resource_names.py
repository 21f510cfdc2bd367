"""How names resolve, on both resources alike. Oracle: the raw tensors themselves."""

import dataclasses

import pytest
import torch
from checkpoints import write_single

from tilefoundry.runtime import Absolute, DictResource, Preprocessed, RuntimeResource, SafetensorsResource

RAW = {
    "top": torch.tensor([0.5]),
    "model.layers.0.kv_norm.weight": torch.tensor([1.0]),
    "model.layers.1.kv_norm.weight": torch.tensor([2.0]),
    "model.layers.1.special.weight": torch.tensor([3.0]),
    "model.layers.0.input_norm.weight": torch.tensor([4.0]),
    **{f"model.layers.0.experts.{i}.w": torch.full((2,), float(i)) for i in range(12)},
    "model.layers.0.fused": torch.arange(12.0).reshape(4, 3),
    "model.layers.0.half": torch.tensor([1.5], dtype=torch.bfloat16),
}


@pytest.fixture(params=["dict", "safetensors"])
def make(request, tmp_path):
    """A resource over RAW with the given alias table."""
    if request.param == "dict":
        return lambda alias=None, prefix="": DictResource(RAW, prefix, alias)
    write_single(tmp_path, RAW)
    return lambda alias=None, prefix="": SafetensorsResource(str(tmp_path), prefix, "cpu", alias)


@pytest.mark.spec("resource.protocol")
def test_both_are_runtime_resources(make):
    assert isinstance(make(), RuntimeResource)


@pytest.mark.spec("resource.load")
def test_load_gives_the_tensor_or_a_key_error(make):
    assert torch.equal(make().load("top"), RAW["top"])
    with pytest.raises(KeyError, match=r"'topp' is not in .*nearest names are top"):
        make().load("topp")


@pytest.mark.spec("resource.lookup-order")
def test_a_qualified_alias_wins_over_a_bare_one_over_identity(make):
    alias = {
        "layer0": "model.layers.0",
        "layer1": "model.layers.1",
        "gamma": "kv_norm.weight",
        "model.layers.1.gamma": "special.weight",
    }
    resource = make(alias)
    assert resource.subtree("layer0").load("gamma").item() == 1.0
    assert resource.subtree("layer1").load("gamma").item() == 3.0
    assert resource.subtree("layer1").load("kv_norm.weight").item() == 2.0


@pytest.mark.spec("resource.bare-alias-everywhere")
def test_a_bare_alias_serves_every_instance(make):
    alias = {"layer0": "model.layers.0", "layer1": "model.layers.1", "gamma": "kv_norm.weight"}
    values = [make(alias).subtree(f"layer{i}").load("gamma").item() for i in range(2)]
    assert values == [1.0, 2.0]


@pytest.mark.spec("resource.subtree")
def test_subtrees_join_prefixes(make):
    resource = make().subtree("model").subtree("layers").subtree("0")
    assert resource.prefix == "model.layers.0."
    assert resource.load("kv_norm.weight").item() == 1.0
    assert make(prefix="model.layers.1.").load("kv_norm.weight").item() == 2.0


@pytest.mark.spec("resource.load-refuses-group")
@pytest.mark.spec("resource.load-group")
def test_groups(make):
    # Twelve members, so that order by text would put 10 before 2.
    names = tuple(f"experts.{i}.w" for i in range(12))
    resource = make({"layer0": "model.layers.0", "w_experts": names}).subtree("layer0")
    group = resource.load_group("w_experts")
    assert isinstance(group, tuple)
    assert torch.equal(torch.stack(group), torch.arange(12.0)[:, None].expand(12, 2))
    with pytest.raises(TypeError, match=r"group of 12 tensors; read it with load_group\('w_experts'\)"):
        resource.load("w_experts")
    assert resource.load_group("kv_norm.weight") is None
    assert resource.load_group("not there at all") is None


@pytest.mark.spec("resource.absolute-whole-key")
def test_absolute_takes_no_prefix(make):
    resource = make(
        {
            "layer0": "model.layers.0",
            "gamma": Absolute("model.layers.0.input_norm.weight"),
            "t": Absolute("top"),
        }
    )
    assert resource.subtree("layer0").load("gamma").item() == 4.0
    assert resource.subtree("layer0").load("t").item() == 0.5
    assert resource.load("gamma").item() == 4.0


@pytest.mark.spec("resource.absolute-is-leaf")
def test_absolute_is_one_to_one_and_no_segment(make):
    resource = make({"gamma": Absolute("top")})
    assert resource.load_group("gamma") is None
    with pytest.raises(TypeError, match="aliased to Absolute"):
        resource.subtree("gamma")


@pytest.mark.spec("resource.subtree-refuses")
@pytest.mark.parametrize("value", [("a", "b"), Preprocessed("top", lambda t: t), Absolute("top")])
def test_a_segment_is_one_relative_path(make, value):
    with pytest.raises(TypeError, match="a subtree's segment must stand for one relative path"):
        make({"seg": value}).subtree("seg")


@pytest.mark.spec("resource.preprocessed-read")
def test_preprocessed_rearranges_one_tensor(make):
    resource = make(
        {"w": Preprocessed("fused", lambda t: t.t()), "a": Preprocessed(Absolute("top"), lambda t: t[None])}
    )
    resource = resource.subtree("model").subtree("layers").subtree("0")
    raw = RAW["model.layers.0.fused"]
    out = resource.load("w")
    assert torch.equal(out, raw.t()) and out.is_contiguous()
    assert resource.load("a").tolist() == [[0.5]]
    assert resource.load_group("w") is None


def test_fused_rows_are_sliced_exactly(make):
    # Four query and two kv heads of two rows each, every row tagged by its role: 8 query, 4 key, 4 value rows.
    rows = torch.cat([torch.full((count, 3), float(tag)) for tag, count in ((1, 8), (2, 4), (3, 4))])
    resource = DictResource(
        {"qkv": rows},
        alias={
            "q": Preprocessed("qkv", lambda t: t[:8]),
            "k": Preprocessed("qkv", lambda t: t[8:12]),
            "v": Preprocessed("qkv", lambda t: t[12:]),
        },
    )
    for tag, (name, count) in enumerate((("q", 8), ("k", 4), ("v", 4)), start=1):
        out = resource.load(name)
        assert torch.equal(out, torch.full((count, 3), float(tag)))
        assert out.untyped_storage().nbytes() == out.numel() * 4
    assert [len(set(part[:, 0].tolist())) for part in rows.chunk(3)] != [1, 1, 1]


@pytest.mark.spec("resource.preprocessed-is-one-name")
def test_preprocessed_of_several_names_is_refused():
    with pytest.raises(TypeError, match="write a weight converter"):
        Preprocessed(("a", "b"), torch.stack)


@pytest.mark.spec("resource.preprocessed-frozen")
def test_preprocessed_is_a_frozen_dataclass():
    value = Preprocessed("a", torch.clone)
    assert dataclasses.is_dataclass(value) and [f.name for f in dataclasses.fields(value)] == ["name", "read"]
    with pytest.raises(dataclasses.FrozenInstanceError):
        value.name = "b"


@pytest.mark.spec("resource.keeps-element-type")
def test_reads_keep_the_stored_type(make):
    resource = (
        make({"h": Preprocessed("half", lambda t: t.float())}).subtree("model").subtree("layers").subtree("0")
    )
    assert resource.load("half").dtype is torch.bfloat16
    with pytest.raises(TypeError, match=r"turned torch.bfloat16 on cpu into torch.float32.*weight converter"):
        resource.load("h")


def test_a_read_that_gives_no_tensor(make):
    with pytest.raises(TypeError, match="must return a tensor, got list"):
        make({"w": Preprocessed("top", torch.Tensor.tolist)}).load("w")


@pytest.mark.spec("resource.never-stacks")
def test_a_group_stays_a_tuple_of_the_raw_tensors(make):
    group = make({"g": ("top", "model.layers.0.kv_norm.weight")}).load_group("g")
    assert [tuple(t.shape) for t in group] == [(1,), (1,)]


def test_every_read_is_fresh_memory(make):
    resource = make({"w": Preprocessed("top", lambda t: t)})
    one, two, raw = resource.load("top"), resource.load("w"), resource.load("top")
    one.fill_(9), two.fill_(8)
    assert raw.item() == 0.5 and resource.load("top").item() == 0.5 and RAW["top"].item() == 0.5


@pytest.mark.parametrize(
    ("alias", "kind", "message"),
    [
        ({"a": 3}, TypeError, "a value is a name"),
        ({"a": ["x", "y"]}, TypeError, "a value is a name"),
        ({"a": ()}, ValueError, "at least one tensor"),
        ({"a": ("x", 3)}, TypeError, "member of a group"),
        ({"a": ""}, ValueError, "must not be empty"),
        ({3: "a"}, TypeError, "is a string"),
        ([("a", "b")], TypeError, "maps canonical names"),
    ],
)
def test_alias_tables_are_checked_at_construction(make, alias, kind, message):
    with pytest.raises(kind, match=message):
        make(alias)


@pytest.mark.spec("resource.dict-is-flat")
def test_a_dict_resource_extends_the_prefix_and_carries_alias():
    resource = DictResource({"layer0.x.w": torch.ones(1)}, alias={"v": "w"})
    below = resource.subtree("layer0").subtree("x")
    assert (below.prefix, below.alias) == ("layer0.x.", resource.alias)
    assert below.load("v").item() == 1


def test_a_dict_of_parameters_gives_plain_tensors():
    out = DictResource({"w": torch.nn.Parameter(torch.ones(2))}).load("w")
    assert type(out) is torch.Tensor and not out.requires_grad
    with pytest.raises(TypeError, match=r"must be a torch\.Tensor, got list"):
        DictResource({"w": [1, 2]}).load("w")
