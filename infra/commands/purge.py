"""`slipway purge`."""

from __future__ import annotations

from typing import Annotated

import typer

from infra.commands.deployed_stack import Stack, hosts_of
from infra.commands.terminal import fail


def purge(stack: Stack, yes: Annotated[bool, typer.Option("--yes", help="Do not ask.")] = False) -> None:
    """Delete the checkpoints and metrics that `pulumi destroy` has kept."""
    hosts = hosts_of(stack)
    hosts.check_offered("purge")
    if hosts.states():
        fail(f"stack '{stack}' is still deployed; first run: make destroy STACK={stack}")
    runs = hosts.kept_runs()
    if not runs:
        typer.echo(f"{stack}: nothing is kept")
        return
    names = ", ".join(run.rpartition("/")[2] for run in runs)
    if not yes:
        typer.confirm(f"delete {runs[0].rpartition('/')[0]} ({names})?", abort=True)
    hosts.delete_kept_runs()
    typer.echo(f"{stack}: deleted {names}")
