"""Each command that a message advises exists as it is spelled: program, verb and flags.

Messages are read from the sources, so a new one is looked at too. `gcloud` is looked at by `make test-gcloud` alone.
"""

from __future__ import annotations

import ast
import re
import subprocess
from collections.abc import Iterator
from functools import cache
from typing import Any

import pytest

from infra.commands.main import VERBS, command
from infra.paths import PULUMI, ROOT

# A command stands in backticks, or behind one of these words.
_COMMAND = re.compile(r"(?:`|(?:run|with|by|how|it|them|unset|first run): )((?:slipway|pulumi|make) [^`;,()\n]+)")
_DOCUMENTED = (ast.Module, ast.ClassDef, ast.FunctionDef)


def messages(tree: ast.AST) -> Iterator[str]:
    """Every text that is no docstring; what is filled in reads `X`."""
    apart = set[int]()
    for node in ast.walk(tree):
        if isinstance(node, _DOCUMENTED) and ast.get_docstring(node, clean=False) is not None:
            apart.add(id(node.body[0].value))  # pyright: ignore[reportAttributeAccessIssue]
        if isinstance(node, ast.JoinedStr):
            apart |= {id(part) for part in node.values}
            yield "".join(part.value if isinstance(part, ast.Constant) else "X" for part in node.values)  # pyright: ignore
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in apart:
            yield node.value


def advised() -> list[str]:
    sources = [path for folder in ("infra", "training") for path in sorted((ROOT / folder).rglob("*.py"))]
    found = dict[str, None]()
    for path in sources:
        for text in messages(ast.parse(path.read_text())):
            found |= dict.fromkeys(match[1].strip().rstrip(".:") for match in _COMMAND.finditer(text))
    return sorted(found)


ADVISED = advised()


def of(program: str) -> list[list[str]]:
    return [words.split()[1:] for words in ADVISED if words.startswith(f"{program} ")]


def flags(words: list[str]) -> set[str]:
    return {word.partition("=")[0] for word in words if word.startswith("-")}


def test_messages_advise_what_is_looked_at_here() -> None:
    assert {"slipway gc XX --delete", "make setup", "pulumi state delete --stack X --target-dependents 'X'"} <= set(
        ADVISED
    )


@pytest.mark.parametrize("words", of("slipway"), ids=" ".join)
def test_of_slipway(words: list[str]) -> None:
    assert words[0] in VERBS
    known: Any = command(words[0])
    if hasattr(known, "commands") and len(words) > 1:
        known = known.commands[words[1]]
    spelled = {flag for parameter in known.params for flag in parameter.opts}
    assert flags(words) <= spelled


@pytest.mark.parametrize("words", of("make"), ids=" ".join)
def test_of_make(words: list[str]) -> None:
    goal = [word.removesuffix("X") for word in words]
    done = subprocess.run(["make", "-n", *goal], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def verbs(words: list[str]) -> tuple[str, ...]:
    """What stands before flags and names; nothing that is installed by its name is one."""
    first = next((index for index, word in enumerate(words) if not re.fullmatch(r"[a-z]+", word)), len(words))
    return tuple(words[: min(first, 2)])


@cache
def help_of(verb: tuple[str, ...]) -> str:
    return subprocess.run([PULUMI, *verb, "--help"], cwd=ROOT, capture_output=True, text=True, check=True).stdout


@pytest.mark.parametrize("verb", sorted({verbs(words) for words in of("pulumi")}), ids=" ".join)
def test_of_pulumi(verb: tuple[str, ...]) -> None:
    assert help_of(verb) != help_of(verb[:-1]), "what the engine does not know has its parent's help"
    asked = {flag for words in of("pulumi") if verbs(words) == verb for flag in flags(words)}
    assert asked <= set(re.findall(r"(?:^|\s)(--?[a-z][-a-z]*)", help_of(verb)))


def test_a_verb_that_the_engine_does_not_have_is_found() -> None:
    assert help_of(("stack", "unmake")) == help_of(("stack",))
