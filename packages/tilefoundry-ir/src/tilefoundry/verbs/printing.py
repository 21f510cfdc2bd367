"""Show a program between the passes that lower it."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence

from tilefoundry.inspection import as_script
from tilefoundry.ir.core.module import Module
from tilefoundry.ir.passes import Pass

__all__ = ["printing"]


def printing(
    passes: Sequence[Pass], wanted: bool | str | Collection[str]
) -> Callable[[Pass, Module], None] | None:
    """What writes the program's text to standard output after the ``wanted`` passes; None for none of them.

    Raises ValueError for a name that none of ``passes`` has.
    """
    if wanted is False:
        return None
    names = list(dict.fromkeys(_name(one) for one in passes))
    chosen = set(names) if wanted is True else {wanted} if isinstance(wanted, str) else set(wanted)
    unknown = sorted(chosen - set(names))
    if unknown:
        raise ValueError(
            f"print_after: no pass is called {', '.join(unknown)}; this target runs {', '.join(names)}"
        )

    def show(one: Pass, module: Module) -> None:
        if _name(one) in chosen:
            print(f"# after {_name(one)}\n{as_script(module)}")

    return show


def _name(one: Pass) -> str:
    """The pass's name; one that only says when another runs goes by that one's."""
    inner = getattr(one, "inner", None)
    return type(one).__name__ if inner is None else _name(inner)
