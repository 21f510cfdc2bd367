"""Damaged checkpoints and alias tables. Oracle: a documented error, or tensors equal to the safetensors library's.

``TILEFOUNDRY_FUZZ`` sets the number of inputs; continuous runs use 20000.
"""

import json
import os
import random
import shutil
from collections import Counter
from pathlib import Path

import pytest
import torch
from checkpoints import INDEX, SINGLE
from safetensors.torch import load_file, save

from tilefoundry.ir.errors import CheckpointError
from tilefoundry.runtime import Absolute, DictResource, Preprocessed, SafetensorsResource

COUNT = int(os.environ.get("TILEFOUNDRY_FUZZ", "3000"))
DOCUMENTED = (CheckpointError, FileNotFoundError, KeyError)

TENSORS = {
    "a": torch.arange(6, dtype=torch.float32),
    "b.c": torch.arange(4, dtype=torch.int64).reshape(2, 2),
    "b.d": torch.ones(3, dtype=torch.bfloat16),
    "scalar": torch.tensor(2.5),
    "empty": torch.empty(0, 3),
}
WHOLE = save(TENSORS)
LENGTH = int.from_bytes(WHOLE[:8], "little")
HEADER, DATA = json.loads(WHOLE[8 : 8 + LENGTH]), WHOLE[8 + LENGTH :]


def pack(header: object, data: bytes = DATA) -> bytes:
    text = (header if isinstance(header, str) else json.dumps(header)).encode("utf-8", "surrogatepass")
    return len(text).to_bytes(8, "little") + text + data


def odd(rng: random.Random) -> object:
    """A value that no field expects, or one that is nearly right."""
    values = [
        None,
        True,
        -1,
        0,
        1,
        2**31,
        2**63,
        2**70,
        0.5,
        1e400,
        "",
        "F32",
        "f32",
        "BF16",
        [],
        [0],
        [0, 4],
        [1, 2, 3],
    ]
    return rng.choice(
        [*values, {}, {"dtype": "F32"}, "../x", "\ud800", [None], [-1], [True], [2**62, 2**62], 24, [24, 48]]
    )


def damaged_header(rng: random.Random) -> bytes:
    header = json.loads(json.dumps(HEADER))
    for _ in range(rng.randint(1, 2)):
        name = rng.choice(list(header))
        match rng.randrange(7):
            case 0:
                header[name] = odd(rng)
            case 1:
                if isinstance(header[name], dict) and header[name]:
                    header[name][rng.choice(list(header[name]))] = odd(rng)
            case 2:
                if isinstance(header[name], dict) and header[name]:
                    header[name].pop(rng.choice(list(header[name])))
            case 3:
                header[rng.choice(["new", "__metadata__", "", "a.b"])] = header.pop(name)
            case 4:
                other = rng.choice(list(header))
                header[name], header[other] = header[other], header[name]
            case 5:
                row = header[name]
                if (
                    isinstance(row, dict)
                    and isinstance(row.get("data_offsets"), list)
                    and row["data_offsets"]
                ):
                    offsets = row["data_offsets"]
                    i = rng.randrange(len(offsets))
                    offsets[i] = (
                        offsets[i] + rng.choice([-8, -4, -1, 1, 4, 8]) if isinstance(offsets[i], int) else 0
                    )
            case 6:
                header["extra"] = {
                    "dtype": rng.choice(["U8", "F4", "C64"]),
                    "shape": [0],
                    "data_offsets": [0, 0],
                }
    return pack(header)


def damaged_bytes(rng: random.Random) -> bytes:
    data = bytearray(WHOLE)
    for _ in range(rng.randint(1, 3)):
        match rng.randrange(5):
            case 0:
                data[rng.randrange(len(data))] ^= 1 << rng.randrange(8)
            case 1:
                del data[rng.randrange(len(data)) :]
            case 2:
                data += bytes(rng.randrange(9))
            case 3:
                start = rng.randrange(8, 8 + LENGTH)
                data[start:start] = rng.choice([b"{", b"}", b'"', b",", b"\xff", b"[", b"0"])
            case 4:
                data[:8] = rng.choice([0, 1, LENGTH - 1, LENGTH + 1, 2**40, 2**63]).to_bytes(8, "little")
        if not data:
            break
    return bytes(data)


def index_text(rng: random.Random, shards: list[str]) -> str:
    weight_map: dict[object, object] = {key: rng.choice(shards) for key in TENSORS}
    for _ in range(rng.randint(0, 2)):
        key = rng.choice(list(weight_map))
        values = [
            odd(rng),
            "../" + shards[0],
            "missing.safetensors",
            shards[0].upper(),
            ".",
            "sub/../" + shards[0],
        ]
        weight_map[key] = rng.choice([*values, *shards])
        if rng.random() < 0.2:
            weight_map[rng.choice(["", "ghost", "a.b.c", "\u00e9"])] = rng.choice(shards)
    text = json.dumps({"weight_map": weight_map, "metadata": rng.choice([{}, None, 3])})
    if rng.random() < 0.1:
        at = rng.randrange(len(text))
        text = text[:at] + rng.choice(["", "{", '"', "]"]) + text[at + 1 :]
    if rng.random() < 0.05:
        text = text.replace('"a":', '"b.c":', 1)
    return text


def make_folder(rng: random.Random, folder: Path) -> None:
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    make = rng.choice([damaged_header, damaged_bytes, lambda _: WHOLE])
    if rng.random() < 0.5:
        (folder / SINGLE).write_bytes(make(rng))
        return
    shards = ["one.safetensors", "two.safetensors"]
    (folder / shards[0]).write_bytes(WHOLE)
    if rng.random() < 0.9:
        (folder / shards[1]).write_bytes(make(rng))
    (folder / INDEX).write_text(index_text(rng, shards), encoding="utf-8", errors="surrogatepass")


def read_all(folder: Path, many: bool) -> tuple[str, dict[str, torch.Tensor]]:
    """How far a read came, and what it gave."""
    stage = "open"
    try:
        resource = SafetensorsResource(str(folder), device="cpu")
        stage = "read"
        keys = resource.keys()
        return "done", resource.read_many(keys) if many else {key: resource.load(key) for key in keys}
    except DOCUMENTED as error:
        assert str(error)
        return stage, {}


def test_damaged_folders_give_documented_errors_or_the_right_tensors(tmp_path):
    folder, stages = tmp_path / "w", Counter()
    for seed in range(COUNT):
        rng = random.Random(seed)
        make_folder(rng, folder)
        stage, found = read_all(folder, many=seed % 2 == 0)
        stages[stage] += 1
        for key, tensor in found.items():
            source = folder / _shard(folder, key)
            want = load_file(str(source))[key]
            assert tensor.dtype is want.dtype and tensor.shape == want.shape, (seed, key)
            assert torch.equal(tensor.reshape(-1).view(torch.uint8), want.reshape(-1).view(torch.uint8)), (
                seed,
                key,
            )
    print(f"{COUNT} damaged folders: {dict(stages)}")
    # Past the first stage: the folder opened, and reading it was put to the test.
    assert stages["read"] + stages["done"] >= 0.3 * COUNT
    assert all(stages[stage] > 0 for stage in ("open", "read", "done"))


def _shard(folder: Path, key: str) -> str:
    if (folder / INDEX).exists():
        return json.loads((folder / INDEX).read_text(encoding="utf-8", errors="surrogatepass"))["weight_map"][
            key
        ]
    return SINGLE


RAW = {"a": torch.ones(1), "m.0.w": torch.zeros(2), "m.1.w": torch.ones(2), "t": torch.ones(3)}
NAMES = ["a", "w", "m", "0", "1", "t", "m.0", "m.0.w", "x", "layer", "m.layer"]


def random_alias(rng: random.Random) -> object:
    def name() -> object:
        return rng.choice([*NAMES, *NAMES, "", None, 3, "..", "a."])

    def value() -> object:
        kinds = [
            name,
            lambda: tuple(name() for _ in range(rng.randint(0, 3))),
            lambda: Absolute(rng.choice(NAMES)),
            lambda: Preprocessed(
                rng.choice(NAMES), rng.choice([torch.clone, lambda t: t[:1], lambda t: t.double(), id])
            ),
            lambda: rng.choice([None, 3, ["a"], {"a": 1}, b"a"]),
        ]
        return rng.choices(kinds, [6, 2, 2, 2, 1])[0]()

    return {rng.choice(NAMES): value() for _ in range(rng.randint(0, 4))}


def resolve(alias: dict, prefix: str, name: str) -> object:
    """The lookup rule, spelled out again: qualified, bare, identity."""
    return alias[prefix + name] if prefix + name in alias else alias.get(name, name)


def test_alias_tables_resolve_by_the_rule_or_are_refused():
    stages = Counter()
    for seed in range(COUNT):
        rng = random.Random(seed)
        alias = random_alias(rng)
        try:
            scope = DictResource(RAW, alias=alias)
        except (TypeError, ValueError):
            stages["table"] += 1
            continue
        stages["lookup"] += 1
        prefix = ""
        for _ in range(rng.randint(0, 2)):
            seg = rng.choice(NAMES)
            target = resolve(alias, prefix, seg)
            if not isinstance(target, str):
                with pytest.raises(TypeError, match="subtree's segment"):
                    scope.subtree(seg)
                break
            scope, prefix = scope.subtree(seg), f"{prefix}{target}."
        check_leaf(scope, alias, prefix, rng.choice(NAMES), stages)
    print(f"{COUNT} alias tables: {dict(stages)}")
    assert stages["lookup"] >= 0.3 * COUNT and stages["found"] > 0 and stages["absent"] > 0


def check_leaf(scope: DictResource, alias: dict, prefix: str, name: str, stages: Counter) -> None:
    value = resolve(alias, prefix, name)
    if isinstance(value, tuple):
        with pytest.raises(TypeError, match="load_group"):
            scope.load(name)
        keys = [prefix + part for part in value]
        if all(key in RAW for key in keys):
            assert [t.tolist() for t in scope.load_group(name)] == [RAW[key].tolist() for key in keys]
        else:
            with pytest.raises(KeyError):
                scope.load_group(name)
        return
    assert scope.load_group(name) is None
    inner = value.name if isinstance(value, Preprocessed) else value
    key = inner.name if isinstance(inner, Absolute) else prefix + inner
    if key not in RAW:
        stages["absent"] += 1
        with pytest.raises(KeyError):
            scope.load(name)
        return
    stages["found"] += 1
    want = value.read(RAW[key]) if isinstance(value, Preprocessed) else RAW[key]
    if not isinstance(want, torch.Tensor) or want.dtype is not RAW[key].dtype:
        with pytest.raises(TypeError, match=r"Preprocessed\.read"):
            scope.load(name)
    else:
        assert torch.equal(scope.load(name), want)
