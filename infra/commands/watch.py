"""`slipway watch`. What is shown: infra/operate/live_view.py."""

from __future__ import annotations

import typer
from rich.console import Console

from infra.commands.deployed_stack import Stack, hosts_of
from infra.operate.live_view import follow


def watch(stack: Stack) -> None:
    """Follow training until it ends; Ctrl-C leaves it running."""
    try:
        status = follow(hosts_of(stack), Console())
    except KeyboardInterrupt:
        Console().print(
            f"\ntraining goes on; see it again with `slipway watch {stack}`, stop it with `slipway stop {stack}`",
            highlight=False,
        )
        raise typer.Exit(130) from None
    raise typer.Exit(0 if status.phase == "finished" else 1)
