"""State of Pulumi: from this clone's directory to a backend that a team shares.

Owns: what has to be there first, which stacks move, and moving one so that nothing is lost if it is cut off: the copy
is compared before the original is put aside. Refuses to own buckets and keys (target foundation) and talking to the
terminal (infra/commands/backend.py). The engine itself reads and writes both states.
"""

from __future__ import annotations

import json
import os
import subprocess
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any, cast

from infra import names
from infra.engine import google_plugin, wrapper
from infra.google_login import LOGIN_COMMAND
from infra.paths import PULUMI, ROOT
from infra.stack_file import settings as stack_settings
from infra.stack_file.settings import Owned, SettingsError
from infra.standins.gcp import schema
from infra.targets.errors import TargetError
from infra.targets.foundation.settings import FoundationSettings

# What the state bucket needs: the APIs, a key, and a bucket that tells the project's number (for the key's grant).
TARGETS = (
    "**slipway:foundation:Services**",
    "**slipway:foundation:State**",
    "**slipway:foundation:Storage::storage",
    "**slipway:foundation:Storage$gcp:storage/bucket:Bucket::artifacts",
)
MOVED = ".moved"


def obstacle(settings: FoundationSettings, environment: Mapping[str, str]) -> str | None:
    """One sentence where buckets cannot be made: placeholder, credentials, plugin."""
    if placeholder := names.placeholder_problem(settings.project, settings.stack):
        return placeholder
    version = schema.version()
    choice = google_plugin.choose(environment, version)
    if choice.official is None:
        install = f"Google's provider plugin is not installed; run: pulumi plugin install resource gcp {version}"
        return "; ".join((install, *choice.passed_over))
    if not google_plugin.has_credentials(environment):
        return f"there are no credentials for Google Cloud; run: {LOGIN_COMMAND}"
    return None


def stacks_to_move() -> list[str]:
    """Stacks with a state in this clone; those that run on this machine stay on it."""
    found = {path.name.partition(".json")[0] for path in _states("*")}
    return [stack for stack in sorted(found) if not _is_of_this_machine(stack)]


def make_bucket(stack: str) -> None:
    """`pulumi up` of the state bucket and what it needs, on the terminal."""
    arguments = ["up", "--yes", "--stack", stack, *(word for target in TARGETS for word in ("--target", target))]
    if subprocess.run([PULUMI, *arguments], cwd=ROOT, check=False).returncode != 0:
        raise TargetError(
            f"the state bucket is not made, so nothing was moved; run it again: slipway backend init {stack}"
        )


def move(stack: str, url: str) -> int:
    """Copy a stack's state to another backend, compare, put the original aside. Returns how many resources it has."""
    here, there = dict(os.environ), os.environ | {"PULUMI_BACKEND_URL": url}
    original = _export(stack, here)
    made = _run(["stack", "init", stack, "--no-select"], there)
    if made.returncode != 0 and "already exists" not in made.stderr:
        raise TargetError(f"cannot make stack '{stack}' in {url}: {_said(made)}")
    copy = _export(stack, there)
    if _resources(copy) and _resources(copy) != _resources(original):
        raise TargetError(
            f"{url} has another state of stack '{stack}' already ({len(_resources(copy))} resources, here "
            f"{len(_resources(original))}); decide which is right, and remove the other with `pulumi stack rm --force`"
        )
    if _resources(copy) != _resources(original):
        with tempfile.NamedTemporaryFile("w", suffix=".json") as file:
            file.write(json.dumps(original))
            file.flush()
            imported = _run(["stack", "import", "--stack", stack, "--file", file.name], there)
        if imported.returncode != 0 or _resources(_export(stack, there)) != _resources(original):
            raise TargetError(f"the state of '{stack}' did not arrive in {url}, it is still here: {_said(imported)}")
    for path in _states(stack):  # so that an `up` without the new backend does not act on it
        path.rename(path.with_name(path.name + MOVED))
    return len(_resources(original))


def _states(stack: str) -> list[Path]:
    """The files with a stack's state in this clone, but those put aside; for `*` of every stack."""
    return wrapper.stack_states(wrapper.state_directory(ROOT), wrapper.project_name(ROOT), stack)


def _is_of_this_machine(stack: str) -> bool:
    """False where the stack file is gone or broken: its state moves with the others."""
    try:
        return not isinstance(stack_settings.any_from_file(stack), Owned)
    except SettingsError:
        return False


def _resources(deployment: dict[str, Any]) -> list[tuple[str, str]]:
    listed = cast(list[dict[str, Any]], deployment.get("deployment", {}).get("resources") or [])
    return sorted((resource["urn"], resource.get("id", "")) for resource in listed)


def _export(stack: str, environment: Mapping[str, str]) -> dict[str, Any]:
    done = _run(["stack", "export", "--stack", stack], environment)
    if done.returncode != 0:
        raise TargetError(f"cannot read the state of stack '{stack}': {_said(done)}")
    return json.loads(done.stdout)


def _run(arguments: list[str], environment: Mapping[str, str]) -> subprocess.CompletedProcess[str]:
    command = [PULUMI, *arguments, "--non-interactive", "--color", "never"]
    return subprocess.run(command, cwd=ROOT, env=dict(environment), capture_output=True, text=True, check=False)


def _said(done: subprocess.CompletedProcess[str]) -> str:
    lines = (done.stderr.strip() or done.stdout.strip() or "it said nothing").splitlines()
    return next((line for line in lines if line.startswith("error: ")), lines[-1]).removeprefix("error: ")
