"""What verbs on a deployed stack share: the argument that names it, and its hosts or the refusal."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from infra.paths import stack_file
from infra.stack_file import stack_yaml
from infra.targets import registry
from infra.targets.contract import TargetContract
from infra.targets.hosts import Hosts

Stack = Annotated[str, typer.Argument(help="A stack: `local` is stacks/Pulumi.local.yaml.")]


def hosts_of(stack: str, verb: str = "") -> Hosts:
    """verb: what they have to offer. Raises TargetError where the stack's target cannot reach them or leaves that out,
    SettingsError where its file says no target.
    """
    hosts = _contract(stack).hosts(stack)
    if verb:
        hosts.check_offered(verb)
    return hosts


def _contract(stack: str) -> TargetContract[Any, Any]:
    try:
        target = registry.named(str(stack_yaml.written(stack_file(stack).read_text(encoding="utf-8"))["target"]))
    except (OSError, KeyError, ValueError):
        target = None
    if target:
        return target
    from infra.stack_file import settings  # here: a stack's rules cost 0.2 s, and only the refusal needs them

    return registry.of(settings.from_file(stack).target)
