"""What Pulumi's own preview would do, from its JSON. Pure but for `run`, which starts the engine.

Owns reading the plan: which resources, which action, which inputs make it so. Refuses to own anything that the
engine decides.
"""

from __future__ import annotations

import json
import subprocess
from dataclasses import dataclass
from typing import Any, cast

from infra.paths import PULUMI, ROOT
from infra.sentences import SentenceError

_NO_CHANGE = ("same", "read", "refresh", "create-replacement", "delete-replaced")  # "replace" says the last two


class PreviewError(SentenceError):
    """The engine could not preview; the message is its own."""


@dataclass(frozen=True)
class Change:
    """`action` as the engine says it: create, update, replace, delete. `because` names inputs."""

    resource: str  # type and name
    action: str
    because: tuple[str, ...]


def run(stack: str) -> tuple[Change, ...]:
    """Changes of a stack. Raises PreviewError with the engine's words."""
    command = [str(PULUMI), "preview", "--stack", stack, "--json", "--non-interactive"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    if done.returncode:
        raise PreviewError(_errors(done.stdout) or done.stderr.strip() or "pulumi preview failed")
    return changes(done.stdout)


def changes(plan: str) -> tuple[Change, ...]:
    """Changes in the text that `pulumi preview --json` prints, in the engine's order."""
    steps = cast(list[dict[str, Any]], _document(plan).get("steps") or [])
    return tuple(
        Change(_resource(step["urn"]), step["op"], tuple(sorted(step.get("detailedDiff") or ())))
        for step in steps
        if step["op"] not in _NO_CHANGE
    )


def _document(plan: str) -> dict[str, Any]:
    start = plan.find("{")
    return json.JSONDecoder().raw_decode(plan[start:])[0] if start >= 0 else {}


def _resource(urn: str) -> str:
    kind, name = urn.split("::")[-2:]
    return f"{kind.split('$')[-1]} {name}"


def _errors(plan: str) -> str:
    diagnostics = cast(list[dict[str, Any]], _document(plan).get("diagnostics") or [])
    return "; ".join(str(entry["message"]).strip() for entry in diagnostics if entry.get("severity") == "error")
