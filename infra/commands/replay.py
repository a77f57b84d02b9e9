"""`slipway replay`."""

from __future__ import annotations

from typing import Annotated

import typer

from infra.commands.deployed_stack import Stack, hosts_of
from infra.commands.terminal import fail
from infra.targets.errors import NotOfferedError


def replay(
    stack: Stack, step: Annotated[int, typer.Option(min=0, help="Which step, from 0 as in the run's metrics.")]
) -> None:
    """Do a step of the stack's run again, beside what is recorded of it, with the records that it reads.

    From the newest good checkpoint before it, on this machine, in a directory of its own: the run stays as it is.
    """
    try:
        code = hosts_of(stack).replay(step)
    except NotOfferedError as error:
        fail(f"a replay is offered where hosts are processes of this machine (target local): {error}")
    raise typer.Exit(code)
