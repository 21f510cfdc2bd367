"""Reading the runtime's headers as text: their functions with annotations and comments, and their static_asserts.

Enough of C++ for these headers: scopes are followed, bodies are skipped, preprocessor lines are left out.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

ANNOTATIONS = ("__device__", "__host__", "CUTE_HOST_DEVICE", "CUTE_DEVICE", "CUTE_HOST")
_TOKEN = re.compile(r'"(?:\\.|[^"\\])*"|\'(?:\\.|[^\'\\])*\'|[A-Za-z_]\w*|\d[\w.\']*|::|->|\S')
_CLOSING = {"(": ")", "{": "}", "[": "]"}
_TYPES = ("struct", "class", "union", "enum")
_NO_FUNCTION = ("using", "static_assert", "typedef", "friend")
_TAKES_PARENTHESES = ("decltype", "alignas", "noexcept", "sizeof")


@dataclass(frozen=True, slots=True)
class Token:
    """A word or sign and where it starts in the text."""

    text: str
    at: int


@dataclass(frozen=True, slots=True)
class Function:
    """A function's head: name, enclosing scopes, its annotations with their offsets, its `///` comment."""

    name: str
    scope: tuple[str, ...]
    line: int
    annotations: tuple[Token, ...]
    comment: str


def _blank(match: re.Match[str]) -> str:
    return re.sub(r"[^\n]", " ", match[0])


def without_preprocessor(text: str) -> str:
    """The text with comments and preprocessor lines as blanks, so that offsets stay."""
    text = re.sub(r"//[^\n]*|/\*.*?\*/", _blank, text, flags=re.DOTALL)
    return re.sub(r"^[ \t]*#(?:[^\n]*\\\n)*[^\n]*", _blank, text, flags=re.MULTILINE)


def tokens(text: str) -> list[Token]:
    """Every word and sign outside comments and preprocessor lines."""
    return [Token(m[0], m.start()) for m in _TOKEN.finditer(without_preprocessor(text))]


def macro_bodies(text: str) -> Iterator[list[Token]]:
    """The words of every macro that declares a type."""
    for m in re.finditer(r"^#define \w+\([^)]*\)((?:[^\n]*\\\n)*[^\n]*)", text, re.MULTILINE):
        body = m[1].replace("\\\n", " \n").replace("##", "  ")
        words = [Token(w[0], m.start(1) + w.start()) for w in _TOKEN.finditer(body)]
        if any(w.text == "struct" for w in words):
            yield words


def past_group(words: list[Token], i: int) -> int:
    """Index behind the bracket that closes the one at `i`."""
    closing = [_CLOSING[words[i].text]]
    while closing:
        i += 1
        word = words[i].text
        if word in _CLOSING:
            closing.append(_CLOSING[word])
        elif word == closing[-1]:
            closing.pop()
    return i + 1


def past_angles(words: list[Token], i: int) -> int:
    """Index behind the `>` that closes the `<` at `i`; parentheses inside are skipped whole."""
    depth = 0
    while True:
        word = words[i].text
        if word == "(":
            i = past_group(words, i)
            continue
        depth += {"<": 1, ">": -1}.get(word, 0)
        i += 1
        if depth == 0:
            return i


class Reader:
    """Walks one header's scopes and collects the heads of its functions."""

    def __init__(self, text: str, words: list[Token]) -> None:
        self.text = text
        self.lines = text.splitlines()
        self.words = words
        self.found: list[Function] = []

    def read(self) -> list[Function]:
        self.scope(0, len(self.words), ())
        return self.found

    def scope(self, i: int, end: int, names: tuple[str, ...]) -> None:
        while i < end:
            i = self.statement(i, names)

    def statement(self, i: int, names: tuple[str, ...]) -> int:
        """One declaration from `i` on; the index behind it."""
        start, words = i, self.words
        if words[i].text in (";", "}"):
            return i + 1
        if words[i].text in ("public", "private", "protected") and words[i + 1].text == ":":
            return i + 2
        if words[i].text.startswith("TILEFOUNDRY_"):  # a macro that stands for declarations
            return past_group(words, i + 1)
        while words[i].text == "template":
            i = past_angles(words, i + 1)
        if words[i].text == "namespace" or words[i].text in _TYPES:
            return self.named_scope(i, names)
        return self.declaration(start, i, names)

    def named_scope(self, i: int, names: tuple[str, ...]) -> int:
        words, first = self.words, i
        name = ""
        while words[i].text not in ("{", ";"):
            if words[i].text == "(":
                i = past_group(words, i)
                continue
            if (
                not name
                and i > first
                and re.match(r"[A-Za-z_]", words[i].text)
                and words[i].text != "alignas"
            ):
                name = words[i].text
            i += 1
        if words[i].text == ";":
            return i + 1
        end = past_group(words, i)
        if words[first].text != "enum":
            self.scope(i + 1, end - 1, (*names, name))
        return end

    def declaration(self, start: int, i: int, names: tuple[str, ...]) -> int:
        """A function, a variable or an alias."""
        words, first, name = self.words, i, None
        while words[i].text not in ("{", ";"):
            word = words[i].text
            if word == "=" and name is None and words[i - 1].text != "operator":
                return self.past_semicolon(i)
            if word == "(" and name is None and words[first].text not in _NO_FUNCTION:
                before = words[i - 1].text
                if before == "operator":  # operator()(...)
                    i, before = i + 2, "operator()"
                if before not in _TAKES_PARENTHESES:
                    name = before
            if word in _CLOSING:
                i = past_group(words, i)
                if name is not None and words[i].text == ":":
                    i = self.past_initialisers(i)
                continue
            i += 1
        guide = name is not None and words[first].text == name and words[i].text == ";"
        if name is not None and not guide:
            self.add(name, start, first, i, names)
        return past_group(words, i) if words[i].text == "{" and name is not None else self.past_semicolon(i)

    def past_initialisers(self, i: int) -> int:
        """Behind a constructor's member initialisers: at its body."""
        while True:
            while self.words[i].text not in ("(", "{"):
                i += 1
            i = past_group(self.words, i)
            if self.words[i].text != ",":
                return i

    def past_semicolon(self, i: int) -> int:
        while self.words[i].text != ";":
            i = past_group(self.words, i) if self.words[i].text in _CLOSING else i + 1
        return i + 1

    def add(self, name: str, start: int, first: int, end: int, names: tuple[str, ...]) -> None:
        annotations = tuple(w for w in self.words[first:end] if w.text in ANNOTATIONS)
        line = self.text.count("\n", 0, self.words[start].at)
        above = line
        while above > 0 and self.lines[above - 1].lstrip().startswith("///"):
            above -= 1
        comment = " ".join(text.strip().removeprefix("///").strip() for text in self.lines[above:line])
        self.found.append(Function(name, names, line + 1, annotations, comment))


def functions(text: str) -> list[Function]:
    """Every function that a header declares, outside of other functions' bodies, those in macros included."""
    parts = [tokens(text), *macro_bodies(text)]
    return [function for words in parts for function in Reader(text, words).read()]


def static_asserts(text: str) -> Iterator[tuple[int, str]]:
    """(line, message) of every static_assert; the message is empty where there is none."""
    words = tokens(text)
    for i, word in enumerate(words):
        if word.text != "static_assert":
            continue
        inside = words[i + 2 : past_group(words, i + 1) - 1]
        message = ""
        while inside and inside[-1].text.startswith('"'):
            message = inside.pop().text[1:-1] + message
        yield text.count("\n", 0, word.at) + 1, message
