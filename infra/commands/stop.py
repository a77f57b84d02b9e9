"""`slipway stop`."""

from __future__ import annotations

import typer
from rich.console import Console

from infra.commands.deployed_stack import Stack, hosts_of
from infra.commands.terminal import fail
from infra.operate.stack_status import stack_status


def stop(stack: Stack) -> None:
    """Save a checkpoint and end training; `start` resumes it."""
    hosts = hosts_of(stack)
    hosts.check_offered("stop")
    if not any(host.running for host in hosts.states()):
        fail(f"nothing of stack '{stack}' is running")
    with Console(stderr=True).status("stopping") as line:
        hosts.stop(line.update)
    status = stack_status(stack, hosts.states())
    typer.echo(f"{stack}: {status.phase} at step {status.step} of {status.steps}; resume with: slipway start {stack}")
