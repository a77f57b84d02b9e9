"""`slipway stack new`: writes a stack file for a size that is not shipped.

Entry point: writes one file, prints, picks the exit code. What is in the file: infra/preview/new_stack.py.
"""

from __future__ import annotations

import os
from typing import Annotated

import typer

from infra import hardware
from infra.commands.terminal import fail
from infra.emulated import TPU, VERTEX
from infra.names import PLACEHOLDER_PROJECT
from infra.paths import stack_file
from infra.preview.new_stack import OWNER, NewStack, text
from infra.stack_file import settings as stack_settings
from infra.targets import registry
from infra.tiers import Tier

app = typer.Typer(no_args_is_help=True)


@app.callback()
def stack() -> None:
    """Stack files."""


@app.command()
def new(
    accelerator: Annotated[str, typer.Argument(help="A row of `slipway hardware`, like v5p-512.")],
    zone: Annotated[list[str] | None, typer.Option(help="Where, in a cloud; several times: in this order.")] = None,
    slices: Annotated[int, typer.Option(min=1, max=512)] = 1,
    tier: Annotated[str, typer.Option(help=f"One of {', '.join(Tier)}.")] = Tier.ON_DEMAND,
    variant: Annotated[str, typer.Option(help="What follows the dot in its name.")] = "",
    project: Annotated[str, typer.Option(help="The Google Cloud project's id.")] = PLACEHOLDER_PROJECT,
    owner: Annotated[str, typer.Option(help="Who pays: a label of everything billed.")] = OWNER,
    target: Annotated[str, typer.Option(help="The kind of place; else the first that offers the accelerator.")] = "",
    key: Annotated[
        list[str] | None, typer.Option("--set", metavar="KEY=VALUE", help="Another key of the target's, as YAML.")
    ] = None,
) -> None:
    """Write a stack file, named after accelerator, slices, tier and variant; nothing is declared yet."""
    keys = tuple((name, value) for name, _, value in (text.partition("=") for text in key or ()))
    new_stack = NewStack(accelerator, tuple(zone or ()), slices, tier, variant, project, owner, target, keys)
    path = stack_file(new_stack.name)
    emulated = hardware.find(accelerator).emulated
    if emulated:
        for variable in (TPU, VERTEX):
            os.environ.setdefault(variable, "http://127.0.0.1")  # its emulator starts once the file is there
    try:
        written = text(new_stack)
        settings = stack_settings.from_text(new_stack.name, written)
        with path.open("x", encoding="utf-8") as file:
            file.write(written)
    except FileExistsError:
        fail(f"stacks/{path.name} is there already; remove it, or give another --variant")
    then = (
        f"start its cloud: {registry.of(settings.target).emulator}"
        if emulated
        else f"see what it would cost: slipway preview {new_stack.name}"
    )
    typer.echo(f"stacks/{path.name} is written; {then}")
