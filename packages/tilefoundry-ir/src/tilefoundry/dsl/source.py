"""Python source behind a definition, and errors that point into it."""

from __future__ import annotations

import ast
import inspect
import linecache
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from types import CodeType
from typing import Any, TypeVar, Union

from tilefoundry.ir.errors import DslError

__all__ = ["Definition", "SourceFile", "briefly", "load_class", "load_source"]

Result = TypeVar("Result")
Definition = Union[ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef]


@dataclass(frozen=True, slots=True)
class SourceFile:
    """One file (or notebook cell, or REPL input) as text and tree.

    Attributes:
        filename: the name that Python gave the code.
        lines: source lines with their line ends.
        definitions: (name, first line, decorators included) -> function or class.
    """

    filename: str
    lines: tuple[str, ...]
    definitions: Mapping[tuple[str, int], Definition] = field(repr=False)

    def definition(self, code: CodeType) -> Definition:
        """The statement that ``code`` was compiled from; DslError where the text has changed since."""
        found = self.definitions.get((code.co_name, code.co_firstlineno))
        if found is None:
            raise DslError(
                f"{self.filename}:{code.co_firstlineno}: the source does not define {code.co_name} there; "
                "the file changed after it was imported, so import it again"
            )
        return found

    def error(self, node: Any, message: str) -> DslError:
        """An error that points at ``node`` (any AST node with a position)."""
        line = self.lines[node.lineno - 1] if node.lineno <= len(self.lines) else ""
        end_line = getattr(node, "end_lineno", None) or node.lineno
        end = _column(line, node.end_col_offset) if end_line == node.lineno else len(line.rstrip())
        start = _column(line, node.col_offset)
        return DslError(
            message, (self.filename, node.lineno, start + 1, line, node.lineno, max(end, start) + 1)
        )


def briefly(action: Callable[[], Result]) -> Result:
    """What ``action`` gives; a DslError of it is raised without the reader's own frames.

    What such an error points at is a line of the program.
    """
    try:
        return action()
    except DslError as error:
        raise error.with_traceback(None) from error.__cause__


_FILES: dict[str, SourceFile] = {}


def load_class(
    code: CodeType, module_globals: Mapping[str, Any], name: str, line: int
) -> tuple[SourceFile, ast.ClassDef]:
    """The source of the class called ``name`` that has a decorator on ``line`` of what ``code`` runs.

    Raises DslError where Python keeps no source for it, or the text has changed since.
    """
    source = load_source(code, module_globals)
    for node in source.definitions.values():
        if not isinstance(node, ast.ClassDef) or node.name != name or not node.decorator_list:
            continue
        if node.decorator_list[0].lineno <= line <= node.lineno:
            return source, node
    raise DslError(
        f"{code.co_filename}:{line}: the source of the class {name} is not there; keep @module directly above the "
        "class, in a file or a notebook cell that did not change since it ran"
    )


def load_source(code: CodeType, module_globals: Mapping[str, Any]) -> SourceFile:
    """The source file that ``code`` comes from; parsed once per content.

    Raises DslError where Python keeps no source for it, or the text is no Python any more.
    """
    return _load(code.co_filename, _lines(code, module_globals))


def _load(filename: str, lines: Sequence[str]) -> SourceFile:
    known = _FILES.get(filename)
    if known is not None and known.lines == tuple(lines):
        return known
    loaded = SourceFile(filename, tuple(lines), _definitions(filename, lines))
    _FILES[filename] = loaded
    return loaded


def _lines(code: CodeType, module_globals: Mapping[str, Any]) -> list[str]:
    linecache.checkcache(code.co_filename)
    lines = linecache.getlines(code.co_filename, dict(module_globals))
    if lines:
        return lines
    try:
        return inspect.findsource(code)[0]
    except (OSError, TypeError, IndexError):
        raise DslError(
            f"{code.co_filename}:{code.co_firstlineno}: Python keeps no source for {code.co_name}, and the DSL reads "
            "source text; put the definition into a file or a notebook cell"
        ) from None


def _definitions(filename: str, lines: Sequence[str]) -> dict[tuple[str, int], Definition]:
    try:
        tree = ast.parse("".join(lines), filename)
    except (SyntaxError, ValueError) as error:
        raise DslError(
            f"{filename}: the source of the running code is no Python any more ({error}); import it again"
        ) from None
    found: dict[tuple[str, int], Definition] = {}
    for node in _nested_definitions(tree):
        first = min([node.lineno, *(d.lineno for d in node.decorator_list)])
        found[(node.name, first)] = node
    return found


def _nested_definitions(node: ast.AST) -> Iterator[Definition]:
    """Every function and class below ``node``; lambdas aside, they stand in statement lists only."""
    for block in ("body", "orelse", "finalbody", "handlers", "cases"):
        inner = getattr(node, block, ())
        for stmt in inner if isinstance(inner, list) else ():
            if isinstance(stmt, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
                yield stmt
            yield from _nested_definitions(stmt)


def _column(line: str, offset: int) -> int:
    """Characters before byte ``offset`` of ``line``: the tree counts UTF-8 bytes."""
    return len(line.encode()[:offset].decode(errors="ignore"))
