"""`slipway backend init`: the state bucket and its key first, then the state of this clone's stacks into it.

Entry point: prints, asks, picks the exit code. What is done, and in which order: infra/operate/state_move.py.
"""

from __future__ import annotations

import os
from typing import Annotated

import typer

from infra.commands.terminal import fail
from infra.operate import state_move
from infra.stack_file.settings import SettingsError

app = typer.Typer(no_args_is_help=True)


@app.callback()
def backend() -> None:
    """Where Pulumi keeps its state."""


@app.command()
def init(
    stack: Annotated[str, typer.Argument(help="A foundation: `foundation.us-central1`.")],
    to: Annotated[
        str, typer.Option(help="Another backend that exists already, instead of the foundation's bucket.")
    ] = "",
) -> None:
    """Make a foundation's state bucket and key, and move the state of this clone's cloud stacks there."""
    try:
        _init(stack, to)
    except (state_move.BackendError, SettingsError) as error:
        fail(str(error))


def _init(stack: str, to: str) -> None:
    settings = state_move.foundation(stack)
    if state_move.chosen_backend(os.environ):
        fail("the state is no longer in this clone: PULUMI_BACKEND_URL, `pulumi login` or Pulumi.yaml names a backend")
    if not to:
        if problem := state_move.obstacle(settings, os.environ):
            fail(problem)
        state_move.make_bucket(stack)
    url = to or settings.names.state_url
    for each in state_move.stacks_to_move():
        typer.echo(f"{each}: {state_move.move(each, url)} resources moved to {url}")
    typer.echo(f"from now on, on this machine: pulumi login {url}")
    typer.echo(f"or for everybody, in Pulumi.yaml: backend: {{url: {url}}}")
