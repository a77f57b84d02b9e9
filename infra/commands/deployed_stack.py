"""What verbs on a deployed stack share: the argument that names it, and its hosts or the refusal."""

from __future__ import annotations

from typing import Annotated

import typer

from infra.paths import stack_file
from infra.stack_file import stack_yaml
from infra.targets import registry
from infra.targets.hosts import Hosts

Stack = Annotated[str, typer.Argument(help="A stack: `local` is stacks/Pulumi.local.yaml.")]


def hosts_of(stack: str) -> Hosts:
    """Raises TargetError where the stack's target cannot reach them, SettingsError where its file says no target."""
    try:
        target = registry.named(str(stack_yaml.written(stack_file(stack).read_text(encoding="utf-8"))["target"]))
    except (OSError, KeyError, ValueError):
        target = None
    if target:
        return target.hosts(stack)
    from infra.stack_file import settings  # here: a stack's rules cost 0.2 s, and only the refusal needs them

    return registry.of(settings.from_file(stack).target).hosts(stack)
