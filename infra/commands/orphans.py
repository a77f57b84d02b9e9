"""`slipway orphans`: what is billed under our label and belongs to no stack of this backend.

Entry point: reads the world, prints, deletes. What is billed, and how it is deleted, each target says.
"""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterable
from typing import Annotated, Any

import typer

from infra.commands.terminal import fail, note_substitute
from infra.emulated import TPU
from infra.names import PLACEHOLDER_PROJECT, label_value, of_owner, stack_label
from infra.operate import billed_places
from infra.operate.billed_places import Asked
from infra.paths import PULUMI, ROOT
from infra.stack_file.settings import every
from infra.stack_file.terms import Terms


def orphans(
    project: Annotated[str, typer.Argument(help="A Google Cloud project; else where stacks/ run.")] = "",
    delete: Annotated[bool, typer.Option("--delete", help="Delete what the table shows; needs --owner.")] = False,
    owner: Annotated[
        str, typer.Option(help="Only what this owner's label is on: a stack's `owner`, or the label itself.")
    ] = "",
) -> None:
    """Show, or with --delete remove, what carries our label and belong to no stack of this backend."""
    note_substitute(TPU)
    if delete and not owner:
        fail("--delete needs --owner: what belongs to no stack of this backend may be somebody else's and running")
    try:
        stacks = [each for each in every(Terms) if each.billed_in != PLACEHOLDER_PROJECT]
        asked = billed_places.named(project, stacks) if project else billed_places.of(stacks)
        if owner and not label_value(owner):
            fail(f"owner {owner!r} has no letter or digit, so no label is of it; give the `owner` of a stack file")
        if not asked:
            fail("no stack of stacks/ has a project of its own; name one: slipway orphans PROJECT")
        known = {stack_label(name) for name in _alive()}
        for place in dict.fromkeys(place for _, place in asked):
            _of_place(place, [each for each in asked if each[1] == place], known, delete, owner)
    except KeyboardInterrupt:
        raise typer.Exit(130) from None


def _of_place(place: str, asked: Iterable[Asked], known: set[str], delete: bool, owner: str) -> None:
    of_targets = [(target, target.billed(place, typer.echo)) for target, _ in asked]
    ours = [each for _, billed in of_targets for each in billed]
    orphaned = [each for each in ours if each.stack not in known]
    if owner:
        try:
            orphaned = of_owner(orphaned, owner)
        except ValueError as error:
            fail(str(error))
    whose = f" and of owner {label_value(owner)}" if owner else ""
    typer.echo(f"{place}: {len(ours)} with our label, {len(orphaned)} of no stack of this backend{whose}")
    for each in orphaned:
        typer.echo(f"  {each.state:<22} {each.name}  stack {each.stack}, owner {each.owner or '?'}")
    if not orphaned:
        return
    if not delete:
        typer.echo(
            "they may be of somebody who keeps another backend: ask the owner; delete one owner's with --owner "
            "OWNER --delete"
        )
        return
    unwanted = {each.name for each in orphaned}
    for target, billed in of_targets:
        if names := unwanted & {each.name for each in billed}:
            for name in target.remove(names, typer.echo):
                typer.echo(f"  deleted {name}")


def _alive() -> list[str]:
    """Stacks of this backend that have resources: their own `up` and `destroy` look after what is theirs."""
    command = [PULUMI, "stack", "ls", "--json", "--non-interactive", "--color", "never"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    if done.returncode:
        fail(f"the list of stacks cannot be read, so it is not known what is in use: {done.stderr.strip()}")
    stacks: list[dict[str, Any]] = json.loads(done.stdout)
    return [str(one["name"]) for one in stacks if one.get("resourceCount") != 0 or one.get("updateInProgress")]
