"""The text of a job file as a tree: JSON as people keep it (comments, trailing commas), or gcloud's YAML. Pure.

Owns reading and where each value stands. Refuses to own what the keys mean (vertex_job.py). The standard library's json
takes no trailing comma and says of a key that is given twice nothing.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, NoReturn, cast

import yaml

from infra.sentences import SentenceError


class JobTextError(SentenceError, ValueError):
    """The text is neither; the message names line and column."""


@dataclass(frozen=True)
class JobNode:
    """A value and where it stands. value: a scalar, a list of nodes, or a dict of nodes by key as written."""

    value: Any
    path: str = ""
    line: int = 1
    repeated: tuple[str, ...] = ()  # keys of a mapping that it has twice; the last one holds

    @property
    def is_mapping(self) -> bool:
        return isinstance(self.value, dict)

    @property
    def is_list(self) -> bool:
        return isinstance(self.value, list)

    @property
    def entries(self) -> dict[str, JobNode]:
        return cast(dict[str, JobNode], self.value) if self.is_mapping else {}

    @property
    def items(self) -> list[JobNode]:
        return cast(list[JobNode], self.value) if self.is_list else []

    @property
    def text(self) -> str:
        """A scalar as JSON has it, without quotes."""
        if self.is_mapping or self.is_list:
            return ""
        return self.value if isinstance(self.value, str) else json.dumps(self.value)

    def leaves(self) -> Iterator[JobNode]:
        """Every scalar, and every list or mapping without anything in it."""
        below = [*self.entries.values(), *self.items]
        if not below:
            yield self
        for node in below:
            yield from node.leaves()

    @property
    def paths(self) -> tuple[str, ...]:
        return tuple(leaf.path for leaf in self.leaves())


def read(text: str, name: str) -> JobNode:
    """The tree of a JSON or YAML text; name: of the file, for messages. Raises JobTextError."""
    text = text.removeprefix("\ufeff")
    reader = _Json(text, name)
    reader.skip()
    try:
        return reader.document() if text[reader.at : reader.at + 1] in ("{", "[") else _yaml(text, name)
    except RecursionError:
        raise JobTextError(f"{name} is nested too deep, so it is no job") from None


_SPACE = re.compile(r"(?:\s+|//[^\n]*|\#[^\n]*|/\*.*?\*/)+", re.DOTALL)
_STRING = re.compile(r'"(?:[^"\\]|\\.)*"', re.DOTALL)
_WORD = re.compile(r"[-+.\w]+")


@dataclass
class _Json:
    """A reader of one text; `at` is the next character."""

    text: str
    name: str
    at: int = 0

    def document(self) -> JobNode:
        node = self.node("")
        self.skip()
        if self.at < len(self.text):
            self.fail(f"nothing may follow, but there is {self.seen}")
        return node

    def skip(self) -> None:
        if space := _SPACE.match(self.text, self.at):
            self.at = space.end()

    @property
    def line(self) -> int:
        return self.text.count("\n", 0, self.at) + 1

    @property
    def seen(self) -> str:
        rest = self.text[self.at : self.at + 20].partition("\n")[0]
        return repr(rest) if rest else "the end of the file"

    def fail(self, what: str) -> NoReturn:
        column = self.at - self.text.rfind("\n", 0, self.at)
        raise JobTextError(f"{self.name} is not JSON at line {self.line}, column {column}: {what}")

    def node(self, path: str) -> JobNode:
        self.skip()
        line = self.line
        first = self.text[self.at : self.at + 1]
        if first == "{":
            return self.mapping(path, line)
        if first == "[":
            return self.list(path, line)
        return JobNode(self.scalar(), path, line)

    def mapping(self, path: str, line: int) -> JobNode:
        found: dict[str, JobNode] = {}
        repeated: list[str] = []
        for _ in self.parts("}"):
            if self.text[self.at : self.at + 1] != '"':
                self.fail(f"write a key in double quotes, not {self.seen}")
            key = str(self.scalar())
            self.skip()
            if self.text[self.at : self.at + 1] != ":":
                self.fail(f"write `:` after key {key!r}, not {self.seen}")
            self.at += 1
            repeated += [key] if key in found else []
            found[key] = self.node(below(path, key))
        return JobNode(found, path, line, tuple(repeated))

    def list(self, path: str, line: int) -> JobNode:
        found: list[JobNode] = []
        for _ in self.parts("]"):
            found.append(self.node(f"{path}[{len(found)}]"))
        return JobNode(found, path, line)

    def parts(self, end: str) -> Iterator[None]:
        """Stops at each part of a list or mapping, with the comma before its end or without."""
        self.at += 1
        self.skip()
        while self.text[self.at : self.at + 1] != end:
            yield
            self.skip()
            following = self.text[self.at : self.at + 1]
            if following != end and following != ",":
                self.fail(f"write `,` or `{end}`, not {self.seen}")
            self.at += following == ","
            self.skip()
        self.at += 1

    def scalar(self) -> Any:
        if self.text[self.at : self.at + 1] == '"':
            found = _STRING.match(self.text, self.at)
            if not found:
                self.fail("a text begins here and does not end")
        else:
            found = _WORD.match(self.text, self.at)
            if not found:
                self.fail(f"write a value, not {self.seen}")
        try:
            value = json.loads(found[0], strict=False)  # a line break in a text is taken
        except ValueError:
            self.fail(f"{found[0]!r} is no value of JSON; a text has double quotes")
        self.at = found.end()
        return value


def below(path: str, key: str) -> str:
    return f"{path}.{key}" if path else key


@dataclass(frozen=True)
class _Yaml:
    constructor: Any = field(default_factory=lambda: yaml.SafeLoader(""))

    def node(self, written: Any, path: str) -> JobNode:
        line = written.start_mark.line + 1
        if isinstance(written, yaml.MappingNode):
            found: dict[str, JobNode] = {}
            repeated: list[str] = []
            for key, value in cast(list[tuple[Any, Any]], written.value):
                name = str(key.value)
                repeated += [name] if name in found else []
                found[name] = self.node(value, below(path, name))
            return JobNode(found, path, line, tuple(repeated))
        if isinstance(written, yaml.SequenceNode):
            parts = cast(list[Any], written.value)
            return JobNode([self.node(part, f"{path}[{at}]") for at, part in enumerate(parts)], path, line)
        value = self.constructor.construct_object(written)
        return JobNode(value if isinstance(value, bool | int | float | None) else str(written.value), path, line)


def _yaml(text: str, name: str) -> JobNode:
    try:
        written: Any = yaml.compose(text, yaml.SafeLoader)
        if isinstance(written, yaml.MappingNode):
            return _Yaml().node(written, "")
    except (yaml.YAMLError, ValueError) as error:
        mark = getattr(error, "problem_mark", None)
        where = f" at line {mark.line + 1}, column {mark.column + 1}" if mark else ""
        problem = getattr(error, "problem", None) or str(error)
        raise JobTextError(f"{name} is neither JSON nor YAML{where}: {' '.join(problem.split())}") from None
    raise JobTextError(f"{name} has no job: write JSON that begins with {{, or YAML with `workerPoolSpecs:`")
