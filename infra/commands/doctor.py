"""`slipway doctor`: prints what was looked at, one line each. Entry point; the looking: infra/doctor/."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import Annotated

import typer
from rich.console import Console
from rich.markup import escape

from infra.doctor.findings import findings
from infra.targets.needs import Finding, Outcome

_COLOUR = {Outcome.OK: "green", Outcome.WRONG: "red", Outcome.NOT_ASKED: "yellow"}


def doctor(
    stack: Annotated[str, typer.Argument(help="A stack; without one, what every stack needs.")] = "",
    as_json: Annotated[bool, typer.Option("--json", help="A list of objects.")] = False,
) -> None:
    """What a stack needs and whether it is there, one line each with the fix; changes nothing. 1 if any is wrong."""
    console = Console()
    found: list[Finding] = []
    for finding in findings(stack or None):
        found.append(finding)
        if not as_json:
            verdict = f"[{_COLOUR[finding.verdict]}]{finding.verdict:<10}[/]"
            console.print(f"{verdict}{finding.what:<13}{escape(finding.said)}", highlight=False, soft_wrap=True)
    if as_json:
        typer.echo(json.dumps([asdict(finding) for finding in found], indent=1))
    if any(finding.verdict is Outcome.WRONG for finding in found):
        raise typer.Exit(1)
