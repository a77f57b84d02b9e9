"""`slipway preview`: what a stack is, costs and changes, as people, programs and pull requests read it.

Entry point: runs the engine's preview, prints, picks the exit code. Refuses to own a fact: infra/preview/.
"""

from __future__ import annotations

import json
import sys
from dataclasses import asdict, dataclass
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from infra import settings as stack_settings
from infra.operate.terminal import fail
from infra.preview import compare, report, resources
from infra.preview.compare import Line
from infra.preview.report import StackReport, usd
from infra.preview.resources import Change, PreviewError
from infra.settings import AnySettings, Settings, SettingsError
from infra.targets.tpu_vm_plan import run_spec
from infra.targets.tpu_vm_settings import TpuVmSettings

_WIDE = 200  # columns where no terminal sets them


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
        changes=resources.run(stack),
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


def _report(settings: AnySettings) -> StackReport | None:
    return report.of_stack(settings, run_spec(settings)) if isinstance(settings, TpuVmSettings) else None


_ERROR = "error: "
# Where a terminal is too narrow, in this order; the name says tier and slices, `slipway preview STACK` the rest.
_DISPENSABLE = ("quota", "target", "tier", "slices", "hosts", "zones", "mesh")
_COLUMNS = ("stack", "target", "chips", "slices", "hosts", "mesh", "tier", "zones", "$/hour", "$/run at most", "quota")


def _all_stacks(as_json: bool, markdown: bool) -> str:
    rows = [_summary(stack) for stack in stack_settings.stack_names()]
    if as_json:
        return json.dumps([dict(zip(_COLUMNS, row, strict=True)) for row in rows], indent=1)
    if markdown:
        lines = ["| " + " | ".join(row) + " |" for row in (_COLUMNS, ("---",) * len(_COLUMNS), *rows)]
        return "\n".join(lines)
    errors = [f"{stack}: {target}" for stack, target, *_ in rows if target.startswith(_ERROR)]
    return "\n".join([*_table([row for row in rows if not row[1].startswith(_ERROR)]), *errors])


def _table(rows: list[tuple[str, ...]]) -> list[str]:
    """Lines, as many columns as a terminal has room for."""
    columns: dict[str, list[str]] = {title: [row[at] for row in rows] for at, title in enumerate(_COLUMNS)}
    left_out = narrow(columns, Console().width) if sys.stdout.isatty() else []
    table = Table(box=None, pad_edge=False, header_style="bold")
    for title in columns:
        right = title in ("chips", "slices", "hosts", "$/hour", "$/run at most")
        table.add_column(title, justify="right" if right else "left", no_wrap=True)
    for row in zip(*columns.values(), strict=True):
        table.add_row(*map(escape, row))
    console = Console(width=_WIDE, force_terminal=False, highlight=False)
    with console.capture() as captured:
        console.print(table)
    lines = [line.rstrip() for line in captured.get().splitlines()]
    return lines + ([f"left out of a narrow terminal: {', '.join(left_out)}"] if left_out else [])


def narrow(columns: dict[str, list[str]], width: int) -> list[str]:
    """Removes what a terminal has no room for; returns its titles."""
    left_out: list[str] = []
    for title in [title for title in _DISPENSABLE if title in columns]:
        if sum(max(map(len, (title, *cells))) + 2 for title, cells in columns.items()) - 2 <= width:
            break
        del columns[title]
        left_out.append(title)
    return left_out


def _summary(stack: str) -> tuple[str, ...]:
    """A stack's row; one that cannot be read says so in its place."""
    try:
        settings = stack_settings.any_from_file(stack)
        made = _report(settings)
    except SettingsError as error:
        return (stack, f"{_ERROR}{error}", *("-" for _ in _COLUMNS[2:]))
    if made:
        quota = made.quota.name or report.UNKNOWN
        money = (usd(made.cost.usd_per_hour), usd(made.cost.usd_per_run))
        size = (f"{made.chips:,}", f"{made.slices}", f"{made.hosts}", made.mesh, made.tier, " ".join(made.zones))
        return (stack, "tpu-vm", *size, *money, quota)
    if isinstance(settings, Settings):
        row = settings.row
        size = (f"{row.chips * settings.slices:,}", f"{settings.slices}", f"{row.hosts * settings.slices}")
        return (stack, str(settings.target), *size, "-", "-", "-", "$0", "$0", "-")
    return (stack, "foundation", *("-" for _ in _COLUMNS[2:7]), settings.region, report.UNKNOWN, "-", "-")
