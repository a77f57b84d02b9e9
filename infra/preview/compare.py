"""A stack now and at a git revision: which settings differ, and what that does to size and cost. Pure but for `at`.

Both are read by today's code against today's tables, so a difference is the stack file's own.
"""

from __future__ import annotations

import subprocess
from dataclasses import dataclass
from typing import Any, cast

from infra.paths import ROOT, stack_file
from infra.preview.cost import usd
from infra.preview.stack_facts import StackFacts
from infra.stack_file.settings import SettingsError, StackSettings, from_text
from training.run_spec import differences


@dataclass(frozen=True)
class Line:
    """One fact, then and now."""

    title: str
    then: str
    now: str

    @property
    def changed(self) -> bool:
        return self.then != self.now


def at(revision: str, stack: str) -> StackSettings | None:
    """The stack's settings at a revision; None where there was no such stack. Raises SettingsError."""
    name = stack_file(stack).relative_to(ROOT).as_posix()
    if _git("rev-parse", "--verify", "--quiet", f"{revision}^{{commit}}").returncode:
        raise SettingsError(
            f"'{revision}' is no revision of this clone; give a branch, tag or commit, like origin/main"
        )
    shown = _git("show", f"{revision}:{name}")
    if shown.returncode:
        return None
    try:
        return from_text(stack, shown.stdout)
    except SettingsError as error:
        raise SettingsError(f"the stack at {revision} cannot be read by this version: {error}") from None


def settings_changed(then: StackSettings, now: StackSettings) -> list[str]:
    """One line per key that differs, `key: old -> new`."""
    return differences(_flat(then.model_dump(mode="json")), _flat(now.model_dump(mode="json")))


def lines(then: StackFacts | None, now: StackFacts) -> tuple[Line, ...]:
    """Size and cost, side by side; `then` is None for a new stack."""
    before = dict(_compared(then)) if then else {}
    return tuple(Line(title, before.get(title, "-"), text) for title, text in _compared(now))


def _compared(facts: StackFacts) -> tuple[tuple[str, str], ...]:
    return (
        ("accelerator", facts.accelerator),
        ("chips", f"{facts.chips:,}"),
        ("slices x hosts x chips", f"{facts.slices} x {facts.hosts_per_slice} x {facts.chips_per_host}"),
        ("mesh", facts.mesh),
        ("run", facts.run),
        ("fit", str(facts.fit)),
        ("zones", ", ".join(facts.zones or facts.regions) or "-"),
        ("tier", facts.tier),
        ("$ per hour", usd(facts.cost.usd_per_hour)),
        ("$ per run", f"{facts.cost.run_text} ({facts.cost.run_by})"),
        ("quota", str(facts.quota or "-")),
    )


def _flat(values: dict[str, Any], prefix: str = "") -> dict[str, Any]:
    flat: dict[str, Any] = {}
    for key, value in values.items():
        if isinstance(value, dict):
            flat |= _flat(cast(dict[str, Any], value), f"{prefix}{key}.")
        else:
            flat[f"{prefix}{key}"] = value
    return flat


def _git(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(["git", *arguments], cwd=ROOT, capture_output=True, text=True, check=False)
