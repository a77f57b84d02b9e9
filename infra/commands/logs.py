"""`slipway logs`."""

from __future__ import annotations

from typing import Annotated

import typer

from infra.commands.deployed_stack import Stack, hosts_of
from infra.commands.terminal import fail


def logs(
    stack: Stack,
    host: Annotated[int, typer.Option(help="Which host, from 0.")] = 0,
    follow: Annotated[bool, typer.Option("-f", "--follow", help="Go on until the host ends.")] = False,
) -> None:
    """A host's log."""
    try:
        for line in hosts_of(stack).logs(host, follow):
            typer.echo(line)
    except LookupError as error:
        fail(str(error))
    except KeyboardInterrupt:
        raise typer.Exit(130) from None
