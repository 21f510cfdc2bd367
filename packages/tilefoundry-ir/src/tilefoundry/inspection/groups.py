"""Runs of children that are one definition under several names."""

from __future__ import annotations

from tilefoundry.inspection.same import SameDefinition
from tilefoundry.ir.core.module import Module

__all__ = ["child_groups", "child_runs"]


def child_runs(module: Module) -> list[list[Module]]:
    """The children in order, those that follow each other and differ in their names alone together."""
    same = SameDefinition()
    runs: list[list[Module]] = []
    for child in module.modules:
        if runs and same.modules(runs[-1][0], child, names=False):
            runs[-1].append(child)
        else:
            runs.append([child])
    return runs


def child_groups(module: Module) -> list[tuple[Module, str]]:
    """Each run of children as its first and a label for the run."""
    return [
        (run[0], run[0].name if len(run) == 1 else f"{run[0].name} … {run[-1].name} ({len(run)} alike)")
        for run in child_runs(module)
    ]
