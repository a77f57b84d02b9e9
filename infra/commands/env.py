"""`slipway env`: what a host's training process has in its environment, and why. Entry point; others own the values."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import Annotated

import typer

from infra.commands import tables
from infra.commands.terminal import fail
from infra.host_software.wheels.locks import LockError
from infra.host_software.wheels.selection import locked_version
from infra.stack_file import settings as stack_settings
from infra.stack_file.settings import Settings
from infra.targets import registry
from infra.targets.host_variables import HostVariable
from training import gpu_environment
from training.xla_flags import JAX_PLATFORMS, LIBTPU_INIT_ARGS, XLA_FLAGS, for_host

_OPTIONAL = ("holds for", "says")


def env(
    stack: Annotated[str, typer.Argument(help="A stack that trains.")],
    as_json: Annotated[bool, typer.Option("--json", help="A list of objects.")] = False,
) -> None:
    """What a host's training process gets in its environment, and why."""
    try:
        found = variables(stack_settings.from_file(stack))
    except LockError as error:
        fail(str(error))
    if as_json:
        typer.echo(json.dumps([asdict(each) for each in found], indent=1))
        return
    titles = ("variable", "value", "why", "holds for", "says")
    rows = ((each.name, each.value, each.why, each.holds, each.source) for each in found)
    typer.echo(tables.plain(tables.columns(titles, rows), dispensable=_OPTIONAL))


def variables(settings: Settings) -> list[HostVariable]:
    """The target's own, then what the launch adds; a flag of XLA is a line of its own."""
    own = list(registry.of(settings.target).variables(settings))
    given = {each.name: each.value for each in own}
    row, jaxlib = settings.row, locked_version("jaxlib", settings.row.platform, settings.channel)
    found = [each for each in own if each.name not in (XLA_FLAGS, LIBTPU_INIT_ARGS)]
    found.append(HostVariable("JAX_PLATFORMS", JAX_PLATFORMS[row.platform], "the accelerator, and the host's CPU"))
    known = {each.name: each for each in gpu_environment.SETTINGS if each.is_flag}
    for variable in for_host(row.platform, row.devices_per_host, given, jaxlib):
        for flag in variable.flags:
            of_table = known.get(flag.name)
            if str(flag) in settings.compiler_flags:
                found.append(HostVariable(variable.variable, str(flag), "xla_flags of the stack"))
                continue
            why, source = (of_table.why, of_table.source) if of_table else (flag.origin, "training/xla_flags.py")
            holds = f"jaxlib {of_table.jaxlib}; {jaxlib} is locked" if of_table else ""
            found.append(HostVariable(variable.variable, str(flag), why, source, holds))
    return found
