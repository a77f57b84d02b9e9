"""`slipway status`. What is known of a stack: infra/operate/stack_status.py."""

from __future__ import annotations

import json
from typing import Annotated

import typer

from infra.commands.deployed_stack import Stack, hosts_of
from infra.operate.stack_status import line, status_of
from infra.targets.phases import ABSENT


def status(stack: Stack, as_json: Annotated[bool, typer.Option("--json", help="One JSON object.")] = False) -> None:
    """The phase of the stack and of each host."""
    hosts = hosts_of(stack)
    whole = status_of(hosts)
    if as_json:
        typer.echo(json.dumps(whole.to_json() | {"run_directory": hosts.run_location() or ""}))
        return
    at = f", step {whole.step} of {whole.steps}" if whole.step is not None else ""
    typer.echo(f"{stack}: {whole.phase}{at}" + (f" ({whole.reason})" if whole.reason else ""))
    for host in whole.hosts:
        typer.echo(f"  {line(host)}")
    if whole.phase == ABSENT:
        left = "; this is how its hosts ended" if whole.hosts else ""
        typer.echo(f"  nothing is deployed{left}; start it with: make up STACK={stack}")
    if whole.unread:
        typer.echo(f"  what its hosts have left is not known: {whole.unread}")
