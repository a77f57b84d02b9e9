"""A stack now and at a git revision: which settings differ, and what that does to size and cost. Pure but for `at`.

Both are read by today's code against today's tables, so a difference is the stack file's own.
"""

from __future__ import annotations

import subprocess
from dataclasses import dataclass
from typing import Any, cast

from infra.paths import ROOT, stack_file
from infra.preview.cost import usd
from infra.preview.report import StackReport
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
    known = _git("rev-parse", "--verify", "--quiet", f"{revision}^{{commit}}")
    if known.returncode:
        raise SettingsError(
            f"'{revision}' is no revision of this clone; give a branch, tag or commit, like origin/main"
        )
    found = _git("show", f"{revision}:{name}")
    if found.returncode:
        return None
    try:
        return from_text(stack, found.stdout)
    except SettingsError as error:
        raise SettingsError(f"the stack at {revision} cannot be read by this version: {error}") from None


def settings_changed(then: StackSettings, now: StackSettings) -> list[str]:
    """One line per key that differs, `key: old -> new`."""
    return differences(_flat(then.model_dump(mode="json")), _flat(now.model_dump(mode="json")))


def lines(then: StackReport | None, now: StackReport) -> tuple[Line, ...]:
    """Size and cost, side by side; `then` is None for a new stack."""
    before = dict(_facts(then)) if then else {}
    return tuple(Line(title, before.get(title, "-"), text) for title, text in _facts(now))


def _facts(report: StackReport) -> tuple[tuple[str, str], ...]:
    return (
        ("accelerator", report.accelerator),
        ("chips", f"{report.chips:,}"),
        ("slices x hosts x chips", f"{report.slices} x {report.hosts_per_slice} x {report.chips_per_host}"),
        ("mesh", report.mesh),
        ("run", report.run),
        ("fit", str(report.fit)),
        ("zones", ", ".join(report.zones)),
        ("tier", report.tier),
        ("$ per hour", usd(report.cost.usd_per_hour)),
        ("$ per run", f"{report.cost.run_text} ({report.cost.run_by})"),
        ("quota", str(report.quota)),
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
