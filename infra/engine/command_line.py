"""What a command line says to Pulumi's engine: which command, which stack, whether it changes anything.

Owns the engine's own words and flags, as far as the wrapper must know them. Refuses to own what follows from them
(infra/engine/wrapper.py). Standard library only: it runs at every command.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

# Flags whose value is the next argument: it may look like a command's word, or like `-s`.
VALUE_FLAGS = {
    *("--stack", "--cwd", "--color", "--tracing", "--otel-traces", "--profiling", "--memprofilerate", "--verbose"),
    *("--message", "--config", "--config-file", "--target", "--target-replace", "--replace", "--exclude"),
    *("--parallel", "--secrets-provider", "--policy-pack", "--policy-pack-config", "--file", "--plan"),
}
_OF_LETTERS = ("--stack", "--cwd", "--verbose", "--message", "--config", "--parallel", "--target", "--exclude")
VALUE_LETTERS = dict(zip("sCvmcptx", _OF_LETTERS, strict=True))

PREVIEWS = {"preview", "pre"}
MUTATING = {"up", "update", "refresh", "destroy", "down", "dn", "import", "watch"}
FOLLOWING_FILE = PREVIEWS | {"up", "update", "watch"}
MUTATING_STACK = {"rm", "remove", "import", "rename"}
# Commands that work on one stack, which has to exist. The engine's own aliases are spelled out.
STACK_COMMANDS = PREVIEWS | MUTATING | {"config", "stack", "cancel", "logs", "state", "console", "env"}
# `pulumi stack X` that make, list or remove stacks instead.
STACK_ADMINISTRATION = {"init", "new", "ls", "list", "rm", "remove", "unselect"}
# These choose a backend, which ours must not answer for.
BACKEND_COMMANDS = {"login", "logout"}


@dataclass(frozen=True)
class Command:
    """words: the arguments that are no flags. stack: as given, maybe `organization/project/name`."""

    words: tuple[str, ...]
    stack: str | None
    cwd: str | None
    help: bool
    config_file: bool

    @property
    def name(self) -> str:
        return self.words[0] if self.words else ""

    @property
    def action(self) -> str:
        return self.words[1] if len(self.words) > 1 else ""

    @property
    def needs_stack(self) -> bool:
        administration = self.name == "stack" and self.action in STACK_ADMINISTRATION
        return self.name in STACK_COMMANDS and not administration and not self.help

    @property
    def mutates(self) -> bool:
        mutating = self.name in MUTATING or (self.name == "stack" and self.action in MUTATING_STACK)
        return mutating and not self.help

    @property
    def follows_file(self) -> bool:
        """Makes what the stack file says. `refresh` and `destroy` go by the state alone."""
        return self.name in FOLLOWING_FILE and not self.help

    @property
    def starts_providers(self) -> bool:
        return (self.name in MUTATING or self.name in PREVIEWS) and not self.help


def parse(arguments: Sequence[str]) -> Command:
    """What the engine's own parser makes of the arguments, also where they have flags that this module does not know.

    argparse cannot: a letter that it was not told of hides those after it (`-rs dev` has no stack), a value that looks
    like a flag is one (`--message --help`), and it costs 8 to 12 ms at every command.
    """
    words: list[str] = []
    values: dict[str, str] = {}
    asks_help = False
    rest = iter(arguments)
    for argument in rest:
        if argument == "--":
            break
        if argument.startswith("--"):
            flag, equals, value = argument.partition("=")
            if flag in VALUE_FLAGS:
                values[flag] = value if equals else next(rest, "")
            asks_help = asks_help or flag == "--help"
        elif argument.startswith("-") and len(argument) > 1:
            for position, letter in enumerate(argument[1:], start=2):
                asks_help = asks_help or letter == "h"
                if letter in VALUE_LETTERS:
                    values[VALUE_LETTERS[letter]] = argument[position:].removeprefix("=") or next(rest, "")
                    break
        else:
            words.append(argument)
    match words:
        case ["cancel", name, *_] | ["stack", "select" | "rm" | "remove", name, *_]:
            stack = values.get("--stack", name)
        case _:
            stack = values.get("--stack")
    return Command(tuple(words), stack or None, values.get("--cwd"), asks_help, "--config-file" in values)


def local_name(stack: str, project: str) -> str | None:
    """The stack's own name, or None where it is another project's or no valid name: then the engine explains it."""
    *owner, name = stack.split("/")
    if owner and owner[-1] != project and len(owner) > 1:
        return None
    return name if re.fullmatch(r"[A-Za-z0-9_.-]+", name) else None
