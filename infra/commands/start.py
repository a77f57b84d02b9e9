"""`slipway start`."""

from __future__ import annotations

import typer

from infra.commands.deployed_stack import Stack, hosts_of
from infra.commands.terminal import fail


def start(stack: Stack) -> None:
    """Start what is not running; training resumes at its last checkpoint."""
    hosts = hosts_of(stack)
    hosts.check_offered("start")
    if not hosts.states():
        fail(f"stack '{stack}' has no hosts; start them with: make up STACK={stack}")
    hosts.start()
    typer.echo(f"{stack}: started; follow it with: slipway watch {stack}")
