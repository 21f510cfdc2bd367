"""``view``: a node as a picture for notebooks and browsers."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tilefoundry.inspection.digests import digest
from tilefoundry.inspection.drawing import function_svg, module_svg
from tilefoundry.ir import layout as algebra
from tilefoundry.ir.core.module import Module
from tilefoundry.ir.hir.function import Function
from tilefoundry.ir.types.shard import Layout, ShardLayout

__all__ = ["View", "view"]


@dataclass(frozen=True, slots=True)
class View:
    """A picture: a notebook shows it, ``save`` writes it.

    Attributes:
        title: what it shows.
        svgs: one SVG document per part.
    """

    title: str
    svgs: tuple[str, ...]

    def _repr_html_(self) -> str:
        return "\n".join(f'<div style="overflow-x:auto">{svg}</div>' for svg in self.svgs)

    def save(self, path: str | Path) -> Path:
        """Write the picture to ``path`` and return it.

        A name that ends in ``.svg`` takes a picture of one part; ``.html`` takes any.

        Raises ValueError for another ending, or ``.svg`` where there are several parts.
        """
        target = Path(path)
        if target.suffix == ".svg" and len(self.svgs) == 1:
            target.write_text(self.svgs[0], encoding="utf-8")
        elif target.suffix == ".html":
            target.write_text(
                f"<!doctype html><title>{self.title}</title>{self._repr_html_()}", encoding="utf-8"
            )
        else:
            raise ValueError(
                f"a view of {len(self.svgs)} parts is saved as .html, one part also as .svg; got {target}"
            )
        return target

    def __repr__(self) -> str:
        return f"View({self.title!r}, {len(self.svgs)} parts); save('name.html') writes it"


def view(node: Any) -> View:
    """``node`` as a picture.

    Args:
        node: a ``Function`` (its data flow), a ``Module`` (its tree, then every function of it and of its
            different children), a ``ShardLayout`` (which instance holds what), or a layout (its indices).

    Raises:
        TypeError: something else.
        ValueError: a layout whose extents are known at run time only.
    """
    for kind, draw in _DRAW:
        if isinstance(node, kind):
            return View(getattr(node, "name", str(node)), tuple(draw(node)))
    raise TypeError(
        f"view shows a Function, a Module, a ShardLayout or a Layout, got {type(node).__name__}: {node!r}"
    )


def _draw_module(module: Module) -> list[str]:
    seen: set[str] = set()
    svgs = [module_svg(module)]
    _draw_functions(module, svgs, seen)
    return svgs


def _draw_functions(module: Module, svgs: list[str], seen: set[str]) -> None:
    for function in module.functions:
        if isinstance(function, Function):
            key = digest(function)
            if key not in seen:
                seen.add(key)
                svgs.append(function_svg(function))
    for child in module.modules:
        _draw_functions(child, svgs, seen)


def _draw_layout(layout: Layout) -> list[str]:
    concrete = layout.concrete({})
    if not isinstance(concrete, algebra.Layout):
        raise ValueError(f"{layout} has no element; there is nothing to draw")
    return [concrete._repr_svg_()]


_DRAW: tuple[tuple[Any, Callable[[Any], list[str]]], ...] = (
    (Function, lambda node: [function_svg(node)]),
    (Module, _draw_module),
    (ShardLayout, lambda node: [node._repr_svg_()]),
    (Layout, _draw_layout),
    ((algebra.Layout, algebra.ComposedLayout), lambda node: [node._repr_svg_()]),
)
