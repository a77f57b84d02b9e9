"""`slipway preview`: what a stack is, costs and changes, as people, programs and pull requests read it.

Entry point: runs the engine's preview, prints, picks the exit code. Refuses to own a fact: infra/preview/.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from typing import Annotated, Any

import typer

from infra.commands import tables
from infra.commands.terminal import fail
from infra.preview import compare, planned_changes, stack_facts, stack_plan
from infra.preview.compare import Line
from infra.preview.cost import usd
from infra.preview.fit import interactive_fit
from infra.preview.planned_changes import Change
from infra.preview.stack_facts import StackFacts
from infra.preview.stack_plan import TrainingPlan
from infra.stack_file import settings as stack_settings
from infra.stack_file.settings import Settings, SettingsError


@dataclass(frozen=True)
class Preview:
    """`then` and `settings` are None without --against; `lines` is empty for what has no chips to buy."""

    stack: str
    against: str | None
    block: tuple[str, ...]
    lines: tuple[Line, ...]
    settings: tuple[str, ...] | None
    changes: tuple[Change, ...]
    new: bool  # not there at the revision
    facts: dict[str, Any] | None


def preview(
    stack: Annotated[str, typer.Argument(help="A stack: `v6e-32` is stacks/Pulumi.v6e-32.yaml.")] = "",
    every: Annotated[bool, typer.Option("--all", help="One table of all stacks; starts no engine.")] = False,
    against: Annotated[str, typer.Option(metavar="REV", help="A git revision to compare settings and cost with.")] = "",
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object (with --all a list).")] = False,
    markdown: Annotated[bool, typer.Option("--markdown", help="Fit for a pull request's comment.")] = False,
) -> None:
    """What a stack is and costs, which resources change, and how it differs from a git revision."""
    if every == bool(stack):
        fail("name one stack, or give --all")
    if as_json and markdown:
        fail("--json and --markdown exclude each other")
    if every:
        typer.echo(_all_stacks(as_json, markdown))
        return
    shown = of_stack(stack, against or None)
    typer.echo(as_json_text(shown) if as_json else as_markdown(shown) if markdown else as_text(shown))


def of_stack(stack: str, against: str | None) -> Preview:
    """The stack's preview, the engine's included. Raises SettingsError and PreviewError."""
    now = stack_settings.any_from_file(stack)
    then = compare.at(against, stack) if against else None
    with interactive_fit.shown() as progress:  # the engine's preview would compile as well
        plan = stack_plan.decide(now, progress=progress)
    facts = plan.facts if isinstance(plan, TrainingPlan) else None
    return Preview(
        stack=stack,
        against=against,
        block=plan.notices,
        lines=compare.lines(stack_plan.facts_of(then) if then else None, facts) if facts else (),
        settings=tuple(compare.settings_changed(then, now)) if then else None,
        changes=planned_changes.run(stack),
        new=against is not None and then is None,
        facts=facts.to_json() if facts else None,
    )


def as_text(shown: Preview) -> str:
    lines = [*shown.block]
    if shown.against:
        lines += ["", f"against {shown.against}:"]
        compared = () if shown.new else shown.lines
        lines += [f"  {line.title}: {line.then} -> {line.now}" for line in compared if line.changed]
        lines += [f"  {line}" for line in shown.settings or ()]
        lines += ["  a new stack"] if shown.new else [] if shown.settings else ["  no setting differs"]
    lines += ["", "resources, against what is deployed:"]
    for change in shown.changes:
        because = f" ({', '.join(change.because)})" if change.because else ""
        lines.append(f"  {change.action:<8} {change.resource}{because}")
    if not shown.changes:
        lines.append("  no changes")
    return "\n".join(lines).strip("\n")


def as_markdown(shown: Preview) -> str:
    then = shown.against if shown.against and not shown.new else None
    lines = [f"### `{shown.stack}`" + (" (new)" if shown.new else ""), ""]
    if shown.lines:
        lines += [f"| | now |{f' at {then} |' if then else ''}", f"|---|---|{'---|' if then else ''}"]
        lines += [_row(line, then is not None) for line in shown.lines] + [""]
    if shown.settings is not None:
        lines += [f"**Settings against {then}**", ""]
        lines += [f"- `{line}`" for line in shown.settings] or ["none differs"]
        lines += [""]
    lines += ["**Resources against what is deployed**", ""]
    if shown.changes:
        lines += ["| action | resource | because of |", "|---|---|---|"]
    cells = ((change.action, f"`{change.resource}`", ", ".join(change.because)) for change in shown.changes)
    changes = [tables.markdown(row) for row in cells]
    return "\n".join([*lines, *(changes or ["no changes"])])


def as_json_text(shown: Preview) -> str:
    document = {
        "stack": shown.stack,
        "against": shown.against,
        "new": shown.new,
        "stack_report": shown.facts,
        "then_and_now": [asdict(line) for line in shown.lines] if shown.against else None,
        "settings": shown.settings,
        "resources": [asdict(change) for change in shown.changes],
    }
    return json.dumps(document, indent=1)


def _row(line: Line, compared: bool) -> str:
    now = f"**{line.now}**" if compared and line.changed else line.now
    return tables.markdown((line.title, now, *((line.then,) if compared else ())))


# --- all stacks ---

_ERROR = "error: "
# Where a terminal is too narrow, in this order; the name says tier and slices, `slipway preview STACK` the rest.
_DISPENSABLE = ("quota", "target", "tier", "slices", "hosts", "zones", "mesh", "HBM")
_COLUMNS = (
    *("stack", "target", "chips", "slices", "hosts", "mesh", "HBM", "tier", "zones", "$/hour", "$/run"),
    "quota",
)
_FIGURES = ("chips", "slices", "hosts", "HBM", "$/hour", "$/run")


def _all_stacks(as_json: bool, markdown: bool) -> str:
    rows = [_summary(stack) for stack in stack_settings.stack_names()]
    if as_json:
        return json.dumps([dict(zip(_COLUMNS, row, strict=True)) for row in rows], indent=1)
    if markdown:
        return "\n".join(map(tables.markdown, (_COLUMNS, ("---",) * len(_COLUMNS), *rows)))
    errors = [f"{stack}: {target}" for stack, target, *_ in rows if target.startswith(_ERROR)]
    table = tables.columns(_COLUMNS, [row for row in rows if not row[1].startswith(_ERROR)])
    return "\n".join([tables.plain(table, _FIGURES, _DISPENSABLE), *errors])


def _summary(stack: str) -> tuple[str, ...]:
    """A stack's row; one that cannot be read says so in its place."""
    cells = dict.fromkeys(_COLUMNS, "-") | {"stack": stack}
    try:
        settings = stack_settings.any_from_file(stack)
        facts = stack_plan.facts_of(settings)
    except SettingsError as error:
        return tuple((cells | {"target": f"{_ERROR}{error}"}).values())
    cells["target"] = str(settings.target)
    if facts:
        cells |= _of_slices(facts)
    elif isinstance(settings, Settings):
        chips, hosts = settings.row.chips * settings.slices, settings.row.hosts * settings.slices
        cells |= {"chips": f"{chips:,}", "slices": f"{settings.slices}", "hosts": f"{hosts}"}
        cells |= {"$/hour": "$0", "$/run": "$0"}
    else:
        cells |= {"zones": settings.place, "$/hour": stack_facts.UNKNOWN}
    return tuple(cells.values())


def _of_slices(facts: StackFacts) -> dict[str, str]:
    share = facts.fit.verdict.share
    return {
        "chips": f"{facts.chips:,}",
        "slices": f"{facts.slices}",
        "hosts": f"{facts.hosts}",
        "mesh": facts.mesh,
        "HBM": stack_facts.UNKNOWN if share is None else f"{share:.0%}",
        "tier": facts.tier,
        "zones": " ".join(facts.zones or facts.regions) or "-",
        "$/hour": usd(facts.cost.usd_per_hour),
        "$/run": facts.cost.run_text,
        "quota": (facts.quota.name or stack_facts.UNKNOWN) if facts.quota else "-",
    }
