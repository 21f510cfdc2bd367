"""``python -m tiny_serving WEIGHTS LIBRARY``: generate by both, check both, print JSON."""

from __future__ import annotations

import importlib.util
import json
import re
import sys
from importlib.metadata import distributions

import torch

from tilefoundry.runtime import Equal, NanInf, RelL2, SafetensorsResource, check

from .model import TinyLM
from .server import by_library, by_twin


def main(weights: str, library: str) -> None:
    """Serve, compare, report."""
    reading = TinyLM.load(SafetensorsResource(weights, device="cpu"))
    servers = {"twin": by_twin(weights), "library": by_library(weights, library)}
    inputs = (torch.tensor([5]), torch.randn(7, 16, generator=torch.Generator().manual_seed(0)))
    expect = {"output[0]": [RelL2(1e-5), NanInf()], "output[1]": [RelL2(1e-5), NanInf()]}
    checks = {name: check(server.step, reading, inputs, expect=expect) for name, server in servers.items()}
    again = check(
        servers["library"].step, servers["library"].step, inputs, expect={path: [Equal()] for path in expect}
    )
    print(
        json.dumps(
            {
                "tokens": {name: server.generate([1, 2, 3], 8) for name, server in servers.items()},
                "passed": {name: report.passed for name, report in checks.items()},
                "deterministic": again.passed,
                "compiler": importlib.util.find_spec("tilefoundry.codegen") is not None,
                "installed": sorted(d.metadata["Name"].lower().replace("_", "-") for d in distributions()),
                "torch_needs": sorted(_closure("torch")),
            }
        )
    )


def _closure(root: str) -> set[str]:
    """Every installed distribution that ``root`` brings."""
    found: set[str] = set()
    left = [root]
    known = {d.metadata["Name"].lower().replace("_", "-"): d for d in distributions()}
    while left:
        name = left.pop().lower().replace("_", "-")
        if name in found or name not in known:
            continue
        found.add(name)
        for line in known[name].requires or ():
            left.append(re.match(r"[A-Za-z0-9._-]+", line)[0])
    return found


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2])
