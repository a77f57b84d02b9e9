"""What verbs on a deployed stack share: the argument that names it, and its hosts or the refusal."""

from __future__ import annotations

from typing import Annotated

import typer

from infra.commands.terminal import fail
from infra.operate.hosts import Hosts, NoHostsError, open_hosts

Stack = Annotated[str, typer.Argument(help="A stack: `local` is stacks/Pulumi.local.yaml.")]


def hosts_of(stack: str) -> Hosts:
    try:
        return open_hosts(stack)
    except NoHostsError as error:
        fail(str(error))
