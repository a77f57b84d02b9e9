"""The command `slipway`. A verb is the module of its name in this folder, imported when it is used.

In the module is a function of the same name, whose docstring is the verb's help: the command itself, or the callback
of an `app` with commands of its own. Entry points: verbs alone print and pick exit codes.
"""

from __future__ import annotations

import importlib
import keyword
import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import typer
from typer.core import TyperCommand, TyperGroup

from infra.paths import TOOLS
from infra.sentences import SentenceError

HERE = Path(__file__).parent
VERBS = (
    "preview", "fit", "env", "doctor", "hardware", "gc", "orphans",
    "watch", "status", "logs", "stop", "start", "replay", "purge",
    "data", "wheels", "patches", "backend", "emulate", "stack", "import", "token",
)  # fmt: skip


class Verb(TyperCommand):
    """Stands for a verb that is not imported."""

    def get_short_help_str(self, limit: int = 45) -> str:
        """The whole first paragraph of its docstring: `limit` would cut off what is printed nowhere else."""
        name = module_name(str(self.name))
        source = (HERE / f"{name}.py").read_text(encoding="utf-8")
        docstring = re.search(rf'^def {name}\(.*?"""(.*?)(\n\n|""")', source, re.MULTILINE | re.DOTALL)
        return docstring[1] if docstring else ""

    def make_context(self, info_name: str | None, args: list[str], parent: Any = None, **extra: Any) -> Any:
        """The verb itself takes over."""
        return command(str(self.name)).make_context(info_name, args, parent, **extra)


class Verbs(TyperGroup):
    def __init__(self, **attributes: Any) -> None:
        super().__init__(**attributes)
        self.commands = {verb: Verb(verb) for verb in VERBS}

    def invoke(self, ctx: Any) -> Any:
        """A SentenceError, whoever raises it, ends every verb in the same way."""
        try:
            return super().invoke(ctx)
        except SentenceError as error:
            from infra.commands.terminal import fail  # here: `--help` imports no verb and none of what they share

            fail(str(error))

    def format_help(self, ctx: Any, formatter: Any) -> None:
        """Plain text: the boxes that typer draws around it take longer than all else."""
        super(TyperGroup, self).format_help(ctx, formatter)


app = typer.Typer(cls=Verbs, no_args_is_help=True, add_completion=False)


@app.callback()
def slipway() -> None:
    """Watch and steer what `pulumi up` has started."""


def module_name(verb: str) -> str:
    """`import` is a word of Python's, so its module and function end in `_`."""
    return f"{verb}_" if keyword.iskeyword(verb) else verb


def command(verb: str) -> Any:
    """A verb as typer runs it."""
    module = importlib.import_module(f"infra.commands.{module_name(verb)}")
    if hasattr(module, "app"):
        return typer.main.get_group(module.app)
    alone = typer.Typer(add_completion=False)
    alone.command(verb)(getattr(module, module_name(verb)))
    return typer.main.get_command(alone)


class AsItIs:
    """Stands in for typer's check of a parameter: it returns the value unchanged."""

    def coerce(self, value: Any, **_: Any) -> Any:
        return value


def spare_pydantic() -> None:
    """Keep typer from importing pydantic for parameters that are text or flags: that takes longer than `status`."""
    core: Any = importlib.import_module("typer.core")
    of_pydantic: Callable[[Any], Any] = core.build_runtime_param

    def build(descriptor: Any) -> Any:
        return AsItIs() if descriptor.annotation in (str, bool) else of_pydantic(descriptor)

    core.build_runtime_param = build


def main() -> None:
    spare_pydantic()
    os.environ["PATH"] = os.pathsep.join([str(TOOLS), os.environ.get("PATH", "")])
    app()
