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
from infra.preview import compare, planned_changes, report
from infra.preview.compare import Line
from infra.preview.cost import usd
from infra.preview.planned_changes import Change, PreviewError
from infra.preview.report import StackReport
from infra.stack_file import settings as stack_settings
from infra.stack_file.settings import Settings, SettingsError, StackSettings
from infra.targets.tpu_vm.plan import run_spec
from infra.targets.tpu_vm.settings import TpuVmSettings


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
    try:
        if every:
            typer.echo(_all_stacks(as_json, markdown))
            return
        made = of_stack(stack, against or None)
    except (SettingsError, PreviewError) as error:
        fail(str(error))
    typer.echo(as_json_text(made) if as_json else as_markdown(made) if markdown else as_text(made))


def of_stack(stack: str, against: str | None) -> Preview:
    """The stack's preview, the engine's included. Raises SettingsError and PreviewError."""
    now = stack_settings.any_from_file(stack)
    then = compare.at(against, stack) if against else None
    made = _report(now)
    return Preview(
        stack=stack,
        against=against,
        block=made.lines() if made else (),
        lines=compare.lines(_report(then) if then else None, made) if made else (),
        settings=tuple(compare.settings_changed(then, now)) if then else None,
        changes=planned_changes.run(stack),
        new=against is not None and then is None,
        facts=made.to_json() if made else None,
    )


def as_text(made: Preview) -> str:
    said = [*made.block]
    if made.against:
        said += ["", f"against {made.against}:"]
        said += [f"  {line.title}: {line.then} -> {line.now}" for line in made.lines if line.changed and not made.new]
        said += [f"  {line}" for line in made.settings or ()]
        said += ["  a new stack"] if made.new else [] if made.settings else ["  no setting differs"]
    said += ["", "resources, against what is deployed:"]
    said += [f"  {change.action:<8} {change.resource}{_because(change)}" for change in made.changes] or ["  no changes"]
    return "\n".join(said).strip("\n")


def as_markdown(made: Preview) -> str:
    then = made.against if made.against and not made.new else None
    said = [f"### `{made.stack}`" + (" (new)" if made.new else ""), ""]
    if made.lines:
        said += [f"| | now |{f' at {then} |' if then else ''}", f"|---|---|{'---|' if then else ''}"]
        said += [_row(line, then is not None) for line in made.lines] + [""]
    if made.settings is not None:
        said += [f"**Settings against {then}**", ""]
        said += [f"- `{line}`" for line in made.settings] or ["none differs"]
        said += [""]
    said += ["**Resources against what is deployed**", ""]
    if made.changes:
        said += ["| action | resource | because of |", "|---|---|---|"]
        said += [f"| {one.action} | `{one.resource}` | {', '.join(one.because)} |" for one in made.changes]
    else:
        said += ["no changes"]
    return "\n".join(said)


def as_json_text(made: Preview) -> str:
    document = {
        "stack": made.stack,
        "against": made.against,
        "new": made.new,
        "stack_report": made.facts,
        "then_and_now": [asdict(line) for line in made.lines] if made.against else None,
        "settings": made.settings,
        "resources": [asdict(change) for change in made.changes],
    }
    return json.dumps(document, indent=1)


def _row(line: Line, compared: bool) -> str:
    now = f"**{line.now}**" if compared and line.changed else line.now
    return f"| {line.title} | {now} |" + (f" {line.then} |" if compared else "")


def _because(change: Change) -> str:
    return f" ({', '.join(change.because)})" if change.because else ""


# --- all stacks ---


def _report(settings: StackSettings) -> StackReport | None:
    return report.of_stack(settings, run_spec(settings)) if isinstance(settings, TpuVmSettings) else None


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
        lines = ["| " + " | ".join(row) + " |" for row in (_COLUMNS, ("---",) * len(_COLUMNS), *rows)]
        return "\n".join(lines)
    errors = [f"{stack}: {target}" for stack, target, *_ in rows if target.startswith(_ERROR)]
    table = tables.columns(_COLUMNS, [row for row in rows if not row[1].startswith(_ERROR)])
    return "\n".join([tables.plain(table, _FIGURES, _DISPENSABLE), *errors])


def _summary(stack: str) -> tuple[str, ...]:
    """A stack's row; one that cannot be read says so in its place."""
    cells = dict.fromkeys(_COLUMNS, "-") | {"stack": stack}
    try:
        settings = stack_settings.any_from_file(stack)
        made = _report(settings)
    except SettingsError as error:
        return tuple((cells | {"target": f"{_ERROR}{error}"}).values())
    cells["target"] = str(settings.target)
    if made:
        cells |= _of_slices(made)
    elif isinstance(settings, Settings):
        chips, hosts = settings.row.chips * settings.slices, settings.row.hosts * settings.slices
        cells |= {"chips": f"{chips:,}", "slices": f"{settings.slices}", "hosts": f"{hosts}"}
        cells |= {"$/hour": "$0", "$/run": "$0"}
    else:
        cells |= {"zones": settings.place, "$/hour": report.UNKNOWN}
    return tuple(cells.values())


def _of_slices(made: StackReport) -> dict[str, str]:
    share = made.fit.verdict.share
    return {
        "chips": f"{made.chips:,}",
        "slices": f"{made.slices}",
        "hosts": f"{made.hosts}",
        "mesh": made.mesh,
        "HBM": report.UNKNOWN if share is None else f"{share:.0%}",
        "tier": made.tier,
        "zones": " ".join(made.zones),
        "$/hour": usd(made.cost.usd_per_hour),
        "$/run": made.cost.run_text,
        "quota": made.quota.name or report.UNKNOWN,
    }
