"""The command of a job's container, down to the words that MaxText is given. Pure.

Owns shells: `bash -c "..."`, `a && b`, variables before a command, $NAME of the job's own variables. Refuses to own
what the words mean (maxtext_arguments.py) and what the variables mean (environment.py).
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

# As MaxText has been started, in any of its releases: a file or a module.
_TRAINERS = re.compile(
    r"(.*/)?(MaxText|maxtext|pre_train|src)/(.*/)?train\.py|(MaxText|maxtext)(\.trainers\.pre_train)?\.train"
)
_SHELLS = re.compile(r"(/usr)?(/bin/)?(ba|da|z)?sh")
_ASSIGNMENT = re.compile(r"([A-Za-z_][A-Za-z0-9_]*)=(.*)", re.DOTALL)
_VARIABLE = re.compile(r"\$(?:\{(?P<braced>[A-Za-z_]\w*)(?::?[-=?][^}]*)?\}|(?P<plain>[A-Za-z_]\w*))")
_ENDS = re.compile(r"[;&|()]+")


@dataclass(frozen=True)
class Commands:
    """words: of MaxText, after its module or file; None where none starts it. others: commands that are not MaxText's.
    variables: set in the shell."""

    words: tuple[str, ...] | None = None
    others: tuple[str, ...] = ()
    variables: tuple[tuple[str, str], ...] = ()


def read(words: Sequence[str], environ: Mapping[str, str]) -> Commands:
    """Of a container's command and arguments together, or of the words of a line."""
    script = _script(words)
    commands = _split(script) if script is not None else [list(words)]
    found: tuple[str, ...] | None = None
    others: list[str] = []
    variables: list[tuple[str, str]] = []
    for command in commands:
        own, rest = _assignments(command)
        known = {**environ, **dict(variables)}
        variables += [(name, expanded(value, known)) for name, value in own]
        if not rest:
            continue
        at = trainer(rest)
        if at is None:
            others.append(shlex.join(rest))
        elif found is None:
            known = {**environ, **dict(variables)}
            found = tuple(part for word in rest[at + 1 :] for part in _word(word, known))
        else:
            others.append(f"{shlex.join(rest)} (the second training)")
    return Commands(found, tuple(others), tuple(variables))


def trainer(words: Sequence[str]) -> int | None:
    """Which of a container's words starts MaxText, where no shell stands between."""
    return next((place for place, word in enumerate(words) if _TRAINERS.fullmatch(word)), None)


def expanded(text: str, environ: Mapping[str, str]) -> str:
    """With the values of the job's own variables; others stay as they are written."""

    def value(found: re.Match[str]) -> str:
        return environ.get(found["braced"] or found["plain"], found[0])

    return _VARIABLE.sub(value, text)


def names(texts: Iterable[str]) -> set[str]:
    """The variables that words name."""
    return {found["braced"] or found["plain"] for text in texts for found in _VARIABLE.finditer(text)}


def unset(text: str) -> str | None:
    """A variable that a word still names, whose value the file does not have."""
    found = _VARIABLE.search(text)
    return found[0] if found else None


def _word(word: str, environ: Mapping[str, str]) -> list[str]:
    """A word that is one variable is split at its spaces, as a shell does."""
    text = expanded(word, environ)
    return text.split() if _VARIABLE.fullmatch(word) else [text]


def _script(words: Sequence[str]) -> str | None:
    """What a shell is told to run by -c; the rest of the words are its $0, $1, ..."""
    if len(words) == 1 and re.search(r"\s", words[0]):
        return words[0]
    if not words or not _SHELLS.fullmatch(words[0]):
        return None
    for at, word in enumerate(words[1:], 1):
        if re.fullmatch(r"-[a-z]*c[a-z]*", word):
            return words[at + 1] if at + 1 < len(words) else ""
        if not word.startswith("-"):
            break
    return None


def _split(script: str) -> list[list[str]]:
    """The commands of a script, each as words; comments and line continuations are left out."""
    text = script.replace("\\\n", " ").replace("\n", " ; ")
    lexer = shlex.shlex(text, posix=True, punctuation_chars=";&|()")
    lexer.whitespace_split = True
    commands: list[list[str]] = [[]]
    try:
        for word in lexer:
            if _ENDS.fullmatch(word):
                commands.append([])
            else:
                commands[-1].append(word)
    except ValueError:  # a quote that does not end
        commands = [text.split()]
    return [command for command in commands if command]


def _assignments(command: Sequence[str]) -> tuple[list[tuple[str, str]], list[str]]:
    """NAME=value before a command, or behind `export`, and the command itself."""
    words = list(command)
    exported = words[:1] == ["export"]
    words = words[1:] if exported or words[:1] in (["env"], ["exec"], ["eval"]) else words
    found: list[tuple[str, str]] = []
    while words and (assignment := _ASSIGNMENT.fullmatch(words[0])):
        found.append((assignment[1], assignment[2]))
        words = words[1:]
    return found, words
