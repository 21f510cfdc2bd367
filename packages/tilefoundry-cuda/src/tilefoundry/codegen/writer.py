"""Lines of generated source, indented, with long ones folded."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

__all__ = ["Writer"]

_WIDTH = 112


class Writer:
    """Collects lines at a current depth. Not thread-safe."""

    def __init__(self) -> None:
        self._lines: list[str] = []
        self._depth = 0

    def line(self, text: str = "") -> None:
        """One line; folded after commas where it is too wide."""
        if not text:
            self._lines.append("")
            return
        indent = "  " * self._depth
        for i, piece in enumerate(_folded(text, _WIDTH - len(indent))):
            self._lines.append(indent + ("    " if i else "") + piece)

    def comment(self, text: str) -> None:
        """A line comment, folded between words."""
        indent = "  " * self._depth
        words, current = text.split(), "//"
        for word in words:
            if len(current) + len(word) + 1 > _WIDTH - len(indent):
                self._lines.append(indent + current)
                current = "//    "
            current += " " + word
        self._lines.append(indent + current)

    def directive(self, text: str) -> None:
        """A preprocessor line, at the left margin."""
        self._lines.append(text)

    @contextmanager
    def block(self, head: str, tail: str = "}") -> Iterator[None]:
        """``head``, then deeper lines, then ``tail``."""
        self.line(head)
        self._depth += 1
        yield
        self._depth -= 1
        self.line(tail)

    def text(self) -> str:
        """Everything, newline-terminated."""
        return "\n".join(self._lines) + "\n"


def _folded(text: str, width: int) -> list[str]:
    """Pieces of at most ``width`` where spaces outside of string literals allow it; after commas if possible."""
    pieces: list[str] = []
    while len(text) > width:
        spaces = [i for i in range(1, width) if text[i] == " " and text[:i].count('"') % 2 == 0]
        commas = [i for i in spaces if text[i - 1] == ","]
        if not spaces:
            break
        at = (commas or spaces)[-1]
        pieces.append(text[:at])
        text = text[at + 1 :]
        width -= 4 if len(pieces) == 1 else 0
    return [*pieces, text]
