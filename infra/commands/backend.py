"""`slipway backend init`: the state bucket and its key first, then the state of this clone's stacks into it.

Entry point: prints, asks, picks the exit code. What is done, and in which order, is a part of the target whose
bucket it is: infra/targets/foundation/state_bucket.py.
"""

from __future__ import annotations

import os
from typing import Annotated, Any

import typer

from infra.commands.terminal import fail
from infra.engine import wrapper
from infra.paths import ROOT
from infra.stack_file.settings import any_from_file
from infra.targets import registry

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
    settings: Any = any_from_file(stack)
    bucket = registry.of(settings.target).state_bucket()
    if wrapper.user_chose_backend(os.environ, ROOT):
        fail("the state is no longer in this clone: PULUMI_BACKEND_URL, `pulumi login` or Pulumi.yaml names a backend")
    if not to:
        if problem := bucket.obstacle(settings, os.environ):
            fail(problem)
        bucket.make_bucket(settings.stack)
    url = to or settings.names.state_url
    for stack in bucket.stacks_to_move():
        typer.echo(f"{stack}: {bucket.move(stack, url)} resources moved to {url}")
    typer.echo(f"from now on, on this machine: pulumi login {url}")
    typer.echo(f"or for everybody, in Pulumi.yaml: backend: {{url: {url}}}")
