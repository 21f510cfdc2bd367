"""Mutated programs give a function or a DslError, never anything else."""

from __future__ import annotations

import importlib.util
import math
import random
import sys
import warnings
from pathlib import Path

import pytest

from tilefoundry.dsl.context import BodyContext
from tilefoundry.dsl.prim import scalars
from tilefoundry.ir.errors import DslError


def sibling(name: str):
    """A helper module beside this file: tests are imported without their folder on the path."""
    spec = importlib.util.spec_from_file_location(f"dsl_{name}", Path(__file__).with_name(f"{name}.py"))
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


SEEDS = sibling("fuzz_seeds").SEEDS
mutate = sibling("mutations").mutate
COUNT = 250


@pytest.mark.parametrize("seed", range(len(SEEDS)))
def test_seeds_are_programs(run, seed):
    run(SEEDS[seed], math=math)


@pytest.mark.spec("dsl.fuzz")
@pytest.mark.parametrize("seed", range(len(SEEDS)))
def test_mutants(run, seed, monkeypatch):
    typed: list[int] = []
    emit = BodyContext.emit
    resolve = scalars.resolve_operands
    monkeypatch.setattr(BodyContext, "emit", lambda self, *args: (typed.append(1), emit(self, *args))[1])
    monkeypatch.setattr(scalars, "resolve_operands", lambda values: (typed.append(1), resolve(values))[1])
    rng = random.Random(20260101 + seed)
    reached = accepted = 0
    for number in range(COUNT):
        source = mutate(SEEDS[seed], rng)
        typed.clear()
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                run(source, math=math)
            accepted += 1
        except DslError:
            pass
        except SyntaxError:  # no Python any more: the reader never saw it
            continue
        except Exception as error:
            pytest.fail(f"mutant {number}: {type(error).__name__}: {error}\n{source}")
        reached += bool(typed)
    assert reached >= 0.3 * COUNT
    assert 0 < accepted < COUNT
