"""Model files in the users' style parse, type, evaluate, prepare, load, print and read back. Oracle: torch formulas."""

from __future__ import annotations

from typing import Any

import pytest
import torch
import user_models
from memory_resource import MemoryResource
from programs import read_back

from tilefoundry.evaluator import evaluate
from tilefoundry.inspection import as_script
from tilefoundry.ir.core.module import Module
from tilefoundry.ir.types.shard import ShardLayout

FILES = {"Latent": user_models.LATENT, "Experts": user_models.EXPERTS, "Placed": user_models.PLACED}
FILES["Kernels"] = user_models.KERNELS


def model(name: str) -> Module:
    made = read_back(FILES[name])[name]
    assert isinstance(made, Module)
    return made


@pytest.mark.spec("models.users")
@pytest.mark.parametrize("name", FILES)
def test_a_model_file_prints_and_reads_back_equal(name: str) -> None:
    made = model(name)
    # Methods come back as other function objects with the same source.
    text = as_script(made, program_only=True)
    back = read_back(text)[name]
    assert as_script(back, program_only=True) == text
    assert [child.name for child in back.modules] == [child.name for child in made.modules]
    assert back.functions == made.functions, text
    assert read_back(as_script(made))[name].methods.keys() == made.methods.keys()


def prepared(made: Module, raw: dict[str, Any], tmp_path: Any) -> Any:
    """A reading of what prepare wrote."""
    from safetensors.torch import load_file

    made.prepare(MemoryResource(raw), str(tmp_path / "out"))
    (shard,) = (tmp_path / "out").glob("*.safetensors")
    return made.load(MemoryResource(load_file(str(shard))))


@pytest.mark.spec("models.users")
def test_latent_attention_decodes_as_the_whole_sequence_attends(tmp_path: Any) -> None:
    torch.manual_seed(1)
    made, raw = model("Latent"), {"table": torch.randn(20, 16)}
    shapes = {"gamma": (16,), "q_down": (6, 16), "w_q_b": (1, 6, 18), "kv_down": (8, 16), "k_down": (2, 16)}
    shapes |= {"w_kv_b": (1, 8, 27), "w_o": (1, 15, 16)}
    for i in range(2):
        raw |= {f"layer{i}.{name}": torch.randn(shape) * 0.3 for name, shape in shapes.items()}
    loaded = prepared(made, raw, tmp_path)
    ids = torch.tensor([3, 7, 7, 0, 19])
    angle = torch.arange(12.0)[:, None] * torch.tensor([1.0, 1.0])
    cos, sin, scale = angle.cos(), angle.sin(), torch.full((1, 1, 1, 1), 6**-0.5)
    wanted, held = _latent(raw, ids, cos, sin)
    caches = tuple((k[None, :1], v[None, :1]) for k, v in held)
    steps = []
    for at in range(1, 5):
        pos = torch.tensor([at], dtype=torch.int32)
        hidden, fresh = loaded(ids[at : at + 1], cos, sin, pos, scale, caches)
        caches = loaded.append_cache(caches, fresh)
        steps.append(hidden[0, 0])
    torch.testing.assert_close(torch.stack(steps), wanted[1:], rtol=1e-4, atol=1e-5)
    for (keys, values), (k, v) in zip(caches, held, strict=True):
        torch.testing.assert_close((keys[0], values[0]), (k, v), rtol=1e-4, atol=1e-5)


def _latent(raw: dict[str, Any], ids: Any, cos: Any, sin: Any) -> tuple[Any, list[tuple[Any, Any]]]:
    """Hidden states of all tokens at once, and each layer's keys and values."""
    held = []
    x = raw["table"][ids]
    turn = lambda t: (
        t * cos[: len(ids), None] + torch.cat([-t[..., 1:], t[..., :1]], -1) * sin[: len(ids), None]
    )
    hidden = torch.ones(len(ids), len(ids), dtype=torch.bool).triu(1)
    for i in range(2):
        w = {name.split(".")[1]: value for name, value in raw.items() if name.startswith(f"layer{i}.")}
        n = x * torch.rsqrt((x * x).mean(-1, keepdim=True) + 1e-5) * w["gamma"]
        q = (n @ w["q_down"].T @ w["w_q_b"][0]).view(-1, 3, 6)
        kv = (n @ w["kv_down"].T @ w["w_kv_b"][0]).view(-1, 3, 9)
        k_rope = turn((n @ w["k_down"].T)[:, None]).expand(-1, 3, 2)
        q, k = torch.cat([q[..., :4], turn(q[..., 4:])], -1), torch.cat([kv[..., :4], k_rope], -1)
        held.append((k, kv[..., 4:]))
        scores = torch.einsum("qhd,khd->hqk", q, k) * 6**-0.5
        weights = scores.masked_fill(hidden, -torch.inf).softmax(-1)
        x = x + (torch.einsum("hqk,khd->qhd", weights, kv[..., 4:]).reshape(-1, 15) @ w["w_o"][0]) * 0.5
    return x, held


@pytest.mark.spec("models.users")
@pytest.mark.parametrize("tokens", [1, 5])
def test_sparse_experts_equal_a_loop_over_tokens(tmp_path: Any, tokens: int) -> None:
    torch.manual_seed(2)
    gate, up, down = (torch.randn(4, *shape) for shape in ((6, 8), (8, 6), (6, 8)))
    router = torch.randn(4, 8)
    raw = {"gate_proj": tuple(gate), "w_up": tuple(up), "w_down": down, "router.w_router": router}
    loaded = prepared(model("Experts"), raw, tmp_path)
    x = torch.randn(tokens, 8)
    top, chosen = (x @ router.T).topk(2)
    share = top.softmax(-1)
    wanted = torch.zeros(tokens, 8)
    for t in range(tokens):
        for weight, e in zip(share[t], chosen[t].tolist(), strict=True):
            inner = torch.nn.functional.silu(x[t] @ gate[e].T) * (x[t] @ up[e])
            wanted[t] += weight * (inner @ down[e])
    torch.testing.assert_close(loaded(x), wanted, rtol=1e-4, atol=1e-5)


@pytest.mark.spec("models.users")
@pytest.mark.parametrize("rows", [1, 6, 128, 131])
def test_a_placed_file_evaluates_as_its_values(rows: int) -> None:
    made, x, s = model("Placed"), torch.randn(rows, 64), torch.randn(64)
    torch.testing.assert_close(evaluate(made.lookup("step"), x, s), x.softmax(-1) * s)
    if rows == 128:
        torch.testing.assert_close(evaluate(made.lookup("split_sum"), x[:8]), x[:8].sum(-1, keepdim=True))
    held = [s.target.type for s in made.lookup("split_sum").body.stmts[0].stmts]
    assert all(isinstance(type_.layout, ShardLayout) or type_.storage.value == "gmem" for type_ in held)


@pytest.mark.spec("models.users")
def test_a_file_of_kernels_says_what_each_launch_starts() -> None:
    made = model("Kernels")
    assert [launch.callee for launch in made.lookup("host").body] == ["multiply.multiply", "gated.gated"]
    assert made.lookup("host").output_count == 2
    with pytest.raises(
        TypeError, match=r"Kernels.host is a @prim_func, which the evaluator does not run; compile it"
    ):
        made.host(*[None] * 8)
